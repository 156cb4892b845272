package guestop

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/ttl"
)

// expiry is what an operator does for states with a TTL; nil without.
//
// What a record sees must not depend on how records are grouped into calls. A host call has its record's
// moment. A value that travels with the block is loaded as of its key's first record in it, and a changed
// one does not say which record changed it: so records of a key share a block only between two marks, and,
// where only writing renews a value, only if they would leave the same stamp.
//
// A record's moment is the watermark at it; a timer's is its own time, or the watermark before this advance
// if that is later. So what a timer sees does not depend on how far the watermark moves at once, as it does
// at the end of input. What has expired by then is gone, a timer due at that very time does not see it.
type expiry struct {
	k        *ttl.Keyed
	cuts     bool // a value that travels with the block ages in event time
	distinct bool // and renews by writing only
	before   int64
	want     int // records of the next block, about
	wm       int64
	moments  []moment // of the block's records
	times    []int64  // of its keys
	stamps   []int64
}

// moment is when a record or timer happens in event time: for what it sees, and for what it writes.
type moment struct{ now, stamp int64 }

// ttlOf is a declared TTL as the state layer takes it.
func ttlOf(d abi.StateDescriptor) state.TTL {
	if d.TTL == nil {
		return state.TTL{}
	}
	t := state.TTL{MS: d.TTL.MS, Domain: abi.DomainEvent, OnRead: d.TTL.Refresh == abi.RefreshRead}
	if d.TTL.Domain == abi.DomainNameProcessing {
		t.Domain = abi.DomainProcessing
	}
	return t
}

// openExpiring opens keyed state; where a state has a TTL, or had one in the checkpoint, through package ttl.
func (o *Op) openExpiring(ds []state.Descriptor) (state.Keyed, error) {
	var from []state.Snapshot
	for _, s := range o.ctx.Restored {
		if s.Keyed != nil {
			from = append(from, *s.Keyed)
		}
	}
	k, err := ttl.Open(ttl.Config{Operator: o.ctx.Operator, Descriptors: ds, Restored: from, Watermark: o.wm, First: o.first,
		Processing: o.ctx.Clock.NowMS(),
		Open:       func(ds []state.Descriptor) (state.Keyed, error) { return o.cfg.OpenKeyed(o.ctx, ds) }})
	if err != nil {
		return nil, err
	}
	if x, ok := k.(*ttl.Keyed); ok {
		o.expiry = &expiry{k: x, before: o.wm, want: abi.MaxBatchRecords}
	}
	return k, nil
}

// bindRaw finds the stores below the TTLs, which know how to take a change back.
func (o *Op) bindRaw() {
	for i := range o.states {
		r := &o.states[i]
		r.raw, r.number = r.store, o.numbers[i]
	}
	x := o.expiry
	if x == nil {
		return
	}
	x.cuts, x.distinct = false, false
	for i := range o.states {
		r := &o.states[i]
		t := ttlOf(r.desc)
		r.renews = t.OnRead
		switch {
		case r.value != nil:
			r.raw.value = x.k.RawValue(r.number)
		case r.ordered != nil:
			r.raw.ordered = x.k.RawOrdered(r.number)
		case t.MS > 0 && t.Domain == abi.DomainEvent:
			x.cuts = true
			x.distinct = x.distinct || !t.OnRead
		}
	}
}

// end is where a call must end at the latest: not far behind the place where it will be cut.
func (x *expiry) end(lo, hi int) int {
	if x == nil {
		return hi
	}
	return min(hi, lo+x.want)
}

