package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// intoSlice puts the record into the slice that all its windows share.
func (o *Op) intoSlice(k state.Key, t int64) (taken bool, err error) {
	u := o.asg.slice(t)
	e, ok := o.asg.nextEnd(u, o.ref)
	if !ok {
		return false, nil
	}
	off, found := o.findSlice(u)
	if !found {
		o.blk = o.l.insert(o.blk, off)
		setWord(o.blk, off, u)
	}
	if o.event {
		o.soon = min(o.soon, o.asg.at(e)-1)
	}
	return true, o.fold(k, off, u)
}

// findSlice is where slice u is, or belongs.
func (o *Op) findSlice(u int64) (off int, found bool) {
	l := o.l
	if l.nvar > 0 {
		for off = l.header; off < len(o.blk); off += l.size(o.blk[off:]) {
			if s := word(o.blk, off); s >= u {
				return off, s == u
			}
		}
		return off, false
	}
	for off = len(o.blk); off > l.header; off -= l.headSize { // mostly it is one of the last
		switch s := word(o.blk, off-l.headSize); {
		case s == u:
			return off - l.headSize, true
		case s < u:
			return off, false
		}
	}
	return off, false
}

// fireSlices gives the result of the window that ends behind an instant, if there is one and it holds
// records, and lets slices go that no later window holds.
func (o *Op) fireSlices(k state.Key, at int64) error {
	e := o.asg.unit(add(at, 1))
	if o.asg.at(e) != at+1 {
		return nil
	}
	if s := o.asg.ending(e); o.asg.down(s) == s || o.asg.kind != "sliding" {
		if err := o.fireSliced(k, s, e); err != nil {
			return err
		}
	}
	off := o.l.header
	for off < len(o.blk) && o.asg.lastEnd(word(o.blk, off)) <= e {
		if o.contents != nil {
			if err := o.contents.clear(k, word(o.blk, off)); err != nil {
				return err
			}
		}
		off += o.l.size(o.blk[off:])
	}
	o.blk = resize(o.blk, o.l.header, off-o.l.header, 0)
	return nil
}

// fireSliced merges the slices of [s, e) and gives the result.
func (o *Op) fireSliced(k state.Key, s, e int64) error {
	l, r := o.l, &o.res
	r.clear()
	sp := span{o.asg.at(s), o.asg.at(e)}
	refs := o.beginFiring(k, 0, sp)
	for _, g := range o.guests {
		g.beginMerge()
	}
	any := false
	for off := l.header; off < len(o.blk); off += l.size(o.blk[off:]) {
		u := word(o.blk, off)
		if u >= e {
			break
		}
		if u < s {
			continue
		}
		any = true
		for i := range l.aggs {
			a := &l.aggs[i]
			if g, ok := a.agg.(*guestAggregate); ok {
				var v []byte
				if a.v >= 0 {
					v = l.variable(o.blk[off:], a.v)
				}
				g.mergePart(o.blk[off+a.at:off+a.end], v)
				continue
			}
			w := r.fixed[a.at:a.end]
			if a.v < 0 {
				a.agg.merge(w, nil, o.blk[off+a.at:off+a.end], nil)
				continue
			}
			v := a.agg.merge(w, r.vars[a.v], o.blk[off+a.at:off+a.end], l.variable(o.blk[off:], a.v))
			r.vars[a.v] = append(r.vars[a.v][:0], v...)
		}
	}
	if !any {
		return nil
	}
	o.beginRow(k, sp)
	if err := o.foldContents(k, s, e-1); err != nil {
		return err
	}
	for i := range l.aggs {
		a := &l.aggs[i]
		if g, ok := a.agg.(*guestAggregate); ok {
			g.resultOf(g.merged())
			continue
		}
		var v []byte
		if a.v >= 0 {
			v = r.vars[a.v]
		}
		a.agg.result(r.fixed[a.at:a.end], v, &r.row, r.at[i])
	}
	if o.queue != nil {
		o.queue.row(outRow, k, sp, abi.OpInsert, r.row.Bytes(), refs)
		return nil
	}
	return o.send(k, sp, abi.OpInsert, r.row.Bytes())
}
