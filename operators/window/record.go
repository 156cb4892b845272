package window

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// record puts a record of key number j into its windows, or counts it as late.
func (o *Op) record(f abi.Frame, j int) error {
	if err := o.decode(f); err != nil {
		return o.recordError(f, err)
	}
	s, err := o.load(j)
	if err != nil {
		return o.fail(err)
	}
	t := o.in.time
	switch {
	case !o.event:
		t = o.now
	case t == abi.NoTime && o.w.Window.Type != operators.WindowGlobal && o.w.Window.Type != operators.WindowCount:
		return o.recordError(f, errors.New("the record has no event time, its window can't be told"))
	}
	o.blk, s.blk = s.blk, o.blk // worked on in place
	taken := false
	switch o.shape {
	case sliced:
		taken, err = o.intoSlice(o.keys.list[j], t)
	case sessions:
		taken, err = o.intoSession(o.keys.list[j], t)
	default:
		taken, err = o.intoWindows(o.keys.list[j], t)
	}
	o.blk, s.blk = s.blk, o.blk
	switch {
	case err != nil:
		if isRecordError(err) {
			return o.recordError(f, err)
		}
		return o.fail(err)
	case len(s.blk) > abi.MaxStateValueBytes:
		return o.recordError(f, o.tooLarge(o.keys.list[j]))
	case taken && !s.dirty:
		s.dirty = true
		o.keys.dirty = append(o.keys.dirty, uint32(j))
	case !taken && o.event && add(t, o.w.Lateness) <= o.wm:
		o.stats.Late++
		switch {
		case !o.w.Late:
		case o.queue != nil:
			o.queue.items = append(o.queue.items, output{kind: outLate, frame: f})
		default:
			o.out.late.AppendFrame(f)
		}
	}
	return o.out.room()
}

// badRecord is an error that is the record's fault.
type badRecord struct{ msg string }

func (e *badRecord) Error() string { return e.msg }

func isRecordError(err error) bool {
	var b *badRecord
	return errors.As(err, &b) || errors.Is(err, state.ErrTooLarge)
}

// decode checks a record's row and makes it the input of aggregates.
func (o *Op) decode(f abi.Frame) error {
	v := f.Value()
	o.in.time, o.in.row, o.in.raw = f.Time(), nil, nil
	if v == nil {
		return nil
	}
	if len(o.w.Input) == 0 {
		o.in.raw = v
		return nil
	}
	n := len(o.w.Input)
	if len(v) < abi.RowFixed(n) {
		return fmt.Errorf("%w: %d bytes, %d columns take at least %d", abi.ErrRow, len(v), n, abi.RowFixed(n))
	}
	o.in.row = v
	for _, i := range o.res.texts {
		if x, ok := (field{at: i}).bits(&o.in); ok {
			if at, l := x&math.MaxUint32, x>>32; at+l > uint64(len(v)) {
				return fmt.Errorf("%w: column %s: bytes %d to %d of %d", abi.ErrRow, o.w.Input[i].Name, at, at+l, len(v))
			}
		}
	}
	return nil
}

