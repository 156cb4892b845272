package task

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// barrierArrived asks the aligner what a barrier on a channel means.
func (t *Task) barrierArrived(c *Channel, b checkpoint.Barrier) error {
	d, err := t.align.Barrier(c.index, b)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.cfg.ID, err)
	}
	return t.decide(c.index, d)
}

func (t *Task) decide(channel int, d checkpoint.Decision) error {
	blocked := t.cfg.Inbox.blocked
	if d.Unblock {
		clear(blocked)
	}
	if d.Block {
		blocked[channel] = true
	}
	if d.Cut.ID != 0 {
		return t.snapshot(d.Cut)
	}
	return nil
}

// abort gives a checkpoint up. What the cut wrote already is of no use to anyone and goes with the next.
func (t *Task) abort(id checkpoint.ID) error {
	if t.final == id { // a stop that failed: go on, another will come
		t.final = 0
	}
	if t.align == nil {
		return nil
	}
	return t.decide(0, t.align.Abort(id))
}

// rejected emits the dead letters of the last poll, with the poll's watermark at their end: also without a
// letter, since those behind must learn of the end of input.
func (t *Task) rejected(src operators.Rejecter, watermark int64) error {
	b := src.Rejected()
	if b == nil {
		b = &t.noLetters
		b.Reset()
	}
	if watermark > t.lettersAt {
		b.Mark(watermark)
		t.lettersAt = watermark
	}
	if b.Empty() {
		return nil
	}
	return t.cfg.Stages[0].Emit(operators.OutputDeadLetter, b)
}
