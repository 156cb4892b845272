package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
)

// theEngine is shared by the figures that need operators or jobs.
var theEngine = sync.OnceValues(func() (*engine.Engine, error) {
	return engine.New(context.Background(), engine.Options{})
})

// discard is the collector behind an operator that is measured alone. It counts.
type discard struct{ records int }

// Emit implements operators.Collector.
func (d *discard) Emit(_ int, b *abi.Batch) error {
	d.records += b.Len()
	return nil
}

// opSettings say how a guest operator is opened for a measurement.
type opSettings struct {
	module, function string
	kind             string // of the backend
	budget           int64
}

// opUnderTest is a guest operator with the real engine and the real state, without a task around it.
type opUnderTest struct {
	*guestop.Op
	out  discard
	dir  string
	stop []func() error
}

// hasher is that of all operators under test: batches are hashed ahead, as an exchange would have.
var hasher = state.Hasher{Seed: 20010101}

// openOp compiles the module of a case and opens its function.
func openOp(s opSettings) (u *opUnderTest, err error) {
	u = &opUnderTest{}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.close())
		}
	}()
	e, err := theEngine()
	if err != nil {
		return u, err
	}
	m, err := e.Compile(context.Background(), cases.Module(s.module), nil)
	if err != nil {
		return u, err
	}
	u.stop = append(u.stop, m.(*engine.Module).Close)
	node, err := guestNode(m.Descriptor(), s.function)
	if err != nil {
		return u, err
	}
	if u.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		return u, err
	}
	u.stop = append(u.stop, func() error { return os.RemoveAll(u.dir) })
	store, err := snapstore.Open(filepath.Join(u.dir, "snapshots"), snapstore.Options{})
	if err != nil {
		return u, err
	}
	u.stop = append(u.stop, store.Close)
	cold := coldpebble.New(filepath.Join(u.dir, "cold"), coldpebble.Options{CacheBytes: s.budget / 4, Log: slog.New(slog.DiscardHandler)})
	u.stop = append(u.stop, cold.Close)
	u.Op = guestop.New(guestop.Config{Node: node, Module: m, OpenKeyed: func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
		return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
			Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects,
			NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, cold) },
			NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, cold) }})
	}})
	u.stop = append(u.stop, u.Op.Close)
	ctx := &operators.Context{Context: context.Background(), Job: "bench", Operator: node.ID, Parallelism: 1,
		Range: state.TaskRange(0, 1), Hasher: hasher, Clock: clock.Wall{}, Log: slog.New(slog.DiscardHandler),
		WorkDir: filepath.Join(u.dir, "work"), Objects: store, Budget: s.budget, StateKind: s.kind,
		Batch: abi.DefaultBatchRecords, Describe: func(abi.Position) string { return "" }, Crash: func(string) {}}
	return u, u.Op.Open(ctx)
}

func (u *opUnderTest) close() error {
	var errs []error
	for i := len(u.stop) - 1; i >= 0; i-- {
		errs = append(errs, u.stop[i]())
	}
	u.stop = nil
	return errors.Join(errs...)
}

// pass returns one pass over the batches as a task makes it: a batch, then a step of whatever the state
// has to do.
func (u *opUnderTest) pass(batches []*abi.Batch, failed *error) func() int {
	return func() int {
		for _, b := range batches {
			if err := u.one(b); err != nil {
				*failed = err
				return 1
			}
		}
		return countRecords(batches)
	}
}

func (u *opUnderTest) one(b *abi.Batch) error {
	if err := u.Batch(0, b, &u.out); err != nil {
		return err
	}
	_, err := u.Step()
	return err
}

// guestNode is a keyed node for a function of a module.
func guestNode(d *abi.Descriptor, function string) (*operators.Node, error) {
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.Name != function {
			continue
		}
		g := &operators.GuestNode{Module: d.Name, Function: f.Name, Kind: f.Kind, Keyed: f.Keyed, Fn: f, Index: i,
			OnError: operators.ErrorPolicy{Policy: operators.PolicyStop}, Input: f.Input}
		if d.Snapshot == abi.SnapshotMemory {
			g.Instances, g.Memory, g.Fuel = 1, 256<<20, 100*abi.FuelPerRecord
		}
		return &operators.Node{ID: function, Kind: operators.NodeGuest, Parallelism: 1, Guest: g}, nil
	}
	return nil, fmt.Errorf("module %s has no function %s", d.Name, function)
}

// hashed adds the keys' hashes to batches.
func hashed(batches []*abi.Batch) []*abi.Batch {
	for _, b := range batches {
		b.Hash = b.Hash[:0]
		for i := range b.Off {
			b.Hash = append(b.Hash, hasher.Hash(b.Frame(i).Key()))
		}
	}
	return batches
}