// intoWindows puts the record into every window that is still there for it.
func (o *Op) intoWindows(k state.Key, t int64) (taken bool, err error) {
	o.spans = o.asg.windows(t, o.spans[:0])
	for _, sp := range o.spans {
		if o.event && o.cleanup(sp) <= o.wm {
			continue
		}
		taken = true
		off, found := o.find(sp)
		if !found {
			o.create(off, sp)
		}
		if err := o.touch(k, off, sp, t); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// cleanup is when a window's state goes, in its time domain; never for windows without end.
func (o *Op) cleanup(sp span) int64 {
	if o.endless {
		return never
	}
	if !o.event {
		return sp.last()
	}
	return add(sp.last(), o.w.Lateness)
}

// spanAt is the time of the window at off.
func (o *Op) spanAt(off int) span {
	w := o.blk[off:]
	s := word(w, 0)
	if o.l.end > 0 {
		return span{s, word(w, o.l.end)}
	}
	return span{s, add(s, o.w.Window.Size)}
}

// find is where the window is, or where it belongs.
func (o *Op) find(sp span) (off int, found bool) {
	if o.l.nvar > 0 {
		for off = o.l.header; off < len(o.blk); off += o.l.size(o.blk[off:]) {
			if x := o.spanAt(off); x.start > sp.start || x.start == sp.start && x.end >= sp.end {
				return off, x == sp
			}
		}
		return off, false
	}
	before := func(x span) bool { return x.start < sp.start || x.start == sp.start && x.end < sp.end }
	off = len(o.blk)
	if off == o.l.header || before(o.spanAt(off-o.l.headSize)) { // mostly it is a new one, or the last
		return off, false
	}
	if off -= o.l.headSize; o.spanAt(off) != sp {
		off = o.search(func(x span) bool { return !before(x) })
	}
	return off, o.spanAt(off) == sp
}

// create makes an empty window at off.
func (o *Op) create(off int, sp span) {
	l := o.l
	o.blk = l.insert(o.blk, off)
	w := o.blk[off:]
	setWord(w, 0, sp.start)
	if l.end > 0 {
		setWord(w, l.end, sp.end)
	}
	for _, at := range [...]int{l.every, l.clocks, l.late, l.timeout} {
		if at > 0 {
			setWord(w, at, never)
		}
	}
	if l.id > 0 {
		setWord(w, l.id, o.sequence())
	}
}

// sequence is the key's next number.
func (o *Op) sequence() int64 {
	n := word(o.blk, o.l.seq)
	setWord(o.blk, o.l.seq, n+1)
	return n
}

// touch adds the record to the window at off, and fires it if its trigger says so.
func (o *Op) touch(k state.Key, off int, sp span, t int64) error {
	if o.l.records > 0 {
		setWord(o.blk, off+o.l.records, word(o.blk, off+o.l.records)+1)
	}
	id := int64(0)
	if o.l.id > 0 {
		id = word(o.blk, off+o.l.id)
	}
	if err := o.fold(k, off, id); err != nil {
		return err
	}
	if o.l.state == 0 { // its end is all that fires it
		if o.event {
			o.soon = min(o.soon, sp.last())
		}
		return nil
	}
	if o.onRecord(off, sp, t) {
		return o.fireAt(k, off, sp)
	}
	return nil
}

// fold adds the record to the aggregates of the entry at off, and to its contents, which are under id.
func (o *Op) fold(k state.Key, off int, id int64) error {
	l := o.l
	if o.contents != nil {
		if err := o.keep(k, id); err != nil {
			return err
		}
		if o.w.Evictor != nil {
			return nil
		}
	}
	for i := range l.aggs {
		a := &l.aggs[i]
		w := o.blk[off+a.at : off+a.end]
		if a.v < 0 {
			a.agg.add(w, nil, &o.in)
			continue
		}
		old := l.variable(o.blk[off:], a.v)
		o.putVariable(off, a.v, old, a.agg.add(w, old, &o.in))
	}
	return nil
}

// putVariable stores what an aggregate made of a variable part.
func (o *Op) putVariable(off, i int, old, v []byte) {
	if len(v) == len(old) && (len(v) == 0 || &v[0] == &old[0]) {
		return
	}
	o.blk = o.l.setVariable(o.blk, off, i, v)
}

// keep puts the record into contents.
func (o *Op) keep(k state.Key, id int64) error {
	if o.res.keepRecords {
		if err := o.contents.addRecord(k, id, o.sequence(), &o.in); err != nil {
			return err
		}
	}
	if o.w.Evictor != nil {
		return nil
	}
	for i, a := range o.aggs {
		if d, ok := a.(*distinct); ok {
			if v, ok := d.value(&o.in); ok {
				if err := o.contents.addValue(k, id, i, v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
