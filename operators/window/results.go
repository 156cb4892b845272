package window

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/state"
)

// results makes rows.
type results struct {
	cols     int
	bounds   int   // column of window_start, -1 if there is none
	first    int   // column of the first aggregate
	at       []int // column of each
	hasText  bool
	schema   []abi.Field
	revision int // -1 if there is none
	texts    []int
	row      abi.RowBuilder

	keepRecords bool // contents hold records
	keepers     []keeper
	fixed       []byte // of merged slices, or of what an evictor leaves
	vars        [][]byte
	list        []kept
	kept        []byte
}

// kept is a record of contents.
type kept struct {
	seq  int64
	ukey []byte
	in   input
}

func (r *results) init(o *Op) {
	fs := RowSchema(o.w)
	r.schema = fs
	for _, f := range fs {
		r.hasText = r.hasText || (field{t: f.Type}).text()
	}
	r.cols, r.bounds, r.revision = len(fs), -1, -1
	r.first = len(o.w.KeyFields)
	if hasBounds(o.w) {
		r.bounds = r.first
		r.first += 2
	}
	if o.w.Revision {
		r.revision = len(fs) - 1
	}
	for i, f := range o.w.Input {
		if (field{t: f.Type}).text() {
			r.texts = append(r.texts, i)
		}
	}
	r.keepRecords = o.w.Evictor != nil
	words, col := 0, r.first
	for _, a := range o.aggs {
		words += a.words()
		r.at = append(r.at, col)
		col++
		if g, ok := a.(*guestAggregate); ok {
			g.col = col - 1
			col += len(g.fields) - 1
		}
		if k, ok := a.(keeper); ok {
			r.keepers = append(r.keepers, k)
		}
		switch a.(type) {
		case *collect, *elements:
			r.keepRecords = true
		}
	}
	r.fixed = make([]byte, max(o.l.fixed, 8*words))
	r.vars = make([][]byte, max(o.l.nvar, len(o.aggs)))
}

func (r *results) clear() {
	clear(r.fixed)
	for i := range r.vars {
		r.vars[i] = r.vars[i][:0]
	}
}

// beginRow starts a row with the columns that are not aggregates'.
func (o *Op) beginRow(k state.Key, sp span) {
	r := &o.res
	r.row.Reset(r.cols)
	switch fs := o.w.KeyFields; len(fs) {
	case 0:
	case 1:
		setKey(&r.row, 0, fs[0].Type, k.Bytes)
	default:
		for i, part := range format.SplitKey(k.Bytes) {
			if i < len(fs) {
				setKey(&r.row, i, fs[i].Type, part)
			}
		}
	}
	if r.bounds >= 0 {
		r.row.SetInt64(r.bounds, sp.start)
		r.row.SetInt64(r.bounds+1, sp.end)
	}
}

// setKey sets a column to what key_by made text of.
func setKey(b *abi.RowBuilder, col int, t abi.FieldType, text []byte) {
	switch t {
	case abi.TypeString, abi.TypeBytes, abi.TypeJSON:
		b.SetBytes(col, text)
	case abi.TypeFloat64:
		if v, err := strconv.ParseFloat(string(text), 64); err == nil {
			b.SetFloat64(col, v)
		}
	case abi.TypeBool:
		b.SetBool(col, string(text) == "true")
	default:
		if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			b.SetInt64(col, v)
		}
	}
}

// foldContents gives the keepers what is kept under ids [lo, hi].
func (o *Op) foldContents(k state.Key, lo, hi int64) error {
	r := &o.res
	if len(r.keepers) == 0 {
		return nil
	}
	r.list = r.list[:0]
	for _, a := range r.keepers {
		if d, ok := a.(*distinct); ok && lo == hi {
			d.beginOne()
		} else {
			a.begin()
		}
	}
	return o.contents.scan(k, lo, hi, func(u []byte, e *entry) error {
		if e.tag == tagRecord {
			seq, in := e.record(o.in.base)
			r.list = append(r.list, kept{seq, u, in})
		} else {
			o.aggs[e.tag-tagSet].(*distinct).put(e.rest)
		}
		return nil
	}, func() error {
		if lo != hi { // of several slices
			slices.SortFunc(r.list, func(a, b kept) int { return cmp.Compare(a.seq, b.seq) })
		}
		for i := range r.list {
			for _, a := range r.keepers {
				if _, ok := a.(*distinct); !ok {
					a.fold(&r.list[i].in)
				}
			}
		}
		return nil
	})
}

