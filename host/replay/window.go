package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
)

// windowTwin runs a window operator in one task, and beside it one with other functions or settings. Only their
// outputs are compared: what they keep has no form of its own.
type windowTwin struct {
	*window.Op
	cand   *window.Op // nil: nothing to compare, or it could not go on
	old    windowOutput
	now    windowOutput
	tally  *tally
	second func(*operators.Context) *operators.Context
	keys   *keyFilter
	ctx    *operators.Context
	single bool
	clock  heldClock
	one    abi.Batch
	copied abi.Batch
	stop   func() bool
}

// Open implements operators.Operator.
func (t *windowTwin) Open(ctx *operators.Context) error {
	t.ctx = ctx
	if t.cand == nil {
		return t.Op.Open(ctx)
	}
	half := *ctx
	half.Budget /= 2
	t.clock.ms = ctx.Clock.NowMS()
	half.Clock = &t.clock
	if err := t.Op.Open(&half); err != nil {
		return err
	}
	t.tally.open(ctx)
	if err := t.cand.Open(t.second(&half)); err != nil {
		return fmt.Errorf("%w: %w", errCandidate, errors.Join(err, t.cand.Close()))
	}
	t.stop = context.AfterFunc(ctx, t.cand.Stop)
	return nil
}

// Batch implements operators.Operator.
func (t *windowTwin) Batch(input int, b *abi.Batch, out operators.Collector) error {
	if t.keys != nil {
		b = t.keys.batch(b)
	}
	if t.tally == nil {
		return t.Op.Batch(input, b, out)
	}
	if !t.single || b.Len() <= 1 && len(b.Marks) <= 1 {
		return t.both(input, b, out)
	}
	return each(b, &t.one, func(one *abi.Batch) error { return t.both(input, one, out) })
}

func (t *windowTwin) both(input int, b *abi.Batch, out operators.Collector) error {
	if t.cand == nil {
		t.tally.missed(b.Len())
		return t.Op.Batch(input, b, out)
	}
	c := &t.copied
	c.Data, c.Off = append(c.Data[:0], b.Data...), append(c.Off[:0], b.Off...)
	c.Hash, c.Marks = append(c.Hash[:0], b.Hash...), append(c.Marks[:0], b.Marks...)
	t.begin(out)
	t.clock.ms = t.ctx.Clock.NowMS()
	t.tally.got(b.Len())
	if err := t.Op.Batch(input, b, &t.old); err != nil {
		return err
	}
	return t.after(t.cand.Batch(input, c, &t.now))
}

func (t *windowTwin) begin(out operators.Collector) {
	t.old = windowOutput{r: t.old.r, out: out}
	t.now = windowOutput{r: t.now.r}
	t.old.r.reset()
	t.now.r.reset()
}

func (t *windowTwin) after(err error) error {
	if t.ctx.Err() != nil {
		return t.ctx.Err()
	}
	if e := t.tally.results(&t.old.r, &t.now.r); e != nil {
		return e
	}
	if err != nil {
		t.tally.stopped(err)
		cand := t.cand
		t.cand = nil
		t.stop()
		return cand.Close()
	}
	return nil
}

// NextProcessing implements operators.ProcessingTimer.
func (t *windowTwin) NextProcessing() (int64, bool) {
	if t.cand == nil {
		return t.Op.NextProcessing()
	}
	return sooner(t.Op, t.cand)
}

// OnProcessingTime implements operators.ProcessingTimer.
func (t *windowTwin) OnProcessingTime(nowMS int64, out operators.Collector) error {
	if t.cand == nil {
		return t.Op.OnProcessingTime(nowMS, out)
	}
	t.begin(out)
	t.clock.ms = nowMS
	if err := t.Op.OnProcessingTime(nowMS, &t.old); err != nil {
		return err
	}
	return t.after(t.cand.OnProcessingTime(nowMS, &t.now))
}

// Barrier implements operators.Snapshotter.
func (t *windowTwin) Barrier(b checkpoint.Barrier) (operators.Pending, error) { return t.Op.Barrier(b) }

// Close implements operators.Operator.
func (t *windowTwin) Close() error {
	err := t.Op.Close()
	if t.cand != nil {
		if t.stop != nil {
			t.stop()
		}
		err = errors.Join(err, t.cand.Close())
	}
	return err
}

// windowOutput notes what a window operator gives in one call, and hands it on.
type windowOutput struct {
	r   recorder
	out operators.Collector // nil: to nobody
}

// Emit implements operators.Collector. Every result is a cause of its own: it is found again by its output and key, and
// by its number among those.
func (w *windowOutput) Emit(output int, b *abi.Batch) error {
	for i := range b.Len() {
		f := b.Frame(i)
		s := step{kind: abi.KindEventTimers, pos: f.Pos(), time: f.Time(), key: w.r.keep(f.Key())}
		if output == operators.OutputDeadLetter {
			_, d := operators.SplitDeadLetter(f)
			s.fail = w.r.keep([]byte(d.Error))
		}
		s.name = w.r.keep([]byte{byte(output)})
		w.r.steps = append(w.r.steps, s)
		w.r.outs = append(w.r.outs, emitted{len(w.r.steps) - 1, w.r.keep(f)})
	}
	if w.out == nil {
		return nil
	}
	return w.out.Emit(output, b)
}
