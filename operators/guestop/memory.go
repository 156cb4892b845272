package guestop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state/memimage"
)

// memory is what an operator whose module has snapshot: memory keeps of its instance. A faulting record
// can't be undone there: the job starts again from its checkpoint and is told to skip it.
type memory struct {
	keeper *memimage.Keeper
	lost   bool // a fault has left the instance in an unknown state
}

// LostMemory is the fault of a record in an instance whose own variables are state. Restored from the
// newest checkpoint, and with the record given back as operators.Skip, the job goes on as the error policy says.
type LostMemory struct {
	Skip  operators.Skip
	Fault *Fault
}

// Error implements error.
func (e *LostMemory) Error() string {
	return fmt.Sprintf("operator %s: the instance's memory is state, and a record spoilt it: %v", e.Skip.Operator, e.Fault)
}

// Unwrap implements errors.
func (e *LostMemory) Unwrap() error { return e.Fault }

// openMemory makes the keeper and takes over what the checkpoint has; the instance is there.
func (o *Op) openMemory() error {
	if o.node.Instances == 0 {
		return nil
	}
	guest, ok := o.guest.(Imager)
	if !ok {
		return fmt.Errorf("operator %s: this engine can't capture an instance's memory", o.ctx.Operator)
	}
	k, err := memimage.New(memimage.Config{Dir: filepath.Join(o.ctx.WorkDir, "memory"), FS: o.cfg.FS, Objects: o.ctx.Objects,
		Seed: o.ctx.Hasher.Seed})
	if err != nil {
		return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	o.memory = &memory{keeper: k}
	snap, err := restoredMemory(o.ctx)
	if err != nil || snap == nil {
		return err
	}
	if err := k.Restore(o.ctx, *snap, guest.Adopt); err != nil {
		return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	return nil
}

// restoredMemory is what the checkpoint has of this task's instance; nil: the operator, or its memory being state,
// is new.
func restoredMemory(ctx *operators.Context) (*memimage.Snapshot, error) {
	if !slices.ContainsFunc(ctx.Restored, func(s checkpoint.OperatorSnapshot) bool { return s.Memory != nil }) {
		return nil, nil
	}
	if n := len(ctx.Restored); n != ctx.Parallelism {
		return nil, fmt.Errorf("operator %s: the checkpoint has the memory of %d instances, there are %d tasks", ctx.Operator, n, ctx.Parallelism)
	}
	return ctx.Restored[ctx.Task].Memory, nil
}

// cutMemory begins to write the instance's memory as it is.
func (o *Op) cutMemory(ctx context.Context) (*memimage.Cut, error) {
	c, err := o.memory.keeper.Cut(ctx, o.guest.(Imager).Capture)
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	return c, nil
}

// both is a cut of keyed state and of memory.
type both struct {
	*pending
	memory *memimage.Cut
	done   chan struct{}
}

func newBoth(p *pending, m *memimage.Cut) *both {
	b := &both{pending: p, memory: m, done: make(chan struct{})}
	go func() {
		<-p.Done()
		<-m.Done()
		close(b.done)
	}()
	return b
}

// Done implements operators.Pending.
func (b *both) Done() <-chan struct{} { return b.done }

// Result implements operators.Pending.
func (b *both) Result() (checkpoint.OperatorSnapshot, error) {
	s, err := b.pending.Result()
	if err != nil {
		return s, err
	}
	m, err := b.memory.Result()
	s.Memory = &m
	return s, err
}

// lostMemory is how a fault that can't be undone ends the attempt; nil: it can be undone.
func (o *Op) lostMemory(kind uint32, b *abi.Batch, i int, fault *Fault) error {
	if o.memory == nil || !o.memory.lost {
		return nil
	}
	if o.node.OnError.Policy == operators.PolicyStop {
		return o.policy(kind, b, i, fault)
	}
	s := skipOf(b.Frame(i))
	s.Operator, s.Cause = o.ctx.Operator, fault
	return &LostMemory{s, fault}
}

// skipOf tells a record or timer from others: by where it came from and what it is.
func skipOf(f abi.Frame) operators.Skip {
	h := xxh3.Hash(f.Key()) ^ xxh3.HashSeed(f.Value(), uint64(f.Time()))
	return operators.Skip{Pos: f.Pos(), Hash: h}
}

// skipped finds the first record from i on that an earlier attempt could not do, and its fault; -1: none.
func (o *Op) skipped(b *abi.Batch, i int) (*Fault, int) {
	if len(o.skips) == 0 {
		return nil, -1
	}
	for ; i < b.Len(); i++ {
		is := skipOf(b.Frame(i))
		for j, s := range o.skips {
			if s.Pos != is.Pos || s.Hash != is.Hash {
				continue
			}
			o.skips = append(o.skips[:j:j], o.skips[j+1:]...)
			var f *Fault
			if !errors.As(s.Cause, &f) {
				f = o.fault(FaultTrap, i, "%v", s.Cause)
			}
			return f, i
		}
	}
	return nil, -1
}
