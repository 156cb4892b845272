package ttl_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/ttl"
)

// States of the random histories.
const (
	valueOfWrites = iota
	valueOfReads
	mapOfWrites
	mapOfReads
	valueByClock
	mapByClock
	forever
)

// entry is what the model holds under (state, key, user key).
type entry struct {
	v     string
	stamp int64
}

type place struct {
	st   int
	k, u string
}

// model is state with TTLs in the plainest form: nothing is ever removed but by the user or the test.
type model struct {
	ds    []state.Descriptor
	at    map[place]entry
	first int64
}

func (m *model) clock(st int, mo ttl.Moment) (now, stamp int64) {
	if m.ds[st].TTL.Domain == processing {
		return mo.Processing, mo.Processing
	}
	return mo.Event, mo.Stamp
}

func (m *model) get(p place, mo ttl.Moment) (entry, bool) {
	e, ok := m.at[p]
	if !ok || m.ds[p.st].TTL.MS == 0 {
		return e, ok
	}
	now, _ := m.clock(p.st, mo)
	s := e.stamp
	if s == abi.MinWatermark {
		if s = m.first; s == abi.MinWatermark {
			return e, true
		}
	}
	return e, now < s+m.ds[p.st].TTL.MS
}

func (m *model) put(p place, v string, mo ttl.Moment) {
	_, stamp := m.clock(p.st, mo)
	m.at[p] = entry{v, stamp}
}

func (m *model) renew(p place, mo ttl.Moment) {
	if e, ok := m.get(p, mo); ok && m.ds[p.st].TTL.OnRead {
		_, stamp := m.clock(p.st, mo)
		m.at[p] = entry{e.v, stamp}
	}
}

// change is what another set of TTLs makes of the entries.
func (m *model) change(ds []state.Descriptor, mo ttl.Moment) {
	was := m.ds
	for p, e := range m.at {
		if _, there := m.get(p, mo); !there { // it does not come back
			delete(m.at, p)
			continue
		}
		a, b := was[p.st].TTL, ds[p.st].TTL
		if b.MS > 0 && (a.MS == 0 || a.Domain != b.Domain) {
			if e.stamp = mo.Event; b.Domain == processing {
				e.stamp = mo.Processing
			}
			m.at[p] = e
		}
	}
	m.ds = ds
}

func randomTTLs(r *rand.Rand) []state.Descriptor {
	ms := func() int64 { return []int64{1, 7, 50, 300, 2000}[r.Intn(5)] }
	ds := []state.Descriptor{
		valueOfWrites: {Name: "vw", Kind: abi.StateValue, MaxBytes: 40, TTL: state.TTL{MS: ms()}},
		valueOfReads:  {Name: "vr", Kind: abi.StateValue, MaxBytes: 40, TTL: state.TTL{MS: ms(), OnRead: true}},
		mapOfWrites:   {Name: "mw", Kind: abi.StateMap, TTL: state.TTL{MS: ms()}},
		mapOfReads:    {Name: "mr", Kind: abi.StateMap, TTL: state.TTL{MS: ms(), OnRead: true}},
		valueByClock:  {Name: "vp", Kind: abi.StateValue, MaxBytes: 40, TTL: state.TTL{MS: ms(), Domain: processing}},
		mapByClock:    {Name: "mp", Kind: abi.StateMap, TTL: state.TTL{MS: ms(), Domain: processing, OnRead: true}},
		forever:       {Name: "f", Kind: abi.StateMap},
	}
	for i := range ds {
		switch r.Intn(8) {
		case 0:
			ds[i].TTL = state.TTL{}
		case 1:
			ds[i].TTL.Domain = state.Domain(r.Intn(2))
		}
	}
	if i := r.Intn(len(ds)); ds[i].TTL.MS == 0 { // at least one
		ds[i].TTL.MS = 100
	}
	return ds
}

// history is one random run against the model.
type history struct {
	*world
	r    *rand.Rand
	m    *model
	n    int
	snap []state.Snapshot
	back model // at snap
	wmAt [3]int64
}

// The history's watermark and clock move in steps; what happens has times around them.
func (h *history) moment() ttl.Moment {
	wm := h.wm
	m := ttl.Moment{Event: wm, Stamp: wm, Processing: h.clock}
	switch t := h.clock + int64(h.r.Intn(200)) - 100; {
	case h.r.Intn(20) == 0: // a record without time
	default:
		m.Stamp = max(t, wm)
	}
	return m
}

func (h *history) word() string { return fmt.Sprintf("k%d", h.r.Intn(12)) }
func (h *history) ukey() string { return fmt.Sprintf("u%d", h.r.Intn(9)) }

