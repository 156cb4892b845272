package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// harness runs random operations on a table and on maps: what the keys hold, what the runs hold (as the
// freezes and evictions gave them), and what a cut must hold.
type harness struct {
	t     *testing.T
	rng   *rand.Rand
	tab   *Table
	r     state.Range
	cold  bool
	model map[string]string // live values
	runs  map[string]string // what the runs say: values
	runsT map[string]bool   // keys that runs know at all

	cutModel map[string]string // model at the barrier
	cutRuns  map[string]string // runs at the barrier
	spilled  []record          // since the barrier: newer than the cut
	cut      uint32
}

type record struct {
	key, value string
	tomb       bool
}

func newHarness(t *testing.T, rng *rand.Rand, cold bool) *harness {
	r := state.Range{Lo: 0, Hi: state.Slots}
	if rng.IntN(2) == 0 {
		lo := rng.Uint32N(state.Slots - 1)
		r = state.Range{Lo: lo, Hi: lo + 1 + rng.Uint32N(state.Slots-lo)}
	}
	limit := int64(0)
	if cold {
		limit = 1 << (16 + rng.IntN(5))
	}
	tab, err := New(r, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tab.Close)
	return &harness{t: t, rng: rng, tab: tab, r: r, cold: cold,
		model: map[string]string{}, runs: map[string]string{}, runsT: map[string]bool{}}
}

// hash puts keys to all of the range, with its ends and some equal hashes.
func (h *harness) hash(key string) uint64 {
	lo, width := uint64(h.r.Lo)<<48, uint64(h.r.Hi-h.r.Lo)<<48 // width 0: everything
	x := state.Hasher{Seed: 7}.Hash([]byte(key))
	switch x % 97 {
	case 0:
		x = 0
	case 1:
		x = width - 1
	case 2:
		x &= 3
	}
	if width != 0 {
		x %= width
	}
	return max(lo+x, 1)
}

func (h *harness) apply(to map[string]string, x record) {
	h.runsT[x.key] = true
	if x.tomb {
		delete(to, x.key)
	} else {
		to[x.key] = x.value
	}
}