// fireAt gives the result of the window at off, and forgets its contents if the trigger purges.
func (o *Op) fireAt(k state.Key, off int, sp span) error {
	l, r := o.l, &o.res
	if l.records > 0 && o.at(off, l.records) == 0 {
		return nil
	}
	refs := o.beginFiring(k, off, sp)
	o.beginRow(k, sp)
	if o.w.Evictor != nil {
		if err := o.evicting(k, off); err != nil {
			return err
		}
	} else {
		if l.id > 0 {
			if err := o.foldContents(k, o.at(off, l.id), o.at(off, l.id)); err != nil {
				return err
			}
		}
		for i := range l.aggs {
			a := &l.aggs[i]
			var v []byte
			if a.v >= 0 {
				v = l.variable(o.blk[off:], a.v)
			}
			a.agg.result(o.blk[off+a.at:off+a.end], v, &r.row, r.at[i])
		}
	}
	if l.state > 0 {
		n := le.Uint32(o.blk[off+l.state+4:]) + 1
		le.PutUint32(o.blk[off+l.state+4:], n)
		o.setFlags(off, o.flags(off)&^flagChanged)
		if r.revision >= 0 {
			r.row.SetInt64(r.revision, int64(n))
		}
	}
	var err error
	switch {
	case l.kept > 0:
		o.queueReplace(k, off, sp, r.row.Bytes(), refs)
	case o.queue != nil:
		o.queue.row(outRow, k, sp, abi.OpInsert, r.row.Bytes(), refs)
	case l.keptRow:
		err = o.replace(k, off, sp, r.row.Bytes())
	default:
		err = o.send(k, sp, abi.OpInsert, r.row.Bytes())
	}
	if err == nil && o.trig.Purge && l.records > 0 {
		err = o.forget(k, off)
	}
	return err
}

// replace emits a row in place of the one that the window gave before.
func (o *Op) replace(k state.Key, off int, sp span, row []byte) error {
	old := o.l.variable(o.blk[off:], o.l.nvar-1)
	op := abi.OpInsert
	if len(old) > 0 {
		if bytes.Equal(old[16:], row) {
			return nil
		}
		back := abi.OpDelete // a session that has grown is another window
		if (span{word(old, 0), word(old, 8)}) == sp {
			back, op = abi.OpUpdateBefore, abi.OpUpdateAfter
		}
		if err := o.takeBack(k, off, back); err != nil {
			return err
		}
	}
	r := &o.res
	r.kept = le.AppendUint64(r.kept[:0], uint64(sp.start))
	r.kept = le.AppendUint64(r.kept, uint64(sp.end))
	r.kept = append(r.kept, row...)
	o.blk = o.l.setVariable(o.blk, off, o.l.nvar-1, r.kept)
	return o.send(k, sp, op, row)
}

// takeBack emits the row that the window at off gave last, as one that does not hold any more.
func (o *Op) takeBack(k state.Key, off int, op abi.Op) error {
	if o.l.kept > 0 {
		o.queueTakeBack(k, off, op)
		return nil
	}
	old := o.l.variable(o.blk[off:], o.l.nvar-1)
	if len(old) == 0 {
		return nil
	}
	return o.send(k, span{word(old, 0), word(old, 8)}, op, old[16:])
}

// send puts a row on the main output. Its event time is the window's last instant.
func (o *Op) send(k state.Key, sp span, op abi.Op, row []byte) error {
	rec := abi.Record{Time: sp.last(), Value: row, Op: op, Pos: abi.NoPosition}
	if o.endless {
		rec.Time = math.MaxInt64
	}
	if !o.w.Unkeyed {
		rec.Key = k.Bytes
		o.out.main.Hash = append(o.out.main.Hash, k.Hash)
	}
	o.out.main.Append(&rec)
	o.stats.Fired++
	return o.out.room()
}

// forget empties the window at off; its trigger and its firings stay.
func (o *Op) forget(k state.Key, off int) error {
	l := o.l
	o.set(off, l.records, 0)
	for i := range l.aggs {
		a := &l.aggs[i]
		clear(o.blk[off+a.at : off+a.end])
		if a.v >= 0 {
			o.blk = l.setVariable(o.blk, off, a.v, nil)
		}
	}
	if l.id > 0 {
		return o.contents.clear(k, o.at(off, l.id))
	}
	return nil
}
