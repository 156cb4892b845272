package window

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
	"github.com/millrace-io/millrace/state"
)

// TestIndexOrder: times come in order, keys of one in order of their bytes.
func TestIndexOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, form := range []string{"%d", "key-%08d", "%08d-a-long-tail", "\x00%.0s", "same prefix %d"} {
		x := newIndex(1 << 30)
		type entry struct {
			at  int64
			key string
		}
		var want []entry
		for range 20_000 {
			e := entry{rng.Int64N(30) * rng.Int64N(2), fmt.Sprintf(form, rng.IntN(1<<20))}
			if rng.IntN(5) == 0 {
				e.key += string([]byte{0, byte(rng.IntN(3))})[:rng.IntN(3)]
			}
			want = append(want, e)
			if !x.add(e.at, state.Key{Hash: 7, Bytes: []byte(e.key)}) {
				t.Fatalf("no room for %q", e.key)
			}
		}
		slices.SortFunc(want, func(a, b entry) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.key, b.key)) })
		i := 0
		for {
			at, ok := x.next()
			if !ok {
				break
			}
			for _, r := range x.take() {
				if k := x.key(r.item); at != want[i].at || string(k.Bytes) != want[i].key {
					t.Fatalf("form %q, %d: %d %q, expected %d %q", form, i, at, k.Bytes, want[i].at, want[i].key)
				}
				i++
			}
			x.done()
		}
		if i != len(want) || x.n != 0 {
			t.Errorf("form %q: %d came, %d are left, expected %d and 0", form, i, x.n, len(want))
		}
	}
}

// TestIndexLimit: beyond its limit, and for long keys, timers do the same.
func TestIndexLimit(t *testing.T) {
	w := node(operators.WindowShape{Type: operators.WindowSliding, Size: 20, Slide: 10}, statsOf()...)
	var steps []step
	rng := rand.New(rand.NewPCG(6, 6))
	for i := range int64(3000) {
		key := fmt.Sprint("k", rng.IntN(500))
		if rng.IntN(3) == 0 {
			key += string(bytes.Repeat([]byte("long"), 15))
		}
		steps = append(steps, step{kind: 'r', rec: &windowtest.Rec{Key: key, Time: i / 50, V: i}})
		if i%500 == 499 {
			steps = append(steps, step{kind: 'w', wm: i/50 - 1})
		}
	}
	a, b := newWorld(t, w, "memory", 1), newWorld(t, w, "memory", 1)
	b.tasks[0].Op.(*Op).index.limit = 100
	a.run(steps, 64, nil)
	b.run(steps, 64, nil)
	defer a.close()
	defer b.close()
	ra, rb := a.results(0), b.results(0)
	if len(ra) != len(rb) || len(ra) < 500 {
		t.Fatalf("%d and %d results", len(ra), len(rb))
	}
	for i := range ra {
		if string(ra[i].Key) != string(rb[i].Key) || string(ra[i].Value) != string(rb[i].Value) {
			t.Fatalf("result %d: keys %q and %q", i, ra[i].Key, rb[i].Key)
		}
		if i > 0 && ra[i].Time == ra[i-1].Time && string(ra[i].Key) <= string(ra[i-1].Key) {
			t.Fatalf("result %d: %q behind %q", i, ra[i].Key, ra[i-1].Key)
		}
	}
}
