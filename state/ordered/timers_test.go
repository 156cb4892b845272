package ordered

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// TestFarTimersCostNothingPerAdvance counts the items that advances look at while many timers lie days
// ahead.
func TestFarTimersCostNothingPerAdvance(t *testing.T) {
	tm := openTimers(t, config(t, false, 0))
	var kb [16]byte
	const n, day = 100_000, 86_400_000
	for i := range n {
		k := key(tm.h.cfg.Hasher, numbered(kb[:], i))
		if err := tm.Set(0, k, nil, 30*day+int64(i)*1000); err != nil {
			t.Fatal(err)
		}
	}
	gen, chunks := tm.gen, tm.chunks.live
	for now := int64(0); now < day; now += 100 {
		if into, err := tm.Due(0, now, 10, nil); err != nil || len(into) > 0 {
			t.Fatal(into, err)
		}
	}
	// every bucket is where it was: nothing was moved down, near is empty
	if q := tm.cal[0]; tm.gen != gen || tm.chunks.live > chunks+256 || len(q.near) != 0 {
		t.Fatalf("%d chunks, were %d; %d timers near", tm.chunks.live, chunks, len(q.near))
	}
	if m := tm.chunks.bytes() / n; m > 64 {
		t.Fatalf("%d bytes per far timer", m)
	}
}

// TestReplacedTimersDoNotPileUp: delete and set, a million times, leaves memory for the live ones only.
func TestReplacedTimersDoNotPileUp(t *testing.T) {
	tm := openTimers(t, config(t, false, 0))
	var kb [16]byte
	last := map[int]int64{}
	r := rand.New(rand.NewSource(1))
	for i := range 300_000 {
		n := r.Intn(1000)
		k := key(tm.h.cfg.Hasher, numbered(kb[:], n))
		at := int64(1e12) + int64(i)
		if old, ok := last[n]; ok {
			if err := tm.Delete(0, k, nil, old); err != nil {
				t.Fatal(err)
			}
		}
		if err := tm.Set(0, k, nil, at); err != nil {
			t.Fatal(err)
		}
		last[n] = at
	}
	if tm.Len() != len(last) {
		t.Fatalf("%d live timers, want %d", tm.Len(), len(last))
	}
	if b := tm.chunks.bytes(); b > 4<<20 {
		t.Fatalf("%d bytes of chunks for %d live timers", b, len(last))
	}
}

// TestManyTimersOfOneKey: a thousand due timers of each of a few keys take a thousand rounds, each of
// which costs what it returns; the tables and chunks are empty afterwards.
func TestManyTimersOfOneKey(t *testing.T) {
	tm := openTimers(t, config(t, false, 0))
	const keys, per = 5, 1000
	for i := range per {
		for k := range keys {
			if err := tm.Set(0, key(tm.h.cfg.Hasher, fmt.Appendf(nil, "k%d", k)), nil, int64(i*7919%per)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var into []state.Timer
	for i := range per {
		var err error
		if into, err = tm.Due(0, per, 100, into); err != nil || len(into) != keys {
			t.Fatalf("round %d: %d timers, %v", i, len(into), err)
		}
		for k, x := range into {
			if x.At != int64(i) || string(x.Key.Bytes) != fmt.Sprintf("k%d", k) {
				t.Fatalf("round %d: %s at %d", i, x.Key.Bytes, x.At)
			}
		}
	}
	if into, err := tm.Due(0, per, 100, into); err != nil || len(into) != 0 {
		t.Fatal(into, err)
	}
	if tm.chunks.live != 0 || tm.ids.n != 0 || tm.counts.n != 0 || tm.Len() != 0 {
		t.Fatalf("%d chunks, %d ids, %d counts left", tm.chunks.live, tm.ids.n, tm.counts.n)
	}
}

// TestTable16AgainstModel inserts, finds and removes at random, through growing and shrinking.
func TestTable16AgainstModel(t *testing.T) {
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	var x table16
	defer x.close()
	m := map[uint64]uint32{}
	for i := range 400_000 {
		a := uint64(r.Intn(30_000)) * 0x9e3779b97f4a7c15
		if i > 300_000 {
			a = uint64(r.Intn(300)) * 0x9e3779b97f4a7c15
		}
		e := x.find(a, 7)
		want, in := m[a]
		if (e != nil) != in || in && e.c != want {
			t.Fatalf("step %d: find %x: %v, want %d %v", i, a, e, want, in)
		}
		switch {
		case e == nil && r.Intn(3) > 0:
			if err := x.reserve(a); err != nil {
				t.Fatal(err)
			}
			x.insert(a, 7, uint32(i+1))
			m[a] = uint32(i + 1)
		case e != nil && r.Intn(2) == 0:
			x.remove(e)
			delete(m, a)
		}
		if x.n != len(m) {
			t.Fatalf("%d entries, want %d", x.n, len(m))
		}
	}
}
