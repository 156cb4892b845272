package window

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// queue is the outputs of an operator with guest functions that wait for them, in order, with watermarks
// between. They go out in commit.
type queue struct {
	o      *Op
	items  []output
	refs   []rowRef // rows of guests that items wait for
	arena  []byte   // rows, keys, elements
	kept   []lastRow
	keys   []state.Key // of stored blocks with numbers of kept rows; bytes copied
	fired  guestop.Fired
	tag    int // of steps: a record of the batch, or ^ of an output
	record int // that is worked on
	final  abi.RowBuilder
	elems  extent // of the window that fires
	bad    []guestop.StepFault
}

type extent struct{ lo, hi int }

// rowRef is a result that an aggregate gives.
type rowRef struct{ guest, result int }

// lastRow is what a window gave last, which a further result takes back; row nil: nothing.
type lastRow struct {
	sp  span
	row []byte
}

type outKind uint8

const (
	outRow      outKind = iota
	outReplace          // the row prev goes, and this one, kept as next, comes
	outTakeBack         // the row prev goes
	outLate             // frame
	outFailed           // frame: a record, for the error policy
	outMark
)

// output is one of them.
type output struct {
	kind       outKind
	op         abi.Op
	revision   uint32
	sp         span
	key        extent
	null       bool // the key
	hash       uint64
	row        extent // without the columns of guests
	refs       extent
	elements   extent
	prev, next int // numbers of kept rows, -1: none
	mark       int64
	frame      abi.Frame
	fault      *guestop.Fault
}

func (q *queue) reset() {
	q.items, q.refs, q.arena, q.kept, q.keys = q.items[:0], q.refs[:0], q.arena[:0], q.kept[:0], q.keys[:0]
	q.elems = extent{}
}

func (q *queue) keep(b []byte) extent {
	lo := len(q.arena)
	q.arena = append(q.arena, b...)
	return extent{lo, len(q.arena)}
}

func (q *queue) bytes(p extent) []byte { return q.arena[p.lo:p.hi:p.hi] }

// begin says which window fires next: its merges and results have the tag of the item to come.
func (q *queue) begin(k state.Key, sp span, revision int64) {
	q.fired = guestop.Fired{Key: k.Bytes, Time: sp.last(), Start: sp.start, End: sp.end, Revision: uint32(revision)}
	if q.o.endless {
		q.fired.Time = math.MaxInt64
	}
	if q.o.w.Unkeyed {
		q.fired.Key = nil
	}
	q.tag = ^len(q.items)
}

// merging says which window others merge into, for the record that is worked on.
func (q *queue) merging(k state.Key, sp span) {
	q.fired = guestop.Fired{Key: k.Bytes, Time: sp.last(), Start: sp.start, End: sp.end}
}

// row queues a row of the window that begin named.
func (q *queue) row(kind outKind, k state.Key, sp span, op abi.Op, row []byte, refs int) *output {
	it := output{kind: kind, op: op, sp: sp, hash: k.Hash, key: q.keep(k.Bytes), null: q.o.w.Unkeyed, row: q.keep(row),
		refs: extent{refs, len(q.refs)}, elements: q.elems, revision: q.fired.Revision, prev: -1, next: -1}
	q.elems = extent{}
	q.items = append(q.items, it)
	q.tag = q.record
	return &q.items[len(q.items)-1]
}

func (q *queue) beginElements() { q.elems = extent{len(q.arena), len(q.arena)} }

// element is a record: time, length (or -1 for null), bytes.
func (q *queue) element(t int64, v []byte) {
	q.arena = le.AppendUint64(q.arena, uint64(t))
	n := int64(len(v))
	if v == nil {
		n = -1
	}
	q.arena = le.AppendUint64(q.arena, uint64(n))
	q.arena = append(q.arena, v...)
	q.elems.hi = len(q.arena)
}

// full says that it is time to commit.
func (q *queue) full() bool {
	n, size := len(q.items), len(q.arena)
	for _, g := range q.o.guests {
		n = max(n, g.steps.Len())
		size += g.steps.Bytes()
	}
	return n >= 4*abi.MaxBatchRecords || size > 4<<20
}

