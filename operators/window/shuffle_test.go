package window

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

var (
	shuffles    = flag.Int("shuffles", 20, "orders of arrival per kind of window")
	shuffleSeed = flag.Uint64("shuffle-seed", 1, "seed of the first one")
)

var shuffleShapes = []operators.WindowShape{
	{Type: operators.WindowTumbling, Size: 10, Offset: 3},
	{Type: operators.WindowSliding, Size: 12, Slide: 4},
	{Type: operators.WindowSliding, Size: 10, Slide: 4, Offset: -1},
	{Type: operators.WindowSliding, Size: 4, Slide: 10},
	{Type: operators.WindowCumulate, Size: 12, Step: 4, Offset: 1},
	{Type: operators.WindowSession, Gap: 7},
}

var shuffleTriggers = []operators.WindowTrigger{
	{AtEnd: true},
	{AtEnd: true, Every: 3, IfChanged: true},
	{AtEnd: true, Every: 4},
	{AtEnd: true, Count: 3},
	{AtEnd: true, Every: 5, IfChanged: true, Count: 2},
}

// arrivals are records in an order in which none comes more than delay behind the greatest time, with
// watermarks; times are even, so that sessions never just touch.
func arrivals(rng *rand.Rand, n int, delay int64) (rs []windowtest.Rec, steps []step) {
	type arrival struct {
		windowtest.Rec
		at int64
	}
	var as []arrival
	for range n {
		r := windowtest.Rec{Key: fmt.Sprintf("key%d", rng.IntN(7)), Time: 2*rng.Int64N(120) - 60, V: rng.Int64N(1000) - 500}
		as = append(as, arrival{r, r.Time + rng.Int64N(delay)})
		rs = append(rs, r)
	}
	slices.SortFunc(as, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	most := int64(-1 << 62)
	for i := range as {
		steps = append(steps, step{kind: 'r', rec: &as[i].Rec})
		if most = max(most, as[i].Time); rng.IntN(4) == 0 {
			steps = append(steps, step{kind: 'w', wm: most - delay - 1})
		}
	}
	return rs, steps
}

// TestShuffles: whatever the order of arrival, batches, backend, tasks and restores, every window ends up with
// what brute force says, for each kind of window, trigger, accumulation and lateness. Up to 30 orders each
// take one trigger per kind of window, beyond that all of them.
func TestShuffles(t *testing.T) {
	for n := range *shuffles {
		seed := *shuffleSeed + uint64(n)
		for i, shape := range shuffleShapes {
			for j, tr := range shuffleTriggers {
				if j != (n+i)%len(shuffleTriggers) && *shuffles <= 30 {
					continue
				}
				w := node(shape, statsOf()...)
				w.Trigger = tr
				w.Accumulation = []string{operators.Accumulating, operators.Discarding, operators.Retracting}[(n/5+i+j)%3]
				w.Lateness = []int64{0, 15}[n/3%2]
				w.Revision = n%2 == 0
				t.Run(fmt.Sprintf("seed %d %s %d %d", seed, shape.Type, i, j), func(t *testing.T) { shuffled(t, w, seed) })
			}
		}
	}
}

func shuffled(t *testing.T, w *operators.WindowNode, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	rs, steps := arrivals(rng, 150, 20)
	kind := []string{"memory", "disk"}[rng.IntN(2)]
	restores := map[int]int{}
	for range rng.IntN(3) {
		restores[rng.IntN(len(steps))] = 1 << rng.IntN(3)
	}
	x := newWorld(t, w, kind, 1<<rng.IntN(3))
	x.run(steps, []int{1, 64, 1024}[rng.IntN(3)], restores)
	defer x.close()
	if n := x.late(); n != 0 || len(x.results(1)) != 0 {
		t.Errorf("%d late records, expected none", n)
	}
	want := windowtest.Finals(w.Window, rs)
	got := finals(t, w, x.results(0), want)
	if maps.Equal(got, want) {
		return
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%v: %v, expected %v", k, got[k], v)
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%v: %v, expected no such window", k, v)
		}
	}
	t.Logf("%+v, %s, restores %v", *w, kind, restores)
}

// finals is what results amount to in the end. want tells the sessions that parts of one belong to.
func finals(t *testing.T, w *operators.WindowNode, rs []abi.Record, want map[windowtest.Window]windowtest.Stats) map[windowtest.Window]windowtest.Stats {
	got := map[windowtest.Window]windowtest.Stats{}
	parts := w.Window.Type == operators.WindowSession
	back := map[string]result{} // what was just taken back, by key
	for _, r := range rs {
		x := resultOf(t, w, r)
		old, was := back[x.Key]
		delete(back, x.Key)
		switch {
		case x.op == abi.OpUpdateBefore || x.op == abi.OpDelete:
			back[x.Key] = x
		case was && old.op == abi.OpUpdateBefore != (x.op == abi.OpUpdateAfter && old.Window == x.Window), was && old.op == abi.OpDelete && old.Window == x.Window:
			t.Errorf("%+v behind %+v", x, old)
		}
		switch w.Accumulation {
		case operators.Retracting:
			switch old, is := got[x.Window]; {
			case x.op == abi.OpInsert && is, x.op != abi.OpInsert && x.op != abi.OpUpdateAfter && old != x.Stats:
				t.Errorf("%v %+v, when the window's result was %v (%t)", x.op, x, old, is)
			case x.op == abi.OpInsert || x.op == abi.OpUpdateAfter:
				got[x.Window] = x.Stats
			default:
				delete(got, x.Window)
			}
		case operators.Discarding:
			k := x.Window
			for s := range want {
				if parts && s.Key == k.Key && s.Start <= k.Start && k.End <= s.End {
					k = s
				}
			}
			got[k] = got[k].Merge(x.Stats)
		default:
			got[x.Window] = x.Stats
		}
		if r.Op != abi.OpInsert && w.Accumulation != operators.Retracting {
			t.Errorf("a result with op %d", r.Op)
		}
	}
	if parts && w.Accumulation == operators.Accumulating { // early results of sessions that grew on
		for k := range got {
			if _, ok := want[k]; !ok {
				delete(got, k)
			}
		}
	}
	return got
}
