package operators

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Punctuation is what a watermark function said of a record.
type Punctuation struct {
	// Watermark: no record of its split at or before it comes behind this one. abi.NoTime: it says nothing.
	Watermark int64
	// Fault: it failed, and the record goes to the source's error policy. Nil: it did not.
	Fault error
}

// Punctuator runs a watermark function over the records of a poll.
type Punctuator interface {
	// Punctuate appends one answer per record of b to into. An error is no single record's doing.
	Punctuate(b *abi.Batch, nowMS int64, into []Punctuation) ([]Punctuation, error)
	Close() error
}

// punctuation is what an intake keeps where a function decides the watermark. What happened in a poll is
// noted and taken in order at its end, when the function has seen the records: so the marks are where the
// records are, whatever the polls.
type punctuation struct {
	run     Punctuator // nil before the first record
	events  []passed
	answers []Punctuation
	gone    []bool // records that the policy sent away
}

// passed is something that happened in a poll.
type passed struct {
	what   passing
	split  int
	record int   // of the batch; -1: it is not in it
	time   int64 // to go by
	n      int64 // records decoded before it
	beyond bool  // what the function says is too far ahead of the clock, by the script
}

type passing int

const (
	passedRecord passing = iota
	passedEnd            // the split has ended
	passedLook           // it was looked at and had nothing further
	passedIdle           // it became idle, by the script
)

// Punctuate takes what a function said behind a record of a split. If the task's watermark moves by that, it
// returns the new one and true. What goes back, is beyond the horizon or is no time is counted and ignored.
func (w *Watermarks) Punctuate(split int, ms int64) (int64, bool) {
	s := &w.splits[split]
	if ms < s.mark || ms > w.horizon || ms == abi.MaxWatermark {
		w.ignored++
		return 0, false
	}
	if ms == s.mark {
		return 0, false
	}
	s.mark = ms
	return w.advance()
}

// punctuate ends a poll that filled b.
func (in *Intake) punctuate(b *abi.Batch) error {
	p := in.punct
	p.answers, p.gone = p.answers[:0], p.gone[:0]
	if b.Len() > 0 {
		var err error
		if p.run == nil {
			if in.ctx.Punctuator == nil {
				return fmt.Errorf("source %s: there is no watermark function", in.node.ID)
			}
			if p.run, err = in.ctx.Punctuator(in.ctx); err != nil {
				return err
			}
		}
		if p.answers, err = p.run.Punctuate(b, in.nowMS(), p.answers); err != nil {
			return err
		}
	}
	kept := 0
	for _, e := range p.events {
		w, moved, err := in.pass(b, e, &kept)
		if err != nil {
			return err
		}
		if n := len(b.Marks); moved && (n == 0 || b.Marks[n-1].Watermark < w) {
			b.Marks = append(b.Marks, abi.Mark{Index: uint32(kept), Watermark: w})
		}
	}
	p.events = p.events[:0]
	if kept < b.Len() {
		remove(b, p.gone)
	}
	return nil
}

// pass takes one event. kept counts the records that stay.
func (in *Intake) pass(b *abi.Batch, e passed, kept *int) (mark int64, moved bool, err error) {
	switch {
	case e.what == passedEnd:
		mark, moved = in.wm.Finish(e.split)
		return mark, moved, nil
	case e.what == passedLook:
		mark, moved = in.caughtUp(e.split, e.n)
		return mark, moved, nil
	case e.what == passedIdle:
		mark, moved = in.silence(e.split, e.n)
		return mark, moved, nil
	case e.record < 0:
		mark, moved = in.wm.Observe(e.split, e.time)
		return mark, moved, nil
	}
	a := in.punct.answers[e.record]
	in.punct.gone = append(in.punct.gone, a.Fault != nil)
	if a.Fault != nil {
		mark, moved = in.wm.Observe(e.split, abi.NoTime)
		return mark, moved, in.failed(b.Frame(e.record).Record(), a.Fault)
	}
	*kept++
	mark, moved = in.wm.Observe(e.split, e.time)
	if a.Watermark == abi.NoTime {
		return mark, moved, nil
	}
	if w, ok := in.told(e, a.Watermark); ok {
		mark, moved = w, true
	}
	return mark, moved, nil
}

// failed treats a record at which the watermark function failed.
func (in *Intake) failed(r abi.Record, cause error) error {
	policy := PolicyStop
	if in.node.Source.OnError != nil {
		policy = in.node.Source.OnError.Policy
	}
	return in.apply(policy, in.node.ID, KindPunctuation, &r, cause)
}

// remove takes records out of a batch; its marks are those of what is left already.
func remove(b *abi.Batch, gone []bool) {
	data, off, hash := b.Data[:0], b.Off[:0], b.Hash[:0]
	for i := range gone {
		if gone[i] {
			continue
		}
		f := b.Frame(i)
		off = append(off, uint32(len(data)))
		data = append(data, f...)
		if len(b.Hash) > 0 {
			hash = append(hash, b.Hash[i])
		}
	}
	b.Data, b.Off, b.Hash = data, off, hash
}

// Close gives up what the intake holds.
func (in *Intake) Close() error {
	if in == nil || in.punct == nil || in.punct.run == nil {
		return nil
	}
	run := in.punct.run
	in.punct.run = nil
	return run.Close()
}