func (h *harness) room(n int) {
	for !h.tab.Room(n) && h.tab.Len() > 0 {
		_, err := h.tab.EvictSome(func(hash uint64, key, value []byte, tomb bool) error {
			x := record{string(key), string(value), tomb}
			if hash != h.hash(x.key) {
				h.t.Fatalf("evicted %q with another hash", key)
			}
			h.spilled = append(h.spilled, x)
			h.apply(h.runs, x)
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// fetch finds the key, bringing it in from the runs if need be.
func (h *harness) fetch(key string) (state.Pos, Origin) {
	p := h.tab.Find(state.NoPos, h.hash(key), []byte(key))
	if p != state.NoPos {
		return p, Clean
	}
	h.room(1)
	v, ok := h.runs[key]
	if !ok {
		return p, Fresh
	}
	p, err := h.tab.Insert(h.hash(key), []byte(key), []byte(v), false, Clean)
	if err != nil {
		h.t.Fatal(err)
	}
	return p, Clean
}

func (h *harness) put(key, value string) {
	p, o := h.fetch(key)
	var err error
	if p == state.NoPos {
		_, err = h.tab.Insert(h.hash(key), []byte(key), []byte(value), false, o)
	} else {
		err = h.tab.Put(p, []byte(value))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.model[key] = value
}

func (h *harness) remove(key string) {
	if h.rng.IntN(4) == 0 && h.tab.Find(state.NoPos, h.hash(key), []byte(key)) == state.NoPos {
		h.room(1) // blind
		if _, err := h.tab.Insert(h.hash(key), []byte(key), nil, true, Unknown); err != nil {
			h.t.Fatal(err)
		}
	} else if p, _ := h.fetch(key); p != state.NoPos {
		if err := h.tab.Remove(p); err != nil {
			h.t.Fatal(err)
		}
	}
	delete(h.model, key)
}

func (h *harness) check(key string) {
	p, _ := h.fetch(key)
	got, ok := "", false
	if p != state.NoPos {
		var v []byte
		v, ok = h.tab.Value(p)
		got = string(v)
	}
	if want, there := h.model[key]; ok != there || got != want {
		h.t.Fatalf("%q: %.20q %v, expected %.20q %v", key, got, ok, want, there)
	}
}

func (h *harness) freeze() {
	h.cut = h.tab.Freeze()
	h.cutModel, h.cutRuns, h.spilled = maps.Clone(h.model), maps.Clone(h.runs), nil
}

// finish compares the cut with the state at the barrier, and installs it or lets it fail.
func (h *harness) finish() {
	snap, side := h.tab.Take()
	seen := map[string]bool{}
	delta := slices.Concat(h.records(&snap, seen), h.records(&side, seen))
	merged := maps.Clone(h.cutRuns)
	for _, x := range delta {
		if x.tomb {
			delete(merged, x.key)
		} else {
			merged[x.key] = x.value
		}
	}
	if !maps.Equal(merged, h.cutModel) {
		h.t.Fatalf("the cut has %d keys, the state at the barrier had %d, or others", len(merged), len(h.cutModel))
	}
	refs := snap.Refs()
	snap.Sort(refs)
	if !slices.IsSortedFunc(refs, snap.compare) {
		h.t.Fatal("not sorted")
	}
	snap.Free()
	side.Free()
	if h.rng.IntN(5) > 0 {
		newer := h.spilled
		h.runs = merged
		for _, x := range slices.Concat(delta, newer) {
			h.apply(h.runs, x)
		}
		h.tab.Installed(h.cut)
	}
	h.cutModel = nil
}

func (h *harness) records(r *Records, seen map[string]bool) (out []record) {
	for _, x := range r.Refs() {
		k, v, tomb := r.Get(x)
		if seen[string(k)] {
			h.t.Fatalf("%q twice in a cut", k)
		}
		seen[string(k)] = true
		out = append(out, record{string(k), string(v), tomb})
	}
	return out
}

func (h *harness) value() string {
	n := h.rng.IntN(40)
	switch h.rng.IntN(60) {
	case 0:
		n = h.rng.IntN(3000)
	case 1:
		n = h.rng.IntN(200_000)
	case 2:
		n = 0
	}
	return strings.Repeat(string(rune('a'+h.rng.IntN(26))), n)
}

// TestTableAgainstModel: random puts, removals, growth, evictions, freezes that are installed or fail or
// are aborted; every cut holds the state at its barrier.
func TestTableAgainstModel(t *testing.T) {
	for round := range 16 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newHarness(t, rand.New(rand.NewPCG(seed, 0)), round%2 == 1)
			h.run(20_000, 1+h.rng.IntN(1+round*500))
		})
	}
}

func (h *harness) run(ops, keys int) {
	prefix := strings.Repeat("p", h.rng.IntN(2)*h.rng.IntN(900))
	removals := h.rng.IntN(50)
	for range ops {
		key := prefix + fmt.Sprint(h.rng.IntN(keys))
		switch x := h.rng.IntN(100); {
		case x < removals:
			h.remove(key)
		case x < 90:
			h.put(key, h.value())
		default:
			h.check(key)
		}
		switch x := h.rng.IntN(1000); {
		case x < 5 && h.cutModel == nil:
			h.freeze()
		case x < 40 && h.cutModel != nil:
			if h.tab.Freezing() {
				if x == 5 {
					h.tab.Abort()
					h.cutModel = nil
				} else if err := h.tab.Step(); err != nil {
					h.t.Fatal(err)
				}
			} else {
				h.finish()
			}
		case x < 45:
			h.tab.GrowStep()
		}
	}
	for i := range keys {
		h.check(prefix + fmt.Sprint(i))
	}
}

// TestArenaReuse: after many values of changing size the arena holds no more than what lives, and slabs are
// reused by other classes.
func TestArenaReuse(t *testing.T) {
	tab, err := New(state.Range{Lo: 0, Hi: state.Slots}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	h := state.Hasher{}
	for size := 100; size < 20_000; size += 700 {
		v := make([]byte, size)
		for i := range 200 {
			k := fmt.Appendf(nil, "key %d", i)
			if p := tab.Find(state.NoPos, h.Hash(k), k); p != state.NoPos {
				err = tab.Put(p, v)
			} else {
				_, err = tab.Insert(h.Hash(k), k, v, false, Fresh)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if most := int64(200*size*3/2 + 60*slabBytes); tab.arena.mapped > most {
			t.Fatalf("%d bytes mapped for 200 values of %d", tab.arena.mapped, size)
		}
	}
	for i := range 200 {
		k := fmt.Appendf(nil, "key %d", i)
		if err := tab.Remove(tab.Find(state.NoPos, h.Hash(k), k)); err != nil {
			t.Fatal(err)
		}
	}
	if tab.Len() != 0 || tab.ext != 0 || tab.extBytes != 0 {
		t.Fatalf("%d entries, %d in the arena with %d bytes after all were removed", tab.Len(), tab.ext, tab.extBytes)
	}
}

// TestSteadyStateAllocs: a batch of updates allocates nothing.
func TestSteadyStateAllocs(t *testing.T) {
	tab, keys := filled(t, 10_000)
	defer tab.Close()
	pos := make([]state.Pos, 256)
	v := make([]byte, 16)
	at := 0
	if n := testing.AllocsPerRun(100, func() {
		b := keys[at : at+256]
		at = (at + 256) % 9000
		tab.FindAll(b, pos)
		for i := range b {
			if err := tab.Put(pos[i], v); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Fatalf("%v allocations per batch", n)
	}
}

func filled(t testing.TB, n int) (*Table, []state.Key) {
	tab, err := New(state.Range{Lo: 0, Hi: state.Slots}, 0)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]state.Key, n)
	for i := range keys {
		b := fmt.Appendf(nil, "%012d", i)
		keys[i] = state.Key{Hash: state.Hasher{Seed: 3}.Hash(b), Bytes: b}
		if _, err := tab.Insert(keys[i].Hash, b, make([]byte, 16), false, Fresh); err != nil {
			t.Fatal(err)
		}
	}
	return tab, keys
}

// TestForeignKey: a key of another task's slots is a broken invariant, not memory corruption.
func TestForeignKey(t *testing.T) {
	tab, err := New(state.Range{Lo: 100, Hi: 200}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tab.Close()
	for _, h := range []uint64{1, 99 << 48, 200 << 48, 1<<64 - 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("hash %x was taken", h)
				}
			}()
			tab.Find(state.NoPos, h, []byte("k"))
		}()
	}
}