func (h *history) op() {
	switch x := h.r.Intn(100); {
	case x < 30:
		h.one(h.r.Intn(len(h.ds)), h.word(), h.moment())
	case x < 50:
		h.batch()
	case x < 62:
		h.scan(h.moment())
	case x < 80:
		step := int64(h.r.Intn(60))
		if h.r.Intn(30) == 0 {
			step *= 100
		}
		wm := h.wm
		if h.r.Intn(2) == 0 {
			wm = max(wm, h.clock-int64(h.r.Intn(100)))
		}
		h.passed(wm, h.clock+step)
		h.m.first = h.first
	case x < 95:
		_, err := h.tasks[h.r.Intn(len(h.tasks))].Step()
		h.ok(err)
	case x < 98:
		h.snap = h.snapshot()
		h.back = model{h.ds, maps.Clone(h.m.at), h.m.first}
		h.wmAt = [3]int64{h.wm, h.first, h.clock}
	default:
		h.restore()
	}
}

// restore goes back to the snapshot, perhaps with other TTLs and another number of tasks. The clock goes on.
func (h *history) restore() {
	h.stop()
	*h.m = model{h.back.ds, maps.Clone(h.back.at), h.back.first}
	h.wm, h.first = abi.MinWatermark, abi.MinWatermark
	if h.snap != nil {
		h.wm, h.first = h.wmAt[0], h.wmAt[1]
	}
	if h.r.Intn(2) == 0 {
		h.ds = randomTTLs(h.r)
	} else {
		h.ds = h.m.ds
	}
	h.m.change(h.ds, ttl.Moment{Event: h.wm, Processing: h.clock})
	h.start(1+h.r.Intn(3), h.snap)
}

func (h *history) isValue(st int) bool { return h.ds[st].Kind == abi.StateValue }

func (h *history) one(st int, k string, mo ttl.Moment) {
	t := h.at(k, mo)
	p := place{st, k, ""}
	if !h.isValue(st) {
		p.u = h.ukey()
	}
	get := func() ([]byte, bool, error) {
		if h.isValue(st) {
			return t.Value(st).Load(state.NoPos, h.world.key(k))
		}
		return t.Ordered(st).Get(h.world.key(k), []byte(p.u))
	}
	v, ok, err := get()
	h.ok(err)
	if want, in := h.m.get(p, mo); ok != in || ok && string(v) != want.v {
		h.t.Fatalf("op %d: %v at %+v: %q %v, want %+v %v", h.n, p, mo, v, ok, want, in)
	}
	var e error
	switch h.r.Intn(5) {
	case 0, 1:
		v := fmt.Sprint("v", h.n)
		if h.m.put(p, v, mo); h.isValue(st) {
			e = t.Value(st).Store(state.NoPos, h.world.key(k), []byte(v))
		} else {
			e = t.Ordered(st).Put(h.world.key(k), []byte(p.u), []byte(v))
		}
	case 2:
		if delete(h.m.at, p); h.isValue(st) {
			e = t.Value(st).Remove(state.NoPos, h.world.key(k))
		} else {
			e = t.Ordered(st).Delete(h.world.key(k), []byte(p.u))
		}
	case 3:
		h.renew(t, st, p, mo)
	case 4:
		if h.r.Intn(8) == 0 && !h.isValue(st) {
			e = t.Ordered(st).Clear(h.world.key(k))
			maps.DeleteFunc(h.m.at, func(x place, _ entry) bool { return x.st == st && x.k == k })
		}
	}
	h.ok(e)
}

// renew reads, and perhaps takes that back as a failed record does.
func (h *history) renew(t state.Keyed, st int, p place, mo ttl.Moment) {
	x, ok := t.(*ttl.Keyed)
	if !ok {
		return
	}
	was, renewed, err := x.Renew(st, h.world.key(p.k), []byte(p.u))
	h.ok(err)
	if renewed && h.r.Intn(2) == 0 {
		was = slices.Clone(was)
		if h.isValue(st) {
			h.ok(x.RawValue(st).Store(state.NoPos, h.world.key(p.k), was))
		} else {
			h.ok(x.RawOrdered(st).Put(h.world.key(p.k), []byte(p.u), was))
		}
		return
	}
	h.m.renew(p, mo)
}