// begin finds out when everything in the block happens, and ends the block where it must.
func (x *expiry) begin(o *Op, kind uint32, b *abi.Batch, marks []abi.Mark) {
	if x == nil || !o.blk.keyed {
		return
	}
	k := &o.blk
	x.moments, x.times, x.stamps = x.moments[:0], x.times[:0], x.stamps[:0]
	x.wm = o.wm
	for i, key := range k.keyIdx {
		for len(marks) > 0 && int(marks[0].Index) <= k.lo+i {
			x.wm = marks[0].Watermark
			x.k.Mark(x.wm)
			marks = marks[1:]
		}
		m := x.momentOf(kind, b.Frame(k.lo+i).Time())
		if int(key) == len(x.times) {
			x.times, x.stamps = append(x.times, m.now), append(x.stamps, m.stamp)
		} else if x.cuts && (m.now != x.times[key] || x.distinct && m.stamp != x.stamps[key]) {
			k.truncate(i, len(x.times))
			break
		}
		x.moments = append(x.moments, m)
	}
	if x.want = min(2*x.want, abi.MaxBatchRecords); k.n < len(k.keyIdx) {
		k.keyIdx = k.keyIdx[:k.n]
		x.want = max(2*k.n, 16)
	}
	x.k.Batch(x.times, x.stamps, o.now)
}

func (x *expiry) momentOf(kind uint32, time int64) moment {
	switch kind {
	case abi.KindRecords:
		return moment{x.wm, max(time, x.wm)}
	case abi.KindEventTimers:
		at := max(time, x.before)
		return moment{at, at}
	}
	return moment{x.wm, x.wm}
}

// truncate leaves the first n records of the block, which have the first keys keys. It is n that says where
// keyIdx ends.
func (k *block) truncate(n, keys int) {
	k.n, k.keys, k.last = n, k.keys[:keys], k.last[:keys]
	for i, j := range k.keyIdx[:n] {
		k.last[j] = uint32(i)
	}
}

// at sets the moment of a record's host calls.
func (x *expiry) at(o *Op, record int) {
	if x == nil || record >= len(x.moments) {
		return
	}
	m := x.moments[record]
	x.k.At(ttl.Moment{Event: m.now, Stamp: m.stamp, Processing: o.now})
}

// settle makes the stamps of the block's keys those of the last record done: what failed renews nothing.
func (x *expiry) settle(o *Op, consumed int) {
	if x == nil || !x.cuts {
		return
	}
	for j := range x.stamps {
		x.stamps[j] = ttl.Untouched
	}
	failed := o.env.failures
	for i, m := range x.moments[:consumed] {
		if len(failed) > 0 && failed[0].record == i {
			failed = failed[1:]
			continue
		}
		x.stamps[o.blk.keyIdx[i]] = m.stamp
	}
}

// advance says that the watermark goes on to w, from the operator's.
func (x *expiry) advance(o *Op, w int64) {
	if x != nil {
		x.before = o.wm
		x.k.Mark(w)
	}
}

// passed lets go what has expired when a batch is done.
func (x *expiry) passed(o *Op) {
	if x != nil {
		x.k.Passed(o.wm, o.now)
	}
}

// next is when something expires by the clock, or at: the earlier one.
func (x *expiry) next(at int64, ok bool) (int64, bool) {
	if x == nil {
		return at, ok
	}
	if n, has := x.k.NextProcessing(); has && (!ok || n < at) {
		return n, true
	}
	return at, ok
}

// firstMark is the first watermark there ever was, for the snapshot.
func (x *expiry) firstMark() (int64, bool) {
	if x == nil || x.k.First() == abi.MinWatermark {
		return 0, false
	}
	return x.k.First(), true
}

// renew gives an entry that a record reads a new stamp, where the state has it so.
func (e *env) renew(r *stateRef, record, st int, k state.Key, ukey []byte) error {
	was, renewed, err := e.op.expiry.k.Renew(r.number, k, ukey)
	if err != nil || !renewed {
		return err
	}
	u := undo{record: record, st: st, key: k, had: true}
	u.old, u.ukey = e.keep(was), e.keep(ukey)
	e.journal = append(e.journal, u)
	return nil
}

// bare is an entry as the guest sees it, of one as it is kept.
func (x *expiry) bare(st int, raw []byte) ([]byte, error) {
	if x == nil {
		return raw, nil
	}
	return x.k.Bare(st, raw)
}
