package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// twin runs a guest operator in one task: the old version, and beside it the new one, each with its own state. What
// comes in goes to both; what comes out, and what goes into snapshots, is the old one's.
type twin struct {
	base   *guestop.Op
	cand   *guestop.Op // nil: there is nothing to compare, or it could not go on
	old    recorder
	now    recorder
	tally  *tally // nil without a new version
	second func(*operators.Context) *operators.Context
	single bool // one record a call
	keys   *keyFilter
	ctx    *operators.Context
	opened func(*operators.Context)
	clock  heldClock // of both versions: they see the same time
	one    abi.Batch
	copied abi.Batch
	stop   func() bool // of the watch that stops a call when the replay is cancelled
}

// Open implements operators.Operator.
func (t *twin) Open(ctx *operators.Context) error {
	t.ctx = ctx
	if t.opened != nil {
		t.opened(ctx)
	}
	if t.cand == nil {
		return t.base.Open(ctx)
	}
	half := *ctx
	half.Budget /= 2
	t.clock.ms = ctx.Clock.NowMS()
	half.Clock = &t.clock
	if err := t.base.Open(&half); err != nil {
		return err
	}
	t.tally.open(ctx)
	if err := t.cand.Open(t.second(&half)); err != nil {
		return fmt.Errorf("%w: %w", errCandidate, errors.Join(err, t.cand.Close()))
	}
	cand := t.cand
	t.stop = context.AfterFunc(ctx, cand.Stop)
	return nil
}

// errCandidate says that the new version did not start.
var errCandidate = errors.New("the new version can't start")

// Batch implements operators.Operator.
func (t *twin) Batch(input int, b *abi.Batch, out operators.Collector) error {
	if t.keys != nil {
		b = t.keys.batch(b)
	}
	if !t.single || b.Len() <= 1 && len(b.Marks) <= 1 {
		return t.both(input, b, out)
	}
	return each(b, &t.one, func(one *abi.Batch) error { return t.both(input, one, out) })
}

// each calls f with the records of a batch one by one, marks in their places. one is scratch.
func each(b, one *abi.Batch, f func(*abi.Batch) error) error {
	marks := b.Marks
	for i := range b.Len() {
		one.Reset()
		one.AppendFrame(b.Frame(i))
		if len(b.Hash) > 0 {
			one.Hash = append(one.Hash, b.Hash[i])
		}
		for ; len(marks) > 0 && int(marks[0].Index) <= i; marks = marks[1:] {
			one.Marks = append(one.Marks, abi.Mark{Index: 0, Watermark: marks[0].Watermark})
		}
		if err := f(one); err != nil {
			return err
		}
	}
	if len(marks) == 0 {
		return nil
	}
	one.Reset()
	for _, m := range marks {
		one.Marks = append(one.Marks, abi.Mark{Index: 0, Watermark: m.Watermark})
	}
	return f(one)
}

// both gives a batch to both versions.
func (t *twin) both(input int, b *abi.Batch, out operators.Collector) error {
	if t.cand == nil {
		if t.tally != nil {
			t.tally.missed(b.Len())
		}
		return t.base.Batch(input, b, out)
	}
	c := &t.copied
	c.Data, c.Off = append(c.Data[:0], b.Data...), append(c.Off[:0], b.Off...)
	c.Hash, c.Marks = append(c.Hash[:0], b.Hash...), append(c.Marks[:0], b.Marks...)
	t.old.reset()
	t.now.reset()
	t.clock.ms = t.ctx.Clock.NowMS()
	if err := t.base.Batch(input, b, out); err != nil {
		return err
	}
	return t.after(t.cand.Batch(input, c, nowhere{}))
}

// after compares what both did; err is what the new version failed with.
func (t *twin) after(err error) error {
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	if e := t.tally.take(&t.old, &t.now); e != nil {
		return e
	}
	if err != nil {
		t.tally.stopped(err)
		cand := t.cand
		t.cand = nil
		t.stop()
		return errors.Join(cand.Close())
	}
	return nil
}

// NextProcessing implements operators.ProcessingTimer.
func (t *twin) NextProcessing() (int64, bool) {
	if t.cand == nil {
		return t.base.NextProcessing()
	}
	return sooner(t.base, t.cand)
}

// sooner is when the first of two wants to be called.
func sooner(a, b operators.ProcessingTimer) (int64, bool) {
	at, ok := a.NextProcessing()
	if x, has := b.NextProcessing(); has && (!ok || x < at) {
		return x, true
	}
	return at, ok
}

// OnProcessingTime implements operators.ProcessingTimer.
func (t *twin) OnProcessingTime(nowMS int64, out operators.Collector) error {
	t.old.reset()
	t.now.reset()
	t.clock.ms = nowMS
	if err := t.base.OnProcessingTime(nowMS, out); err != nil || t.cand == nil {
		return err
	}
	return t.after(t.cand.OnProcessingTime(nowMS, nowhere{}))
}

// Barrier implements operators.Snapshotter.
func (t *twin) Barrier(b checkpoint.Barrier) (operators.Pending, error) { return t.base.Barrier(b) }

// Step implements operators.Snapshotter.
func (t *twin) Step() (bool, error) { return t.base.Step() }

// Complete implements operators.Snapshotter.
func (t *twin) Complete(id checkpoint.ID) error { return t.base.Complete(id) }

// Close implements operators.Operator.
func (t *twin) Close() error {
	err := t.base.Close()
	if t.cand != nil {
		if t.stop != nil {
			t.stop()
		}
		err = errors.Join(err, t.cand.Close())
	}
	return err
}

// nowhere takes what the new version emits: its recorder has it.
type nowhere struct{}

// Emit implements operators.Collector.
func (nowhere) Emit(int, *abi.Batch) error { return nil }

// keyFilter leaves records of some keys in batches, and all marks.
type keyFilter struct {
	wanted func(key []byte) bool
	out    abi.Batch
}

func (k *keyFilter) batch(b *abi.Batch) *abi.Batch {
	o := &k.out
	o.Reset()
	marks := b.Marks
	for i := range b.Len() {
		for ; len(marks) > 0 && int(marks[0].Index) <= i; marks = marks[1:] {
			o.Marks = append(o.Marks, abi.Mark{Index: uint32(o.Len()), Watermark: marks[0].Watermark})
		}
		if f := b.Frame(i); k.wanted(f.Key()) {
			o.AppendFrame(f)
			if len(b.Hash) > 0 {
				o.Hash = append(o.Hash, b.Hash[i])
			}
		}
	}
	for _, m := range marks {
		o.Marks = append(o.Marks, abi.Mark{Index: uint32(o.Len()), Watermark: m.Watermark})
	}
	return o
}
