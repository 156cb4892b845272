package modcheck

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

// trace is what a function did in one run over a sample, entry by entry.
type trace struct {
	way     way
	entries []entry
	changes []change // of state, in order
	state   uint64   // digest of it now
	holds   map[string]uint64
	fuel    int64
	billed  int64 // of fuel, the records' own
	cut     bool  // the budget ended it
	failed  int   // entries
	timers  int   //
	err     error // that ended it, besides the budget
	limit   int   // entries
	until   int64 // monotonic ns
	mono    func() int64
}

// way is how a run calls the function.
type way struct {
	batch  int
	fresh  bool   // a new instance for each call
	engine string // "": the module's own
}

func (w way) String() string {
	s := "a kept instance"
	if w.fresh {
		s = "a fresh instance for each call"
	}
	if w.engine != "" {
		s += " of " + w.engine
	}
	if w.batch == 1 {
		return s + ", one by one"
	}
	return fmt.Sprintf("%s, %d in a call", s, w.batch)
}

// entry is one record, step, window or timer with what it led to.
type entry struct {
	record int    // in the sample; -1: a timer
	timer  string // which
	items  []item
	state  uint64 // digest of the state at the end of a call
	ends   bool   // a call
}

// item is one effect.
type item struct {
	kind   itemKind
	number int    // of an output; a timer's domain
	data   string // frame, name
	at     int64
}

type itemKind byte

const (
	itemOutput itemKind = iota
	itemTimerSet
	itemTimerDeleted
	itemFailed
	itemWatermark
)

// change is a state's entry that a call wrote.
type change struct {
	entry int // index of the call's last
	name  string
	value []byte // nil: none
}

// errEnough ends a run whose budget is spent.
var errEnough = errors.New("enough")

// enough says that the budget is spent.
func (t *trace) enough() bool {
	if len(t.entries) >= t.limit || t.until > 0 && len(t.entries) >= leastEntries && t.mono() > t.until {
		t.cut = true
	}
	return t.cut
}

// output is an output as it is compared: without its place in the call.
func output(f abi.Frame) item {
	r := f.Record()
	r.Cause = 0
	return item{kind: itemOutput, number: int(r.Output), data: string(abi.AppendRecord(nil, &r))}
}

// failure is a failed record: what the guest said, or the kind of fault. The second engine can't tell refused memory
// from a trap.
func failure(f *guestop.Fault) item {
	switch f.Kind {
	case guestop.FaultReturned:
		return item{kind: itemFailed, data: "returned error: " + f.Message}
	case guestop.FaultMemory:
		return item{kind: itemFailed, data: string(guestop.FaultTrap)}
	}
	return item{kind: itemFailed, data: string(f.Kind)}
}

// set notes that an entry of the state has a value; nil: none.
func (t *trace) set(name string, value []byte) {
	h := uint64(0)
	if value != nil {
		h = xxh3.HashSeed(value, xxh3.HashString(name)|1)
	}
	t.state ^= t.holds[name] ^ h
	t.holds[name] = h
	t.changes = append(t.changes, change{len(t.entries) - 1, name, bytes.Clone(value)})
}

// spent notes what calls cost.
func (t *trace) spent(before, after *guestop.CallerStats) {
	t.fuel += after.Fuel - before.Fuel
	t.billed += after.Billed - before.Billed
}

// endCall closes the call whose entries were added.
func (t *trace) endCall() {
	if n := len(t.entries); n > 0 {
		t.entries[n-1].state, t.entries[n-1].ends = t.state, true
	}
}

// stateAt is the state at the end of entry i.
func (t *trace) stateAt(i int) map[string][]byte {
	m := map[string][]byte{}
	for _, c := range t.changes {
		if c.entry > i {
			break
		}
		if c.value == nil {
			delete(m, c.name)
		} else {
			m[c.name] = c.value
		}
	}
	return m
}

// place is where two traces differ.
type place struct {
	entry int
	state string // name of the state's entry; empty: the effects differ
}

// differs finds the first place where got is not as want, as far as both go. want has one entry in a call.
func differs(got, want *trace) (place, bool) {
	n := min(len(got.entries), len(want.entries))
	for i := range n {
		g, w := &got.entries[i], &want.entries[i]
		if g.record != w.record || g.timer != w.timer || !slices.Equal(g.items, w.items) {
			return place{entry: i}, true
		}
		if g.ends && w.ends && g.state != w.state {
			return place{i, firstOf(got.stateAt(i), want.stateAt(i))}, true
		}
	}
	if len(got.entries) != len(want.entries) && !got.cut && !want.cut {
		return place{entry: n}, true
	}
	return place{}, false
}

// firstOf is the first name under which two states differ.
func firstOf(a, b map[string][]byte) string {
	var names []string
	for k, v := range a {
		if w, ok := b[k]; !ok || !bytes.Equal(v, w) {
			names = append(names, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names[0]
}

// newTrace is an empty trace of a run over so many records.
func newTrace(w way, records int, o Options) *trace {
	t := &trace{way: w, limit: timerLimit*records + leastEntries, mono: o.Mono, holds: map[string]uint64{}}
	if o.Budget > 0 {
		t.until = o.Mono() + int64(o.Budget)
	}
	return t
}
