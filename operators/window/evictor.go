package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// evicting folds the records of the window at off that the evictor leaves into the row. What it takes out
// is gone for later firings, too.
func (o *Op) evicting(k state.Key, off int) error {
	r, e := &o.res, o.w.Evictor
	id := o.at(off, o.l.id)
	r.list = r.list[:0]
	newest := abi.NoTime
	return o.contents.scan(k, id, id, func(u []byte, x *entry) error {
		seq, in := x.record(o.in.base)
		newest = max(newest, in.time)
		r.list = append(r.list, kept{seq, u, in})
		return nil
	}, func() error {
		left := r.list[:0]
		for i, n := 0, len(r.list); i < n; i++ {
			x := r.list[i]
			gone := e.Span > 0 && x.in.time <= sub(newest, e.Span) || e.Count > 0 && int64(n-i) > e.Count
			if gone {
				if err := o.contents.delete(k, x.ukey); err != nil {
					return err
				}
			}
			if !gone || e.After {
				left = append(left, x)
			}
		}
		o.foldList(left)
		return nil
	})
}

// foldList folds records into the aggregates of the row.
func (o *Op) foldList(list []kept) {
	r := &o.res
	r.clear()
	at := 0
	for i, a := range o.aggs {
		w := r.fixed[at : at+8*a.words()]
		at += 8 * a.words()
		k, keeps := a.(keeper)
		if keeps {
			k.begin()
		}
		for j := range list {
			if keeps {
				k.fold(&list[j].in)
				continue
			}
			v := a.add(w, r.vars[i], &list[j].in)
			r.vars[i] = append(r.vars[i][:0], v...)
		}
		a.result(w, r.vars[i], &r.row, r.at[i])
	}
}
