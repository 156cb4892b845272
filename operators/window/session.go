package window

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// intoSession puts the record into its session: the one it begins, or the one it and those it touches make.
// Windows that only touch merge, too, as Flink has it: which ones do depends on none having gone.
func (o *Op) intoSession(k state.Key, t int64) (taken bool, err error) {
	gap := o.w.Window.Gap
	if o.gap.at >= 0 {
		v, ok := o.gap.bits(&o.in)
		if gap = int64(v); !ok || gap <= 0 || gap > maxSpan {
			return false, &badRecord{fmt.Sprintf("session gap %d ms (null: %t), expected more than 0", gap, !ok)}
		}
	}
	sp := span{t, add(t, gap)}
	off, n, all := o.touching(sp)
	if n == 0 {
		if o.event && o.cleanup(sp) <= o.wm {
			return false, nil
		}
		o.create(off, sp)
		return true, o.touch(k, off, sp, t)
	}
	if err := o.merge(k, off, n, all); err != nil {
		return true, err
	}
	return true, o.touch(k, off, all, t)
}

// touching finds the sessions that sp touches, n from off on, and the time they make together with it. With
// n = 0 off is where sp belongs.
func (o *Op) touching(sp span) (off, n int, all span) {
	all = sp
	for off = o.l.header; off < len(o.blk); off += o.l.size(o.blk[off:]) {
		x := o.spanAt(off)
		if x.end < sp.start {
			continue
		}
		for at := off; at < len(o.blk); at += o.l.size(o.blk[at:]) {
			if x = o.spanAt(at); x.start > sp.end {
				break
			}
			all.start, all.end = min(all.start, x.start), max(all.end, x.end)
			n++
		}
		break
	}
	return off, n, all
}

// merge makes n sessions from off on one, of time all.
func (o *Op) merge(k state.Key, off, n int, all span) error {
	if o.queue != nil {
		o.queue.merging(k, all)
	}
	for ; n > 1; n-- {
		if err := o.absorb(k, off); err != nil {
			return err
		}
	}
	o.set(off, 0, all.start)
	o.set(off, o.l.end, all.end)
	for _, f := range [...]int{o.l.every, o.l.late} { // due before the key is stored, where they were done with
		if f > 0 {
			o.wake(o.at(off, f))
		}
	}
	return nil
}

// absorb merges the session behind the one at off into it.
func (o *Op) absorb(k state.Key, off int) error {
	l := o.l
	next := off + l.size(o.blk[off:])
	if l.records > 0 {
		o.set(off, l.records, o.at(off, l.records)+o.at(next, l.records))
	}
	if l.count > 0 {
		o.set(off, l.count, o.at(off, l.count)+o.at(next, l.count))
	}
	for _, f := range [...]int{l.every, l.clocks, l.late} {
		if f > 0 {
			o.set(off, f, min(o.at(off, f), o.at(next, f)))
		}
	}
	if l.timeout > 0 {
		o.set(off, l.timeout, laterTimeout(o.at(off, l.timeout), o.at(next, l.timeout)))
	}
	if l.state > 0 {
		o.setFlags(off, o.flags(off)|o.flags(next))
		r := max(le.Uint32(o.blk[off+l.state+4:]), le.Uint32(o.blk[next+l.state+4:]))
		le.PutUint32(o.blk[off+l.state+4:], r)
	}
	if l.keptRow {
		if err := o.takeBack(k, next, abi.OpDelete); err != nil {
			return err
		}
	}
	if l.id > 0 {
		if err := o.contents.move(k, o.at(next, l.id), o.at(off, l.id)); err != nil {
			return err
		}
	}
	if o.w.Evictor == nil {
		o.mergeAggregates(off)
	}
	o.blk = l.remove(o.blk, off+l.size(o.blk[off:]))
	return nil
}

// mergeAggregates folds the aggregates of the entry behind the one at off into its own.
func (o *Op) mergeAggregates(off int) {
	l := o.l
	for i := range l.aggs {
		a := &l.aggs[i]
		next := off + l.size(o.blk[off:])
		w, w2 := o.blk[off+a.at:off+a.end], o.blk[next+a.at:next+a.end]
		if a.v < 0 {
			a.agg.merge(w, nil, w2, nil)
			continue
		}
		v, v2 := l.variable(o.blk[off:], a.v), l.variable(o.blk[next:], a.v)
		o.putVariable(off, a.v, v, a.agg.merge(w, v, w2, v2))
	}
}

// laterTimeout is the time-out of two merged windows: a pending one goes before one that is spent, and that
// before none.
func laterTimeout(a, b int64) int64 {
	switch {
	case a == never:
		return b
	case b == never:
		return a
	}
	return max(a, b)
}