// batch loads and stores cells of distinct keys of one task, each with its own moment.
func (h *history) batch() {
	st := []int{valueOfWrites, valueOfReads, valueByClock}[h.r.Intn(3)]
	task := h.r.Intn(len(h.tasks))
	var names []string
	for i := range 12 {
		if k := fmt.Sprintf("k%d", i); h.taskOf(k) == task && h.r.Intn(2) == 0 {
			names = append(names, k)
		}
	}
	keys, pos := make([]state.Key, len(names)), make([]state.Pos, len(names))
	ms := make([]ttl.Moment, len(names))
	times, stamps := make([]int64, len(names)), make([]int64, len(names))
	for i, k := range names {
		ms[i] = h.moment()
		keys[i], times[i], stamps[i] = h.world.key(k), ms[i].Event, ms[i].Stamp
	}
	x := h.tasks[task]
	if t, ok := x.(*ttl.Keyed); ok {
		t.Batch(times, stamps, h.clock)
	}
	stride := abi.CellStride(h.ds[st].MaxBytes)
	cells := make([]byte, len(keys)*stride)
	h.ok(x.Value(st).Prefetch(keys, pos))
	h.ok(x.Value(st).LoadCells(keys, pos, cells, stride))
	for i, k := range names {
		c := cells[i*stride:]
		n, flags := binary.LittleEndian.Uint32(c), binary.LittleEndian.Uint32(c[4:])
		p := place{st, k, ""}
		v := string(c[abi.CellHeader : abi.CellHeader+n])
		if want, in := h.m.get(p, ms[i]); (flags == abi.CellPresent) != in || in && v != want.v {
			h.t.Fatalf("op %d: cell of %v at %+v: %q %d, want %+v %v", h.n, p, ms[i], v, flags, want, in)
		}
		switch h.r.Intn(4) {
		case 0:
			v := fmt.Sprint("c", h.n)
			binary.LittleEndian.PutUint32(c, uint32(copy(c[abi.CellHeader:], v)))
			binary.LittleEndian.PutUint32(c[4:], abi.CellPresent|abi.CellChanged)
			h.m.put(p, v, ms[i])
		case 1:
			binary.LittleEndian.PutUint32(c[4:], abi.CellChanged)
			delete(h.m.at, p)
		default:
			h.m.renew(p, ms[i])
		}
	}
	h.ok(x.Value(st).StoreCells(keys, pos, cells, stride))
}

func (h *history) scan(mo ttl.Moment) {
	st := []int{mapOfWrites, mapOfReads, mapByClock, forever}[h.r.Intn(4)]
	k, from := h.word(), h.ukey()
	it, err := h.at(k, mo).Ordered(st).Scan(h.world.key(k), []byte(from))
	h.ok(err)
	var got, want []string
	for it.Next() {
		u, v := it.Entry()
		got = append(got, string(u)+"="+string(v))
	}
	h.ok(it.Close())
	for p := range h.m.at {
		if e, ok := h.m.get(p, mo); ok && p.st == st && p.k == k && p.u >= from {
			want = append(want, p.u+"="+e.v)
		}
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.t.Fatalf("op %d: scan of state %d, %s from %s at %+v: %v, want %v", h.n, st, k, from, mo, got, want)
	}
}

// end looks at everything, and that nothing stays behind.
func (h *history) end() {
	for p := range h.m.at {
		h.one(p.st, p.k, h.moment())
	}
	h.passed(1<<50, 1<<50)
	h.clean()
	for i, d := range h.ds {
		if d.TTL.MS == 0 {
			continue
		}
		for j := range 12 {
			k := fmt.Sprintf("k%d", j)
			x := h.at(k, ttl.Moment{}).(*ttl.Keyed)
			if h.isValue(i) {
				if _, ok, err := x.RawValue(i).Load(state.NoPos, h.world.key(k)); ok || err != nil {
					h.t.Fatalf("value of %s in %s is still there: %v", k, d.Name, err)
				}
				continue
			}
			it, err := x.RawOrdered(i).Scan(h.world.key(k), nil)
			h.ok(err)
			if it.Next() {
				h.t.Fatalf("an entry of %s in %s is still there", k, d.Name)
			}
			h.ok(it.Close())
		}
	}
}

// TestAgainstModel runs random histories over both domains, changes of TTLs at restores, other numbers of
// tasks and all backends.
func TestAgainstModel(t *testing.T) {
	both(t, func(t *testing.T, kind string, budget int64) {
		runs, ops := 3, 1500
		if budget < 1<<20 { // much of it is opening and closing databases
			runs, ops = 2, 600
		}
		for range runs {
			seed := rand.Int63()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewSource(seed))
			ds := randomTTLs(r)
			m := &model{ds: ds, at: map[place]entry{}, first: abi.MinWatermark}
			h := &history{world: newWorld(t, kind, budget, ds), r: r, m: m, back: model{ds, map[place]entry{}, abi.MinWatermark}}
			h.start(1+r.Intn(3), nil)
			for h.n = range ops {
				h.op()
			}
			h.end()
			h.stop()
		}
	})
}
