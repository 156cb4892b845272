package why

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// fate is what becomes of a record on its way into an operator.
type fate int

const (
	along fate = iota // with others, in one call
	alone             // in a call of its own, so that its effects can be told
	left              // not at all
)

// inner is what a slicer wraps: what a job runs.
type inner interface {
	operators.Operator
	operators.Snapshotter
	operators.ProcessingTimer
}

// slicer is an operator whose batches are cut, so that what is told comes alone.
type slicer struct {
	inner
	fate   func(f abi.Frame) fate
	opened func(*operators.Context)
	piece  abi.Batch
}

// Open implements operators.Operator.
func (s *slicer) Open(ctx *operators.Context) error {
	s.opened(ctx)
	return s.inner.Open(ctx)
}

// Batch implements operators.Operator.
func (s *slicer) Batch(input int, b *abi.Batch, out operators.Collector) error {
	marks := b.Marks
	s.piece.Reset()
	flush := func() error {
		if s.piece.Empty() {
			return nil
		}
		err := s.inner.Batch(input, &s.piece, out)
		s.piece.Reset()
		return err
	}
	for i := range b.Len() {
		for ; len(marks) > 0 && int(marks[0].Index) <= i; marks = marks[1:] {
			s.piece.Mark(marks[0].Watermark)
		}
		f := b.Frame(i)
		what := s.fate(f)
		if what == left {
			continue
		}
		if what == alone {
			if err := flush(); err != nil {
				return err
			}
		}
		s.piece.AppendFrame(f)
		if len(b.Hash) == b.Len() {
			s.piece.Hash = append(s.piece.Hash, b.Hash[i])
		}
		if what == alone {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	for _, m := range marks {
		s.piece.Mark(m.Watermark)
	}
	return flush()
}

// drain is a sink that writes nothing.
type drain struct{ ctx *operators.Context }

// Open implements operators.Operator.
func (d *drain) Open(ctx *operators.Context) error {
	d.ctx = ctx
	return nil
}

// Batch implements operators.Operator.
func (d *drain) Batch(int, *abi.Batch, operators.Collector) error { return nil }

// Close implements operators.Operator.
func (d *drain) Close() error { return nil }

// replayed is a source read again: as fast as it goes, and at its end where it would wait for more.
type replayed struct {
	operators.Source
	count func(int)
	look  func(*abi.Batch) // nil: the output is no record of it as it is
}

// Poll implements operators.Source.
func (r *replayed) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	st, err := r.Source.Poll(b, most)
	r.count(b.Len())
	if r.look != nil {
		r.look(b)
	}
	if st == operators.PollIdle && b.Empty() {
		st = operators.PollEnd
	}
	return st, err
}

// Intake implements operators.Timed; nil: the source has none.
func (r *replayed) Intake() *operators.Intake {
	if t, ok := r.Source.(operators.Timed); ok {
		return t.Intake()
	}
	return nil
}

// Rejected implements operators.Rejecter.
func (r *replayed) Rejected() *abi.Batch {
	if t, ok := r.Source.(operators.Rejecter); ok {
		return t.Rejected()
	}
	return &abi.Batch{}
}
