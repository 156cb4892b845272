package window

import (
	"bytes"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// With guest functions a batch is worked on in stretches. In one, records go into windows as ever, but guests
// only get notes of what to do, and outputs wait. commit ends it: the guests do their part in a few calls,
// blocks are stored, outputs go out. Where a record failed, nothing of the stretch is stored or goes out: it is
// done again without that record, so that it leaves no trace.

// stretch is where the current one began, and what to go back to.
type stretch struct {
	at      int // record
	marks   []abi.Mark
	wm, ref int64
	late    int64
	failed  map[int]*guestop.Fault // records, of the whole run of records
}

// guestRecords is Batch for records [lo, hi), whose keys are collected. It returns the marks behind them.
func (o *Op) guestRecords(b *abi.Batch, lo, hi int, marks []abi.Mark) ([]abi.Mark, error) {
	clear(o.stretch.failed)
	o.begin(lo, marks)
	for i := lo; ; {
		var err error
		again := false
		switch {
		case len(marks) > 0 && int(marks[0].Index) <= i && i < hi:
			again, err = o.guestMark(marks[0].Watermark, i, marks[1:])
			marks = marks[1:]
		case i == hi:
			again, err = o.commit()
			if err == nil && !again {
				return marks, o.failUnless(o.flushKeys())
			}
		default:
			again, err = o.guestRecord(b.Frame(i), i, int(o.keys.idx[i-lo]))
			if i++; err == nil && !again && o.queue.full() {
				if again, err = o.commit(); err == nil && !again {
					err = o.failUnless(o.flushKeys())
					o.begin(i, marks)
				}
			}
		}
		if err != nil {
			return marks, err
		}
		if again {
			if err := o.goBack(); err != nil {
				return marks, o.fail(err)
			}
			i, marks = o.stretch.at, o.stretch.marks
		}
	}
}

func (o *Op) failUnless(err error) error {
	if err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *Op) begin(at int, marks []abi.Mark) {
	s := &o.stretch
	s.at, s.marks, s.wm, s.ref, s.late = at, marks, o.wm, o.ref, o.stats.Late
}

// goBack undoes the stretch.
func (o *Op) goBack() error {
	s := &o.stretch
	o.wm, o.ref, o.stats.Late = s.wm, s.ref, s.late
	for _, j := range o.keys.dirty {
		o.keys.slots[j].dirty = false
	}
	o.keys.dirty = o.keys.dirty[:0]
	o.keys.epoch++
	o.soon = never
	o.clearQueue(false)
	if o.contents != nil {
		return o.contents.undo()
	}
	return nil
}

func (o *Op) clearQueue(accepted bool) {
	for _, g := range o.guests {
		g.steps.Reset(o.now, accepted)
		g.err = nil
	}
	o.queue.reset()
}

// guestRecord is record in a stretch; again: it failed, and the stretch has to be done without it.
func (o *Op) guestRecord(f abi.Frame, i, j int) (again bool, err error) {
	if fault := o.stretch.failed[i]; fault != nil {
		o.queue.items = append(o.queue.items, output{kind: outFailed, frame: f, fault: fault})
		return false, nil
	}
	o.queue.tag, o.queue.record = i, i
	o.in.frame = f
	err = o.record(f, j)
	o.in.frame = nil
	if err != nil {
		return false, err
	}
	for _, g := range o.guests {
		if g.err != nil {
			o.stretch.failed[i] = g.steps.Refused(g.err)
			return true, nil
		}
	}
	return false, nil
}

// guestMark is advance in a stretch. rest are the marks behind it.
func (o *Op) guestMark(w int64, i int, rest []abi.Mark) (again bool, err error) {
	if w <= o.wm {
		return false, nil
	}
	if at, ok := o.next(abi.DomainEvent); ok && at <= w || o.soon <= w {
		if again, err := o.commit(); again || err != nil {
			return again, err
		}
		if err := o.advance(w); err != nil {
			return false, o.fail(err)
		}
		o.begin(i, rest)
		return false, nil
	}
	o.wm, o.ref = w, w
	o.queue.items = append(o.queue.items, output{kind: outMark, mark: w})
	return false, nil
}

// commit ends a stretch, but for storing the blocks of its records; again: a record failed, it has to be gone
// back.
func (o *Op) commit() (again bool, err error) {
	bad, err := o.queue.run()
	if err != nil {
		return false, err
	}
	for _, f := range bad {
		o.stretch.failed[f.Tag] = f.Fault
	}
	if len(bad) > 0 {
		return true, nil
	}
	if err := o.queue.release(); err != nil {
		return false, err
	}
	if err := o.settle(); err != nil {
		return false, o.fail(err)
	}
	o.clearQueue(true)
	if o.contents != nil {
		o.contents.settled()
	}
	return false, nil
}

// settle brings accumulators and kept rows into their blocks.
func (o *Op) settle() error {
	if len(o.guests) > 0 {
		for _, j := range o.keys.dirty {
			s := &o.keys.slots[j]
			o.blk, s.blk = s.blk, o.blk
			o.settleBlock()
			o.blk, s.blk = s.blk, o.blk
			if len(s.blk) > abi.MaxStateValueBytes {
				return o.tooLarge(o.keys.list[j])
			}
		}
	}
	for _, k := range o.queue.keys { // whose blocks are stored
		v, ok, err := o.value.Load(state.NoPos, k)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		o.blk = append(o.blk[:0], v...)
		o.settleBlock()
		if err := o.value.Store(state.NoPos, k, o.blk); err != nil {
			return err
		}
	}
	return nil
}

func (o *Op) settleBlock() {
	l := o.l
	for off := l.header; off < len(o.blk); off += l.size(o.blk[off:]) {
		for i := range l.aggs {
			if g, ok := l.aggs[i].agg.(*guestAggregate); ok && o.w.Evictor == nil {
				g.settle(o, off, &l.aggs[i])
			}
		}
		if l.kept == 0 {
			continue
		}
		if n := o.at(off, l.kept); n > 0 {
			o.set(off, l.kept, 0)
			if last := o.queue.kept[n-1]; last.row != nil {
				r := &o.res
				r.kept = le.AppendUint64(r.kept[:0], uint64(last.sp.start))
				r.kept = le.AppendUint64(r.kept, uint64(last.sp.end))
				r.kept = append(r.kept, last.row...)
				o.blk = l.setVariable(o.blk, off, l.nvar-1, r.kept)
			}
		}
	}
}

// keptRow is the number of the row that the window at off gave last; -1: none.
func (o *Op) keptRow(off int) int {
	if n := o.at(off, o.l.kept); n > 0 {
		return int(n - 1)
	}
	old := o.l.variable(o.blk[off:], o.l.nvar-1)
	if len(old) == 0 {
		return -1
	}
	q := o.queue
	q.kept = append(q.kept, lastRow{span{word(old, 0), word(old, 8)}, bytes.Clone(old[16:])})
	return len(q.kept) - 1
}

// queueReplace queues a row in place of the one that the window gave before.
func (o *Op) queueReplace(k state.Key, off int, sp span, row []byte, refs int) {
	q := o.queue
	prev := o.keptRow(off)
	q.kept = append(q.kept, lastRow{})
	next := len(q.kept) - 1
	o.set(off, o.l.kept, int64(next+1))
	it := q.row(outReplace, k, sp, abi.OpInsert, row, refs)
	it.prev, it.next = prev, next
	if o.firing { // its block is stored before the row is there
		q.keys = append(q.keys, state.Key{Hash: k.Hash, Bytes: bytes.Clone(k.Bytes)})
	}
}

// queueTakeBack queues that the row that the window at off gave last does not hold any more.
func (o *Op) queueTakeBack(k state.Key, off int, op abi.Op) {
	if prev := o.keptRow(off); prev >= 0 {
		it := o.queue.row(outTakeBack, k, span{}, op, nil, len(o.queue.refs))
		it.prev = prev
	}
}

func (o *Op) tooLarge(k state.Key) error {
	return fmt.Errorf("the open windows of key %q take more than %d bytes", k.Bytes, abi.MaxStateValueBytes)
}
