package task

import (
	"context"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
)

// Mode says which of the receiving tasks gets a record.
type Mode int

// Modes of an exchange.
const (
	Forward Mode = iota // the one task of the same number
	ByKey               // by the slot of the key's hash; the hash travels along
	BySplit             // by the source split, so that a split's records keep their order
)

// Writer is the sending end of an edge in one task: it gathers records into one batch per receiving task.
// Marks go to all of them, at their place among the records.
type Writer struct {
	ctx     context.Context
	mode    Mode
	chans   []*Channel
	cur     []*abi.Batch
	hasher  state.Hasher
	max     int   // records per batch
	since   int64 // Mono when something began to wait; 0: nothing waits
	now     func() int64
	pending bool
}

// NewWriter makes a writer over the channels to each receiving task, in task order.
func NewWriter(mode Mode, chans []*Channel, h state.Hasher, maxRecords int) *Writer {
	w := &Writer{mode: mode, chans: chans, hasher: h, max: maxRecords, cur: make([]*abi.Batch, len(chans))}
	for i, c := range chans {
		w.cur[i] = c.take()
	}
	return w
}

// write adds a batch's records and marks.
func (w *Writer) write(b *abi.Batch) error {
	if !w.pending {
		w.pending, w.since = true, w.now()
	}
	marks := b.Marks
	n := b.Len()
	for i := 0; i <= n; i++ {
		for len(marks) > 0 && int(marks[0].Index) == i {
			if err := w.mark(marks[0].Watermark); err != nil {
				return err
			}
			marks = marks[1:]
		}
		if i == n {
			break
		}
		end := n
		if len(marks) > 0 {
			end = int(marks[0].Index)
		}
		if err := w.records(b, i, end); err != nil {
			return err
		}
		i = end - 1
	}
	return nil
}

// mark adds a mark for every receiving task; a task that gets marks and no records gets a batch of them.
func (w *Writer) mark(wm int64) error {
	for t, c := range w.cur {
		c.Mark(wm)
		if len(c.Marks) >= abi.MaxBatchRecords {
			if err := w.send(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// records adds records [lo, hi), between which there is no mark.
func (w *Writer) records(b *abi.Batch, lo, hi int) error {
	for i := lo; i < hi; i++ {
		f := b.Frame(i)
		t := 0
		var h uint64
		switch w.mode {
		case ByKey:
			if i < len(b.Hash) {
				h = b.Hash[i]
			} else {
				h = w.hasher.Hash(f.Key())
			}
			if len(w.cur) > 1 {
				t = state.TaskOf(h, len(w.cur))
			}
		case BySplit:
			t = int(f.Pos().Split) % len(w.cur)
		}
		c := w.cur[t]
		if len(c.Data) > 0 && len(c.Data)+len(f) > abi.MaxBatchBytes {
			if err := w.send(t); err != nil {
				return err
			}
			c = w.cur[t]
		}
		c.AppendFrame(f)
		if w.mode == ByKey {
			c.Hash = append(c.Hash, h)
		}
		if c.Len() >= w.max {
			if err := w.send(t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) send(t int) error {
	b := w.cur[t]
	if b.Empty() {
		return nil
	}
	if err := w.chans[t].send(w.ctx, item{batch: b}); err != nil {
		return err
	}
	w.cur[t] = w.chans[t].take()
	return nil
}

// flush sends what waits.
func (w *Writer) flush() error {
	if !w.pending {
		return nil
	}
	for t := range w.cur {
		if err := w.send(t); err != nil {
			return err
		}
	}
	w.pending = false
	return nil
}

// barrier flushes and sends a barrier to every receiving task.
func (w *Writer) barrier(b checkpoint.Barrier) error { return w.control(item{barrier: b}) }

// control flushes and sends what is no batch to every receiving task.
func (w *Writer) control(it item) error {
	if err := w.flush(); err != nil {
		return err
	}
	for _, c := range w.chans {
		if err := c.send(w.ctx, it); err != nil {
			return err
		}
	}
	return nil
}