// run gets all steps done. It returns the records that failed: all of them where none has to do with another,
// else the first.
func (q *queue) run() ([]guestop.StepFault, error) {
	alone := q.o.shape != sessions && (q.o.shape == sliced || q.o.l.state == 0)
	q.bad = q.bad[:0]
	for _, g := range q.o.guests {
		failed, err := g.steps.Run(func(tag int) bool { return tag >= 0 && !alone })
		if err != nil {
			return nil, err
		}
		for _, f := range failed {
			if f.Tag >= 0 {
				q.bad = append(q.bad, f)
				continue
			}
			if it := &q.items[^f.Tag]; it.fault == nil {
				it.fault = f.Fault
			}
		}
	}
	slices.SortStableFunc(q.bad, func(a, b guestop.StepFault) int { return a.Tag - b.Tag })
	if len(q.bad) > 1 && !alone {
		q.bad = q.bad[:1]
	}
	return q.bad, nil
}

// release hands on what is queued.
func (q *queue) release() error {
	if q.o.process != nil {
		return q.processed()
	}
	for i := range q.items {
		if err := q.give(&q.items[i]); err != nil {
			return err
		}
	}
	return nil
}

// processed is release with a window function, which gets the windows; what else is queued goes out in its
// place between them.
func (q *queue) processed() error {
	o := q.o
	o.process.Reset(o.now, o.out.wm)
	for i := range q.items {
		if q.ofProcess(i) {
			if err := q.toProcess(&q.items[i], i); err != nil {
				return err
			}
		}
	}
	at := 0
	before := func(i int) error { // gives what others are queued before output i
		for ; at < i; at++ {
			if !q.ofProcess(at) {
				if err := q.give(&q.items[at]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var err error
	ran := o.process.Run(func(i int, f abi.Frame) error {
		o.stats.Fired++
		return errors.Join(before(i), o.out.frame(f))
	}, func(f guestop.StepFault) error {
		it := &q.items[f.Tag]
		return errors.Join(before(f.Tag), o.failedWindow(q.key(it), it.sp, f.Fault))
	}, func(wm int64) {
		i := at
		for q.items[i].kind != outMark || q.items[i].mark != wm {
			i++
		}
		err = errors.Join(err, before(i))
		at = i + 1
		o.out.mark(wm)
	})
	return errors.Join(ran, err, before(len(q.items)))
}

// ofProcess says that output i is the window function's.
func (q *queue) ofProcess(i int) bool {
	it := &q.items[i]
	return it.kind == outMark || it.kind == outRow && it.fault == nil
}

// toProcess gives a window to the window function.
func (q *queue) toProcess(it *output, i int) error {
	p := q.o.process
	if it.kind == outMark {
		p.Mark(it.mark)
		return nil
	}
	f := guestop.Fired{Key: q.bytes(it.key), Time: it.sp.last(), Start: it.sp.start, End: it.sp.end, Revision: it.revision}
	if it.null {
		f.Key = nil
	}
	if q.o.endless {
		f.Time = math.MaxInt64
	}
	p.Begin(&f)
	if len(q.o.w.Aggregates) > 0 {
		if err := p.Element(f.Time, q.complete(it)); err != nil {
			return err
		}
	} else {
		for e := q.bytes(it.elements); len(e) > 0; {
			t, n := word(e, 0), word(e, 8)
			e = e[16:]
			var v []byte
			if n >= 0 {
				v, e = e[:n:n], e[n:]
			}
			if err := p.Element(t, v); err != nil {
				return err
			}
		}
	}
	p.End(i)
	return nil
}

// give hands on one item.
func (q *queue) give(it *output) error {
	o := q.o
	switch it.kind {
	case outMark:
		o.out.mark(it.mark)
		return nil
	case outLate:
		o.out.late.AppendFrame(it.frame)
		return o.out.room()
	case outFailed:
		return o.failedRecord(it.frame, it.fault)
	}
	if it.fault != nil {
		if it.next >= 0 && it.prev >= 0 {
			q.kept[it.next] = q.kept[it.prev]
		}
		return o.failedWindow(q.key(it), it.sp, it.fault)
	}
	switch it.kind {
	case outTakeBack:
		if old := q.kept[it.prev]; old.row != nil {
			return o.send(q.key(it), old.sp, it.op, old.row)
		}
		return nil
	case outReplace:
		return q.replace(it)
	}
	return o.send(q.key(it), it.sp, it.op, q.complete(it))
}

func (q *queue) key(it *output) state.Key { return state.Key{Hash: it.hash, Bytes: q.bytes(it.key)} }

// replace sends a row in place of the one before.
func (q *queue) replace(it *output) error {
	row := q.complete(it)
	op := abi.OpInsert
	if it.prev >= 0 && q.kept[it.prev].row != nil {
		old := q.kept[it.prev]
		if bytes.Equal(old.row, row) {
			q.kept[it.next] = old
			return nil
		}
		back := abi.OpDelete
		if old.sp == it.sp {
			back, op = abi.OpUpdateBefore, abi.OpUpdateAfter
		}
		if err := q.o.send(q.key(it), old.sp, back, old.row); err != nil {
			return err
		}
	}
	q.kept[it.next] = lastRow{it.sp, bytes.Clone(row)}
	return q.o.send(q.key(it), it.sp, op, row)
}

// complete is an item's row with the columns of guests.
func (q *queue) complete(it *output) []byte {
	row, r := q.bytes(it.row), &q.o.res
	if it.refs.lo == it.refs.hi {
		return row
	}
	if !r.hasText { // in place
		at := abi.RowBitmap(r.cols)
		for _, ref := range q.refs[it.refs.lo:it.refs.hi] {
			g := q.o.guests[ref.guest]
			from := g.steps.Row(ref.result)
			base := abi.RowBitmap(len(g.fields))
			for i := range g.fields {
				if from[i>>3]&(1<<(i&7)) == 0 {
					c := g.col + i
					row[c>>3] &^= 1 << (c & 7)
					copy(row[at+8*c:at+8*c+8], from[base+8*i:])
				}
			}
		}
		return row
	}
	return q.merge(row, q.refs[it.refs.lo:it.refs.hi])
}

// merge makes a row of what is in a row and in those of guests, column by column, so that its texts lie in
// the columns' order.
func (q *queue) merge(row []byte, refs []rowRef) []byte {
	r, b := &q.o.res, &q.final
	b.Reset(r.cols)
	own := input{row: row, base: abi.RowBitmap(r.cols)}
	for c := 0; c < r.cols; {
		if len(refs) > 0 && q.o.guests[refs[0].guest].col == c {
			g := q.o.guests[refs[0].guest]
			from := input{row: g.steps.Row(refs[0].result), base: abi.RowBitmap(len(g.fields))}
			for i, f := range g.fields {
				copyColumn(b, c+i, field{i, f.Type}, &from)
			}
			c += len(g.fields)
			refs = refs[1:]
			continue
		}
		copyColumn(b, c, field{c, r.schema[c].Type}, &own)
		c++
	}
	return b.Bytes()
}

func copyColumn(b *abi.RowBuilder, col int, f field, from *input) {
	x, ok := f.bits(from)
	switch {
	case !ok:
	case f.text():
		v, _ := f.bytes(from)
		b.SetBytes(col, v)
	default:
		setSlot(b, col, f.t, x)
	}
}

// failedRecord applies the error policy to a record at which an aggregate failed.
func (o *Op) failedRecord(f abi.Frame, fault *guestop.Fault) error {
	return o.policy(f, o.ctx.Describe(f.Pos()), fault, false)
}

// failedWindow applies it to a window whose result failed.
func (o *Op) failedWindow(k state.Key, sp span, fault *guestop.Fault) error {
	name := fmt.Sprintf("window [%d, %d)", sp.start, sp.end)
	r := abi.Record{Time: sp.last(), Value: []byte(name), Pos: abi.NoPosition}
	where := name
	if o.endless {
		r.Time, where = math.MaxInt64, "the window"
	}
	if !o.w.Unkeyed {
		r.Key = k.Bytes
		where += fmt.Sprintf(" of key %q", k.Bytes)
	}
	return o.policy(abi.Frame(abi.AppendRecord(nil, &r)), where, fault, true)
}

func (o *Op) policy(f abi.Frame, where string, fault *guestop.Fault, window bool) error {
	switch o.w.OnError.Policy {
	case operators.PolicySkip:
		o.stats.Skipped++
		o.ctx.Log.Warn("skipped after a guest's fault", "operator", o.ctx.Operator, "position", where, "kind", string(fault.Kind), "error", fault.Message, "stderr", fault.Stderr)
		return nil
	case operators.PolicyDeadLetter:
		o.stats.Dead++
		operators.AppendDeadLetter(&o.out.dead, f, &operators.DeadLetter{Operator: o.ctx.Operator, Task: o.ctx.Task, Kind: string(fault.Kind),
			Error: fault.Error(), Module: fault.Module, Position: where, Attempts: 1, Timer: window})
		return o.out.room()
	}
	if window {
		return fmt.Errorf("operator %q: %s: %w", o.ctx.Operator, where, fault)
	}
	return &operators.RecordError{Operator: o.ctx.Operator, Position: where, Err: fault}
}
