package guests_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/operators"
)

var windowSeeds = flag.Int("windows", 0, "random inputs per kind of window of TestGuestAggregatesAreAsBuiltIn; 0: a few kinds")

var guestShapes = []operators.WindowShape{
	{Type: operators.WindowTumbling, Size: 10}, {Type: operators.WindowTumbling, Size: 10, Offset: -3},
	{Type: operators.WindowSliding, Size: 20, Slide: 5}, {Type: operators.WindowSliding, Size: 17, Slide: 5},
	{Type: operators.WindowCumulate, Size: 20, Step: 5},
	{Type: operators.WindowSession, Gap: 4}, {Type: operators.WindowSession, GapField: "gap"},
	{Type: operators.WindowGlobal}, {Type: operators.WindowCount, Count: 3}, {Type: operators.WindowCount, Count: 4, CountSlide: 2},
}

var guestTriggers = []operators.WindowTrigger{
	{AtEnd: true},
	{AtEnd: true, Every: 7, IfChanged: true},
	{AtEnd: true, Count: 3},
	{AtEnd: true, Every: 5},
	{AtEnd: true, EveryClock: 6, Timeout: 15},
	{Count: 2, EndOfStream: true},
}

// forAllWindows calls f for shapes, triggers, accumulations and lateness.
func forAllWindows(f func(name string, i int, change func(w *operators.WindowNode))) {
	i := 0
	for _, s := range guestShapes {
		for j, tr := range guestTriggers {
			for _, acc := range []string{operators.Accumulating, operators.Discarding, operators.Retracting} {
				for _, late := range []int64{0, 12} {
					i++
					f(fmt.Sprintf("%s/%d/%s/late %d", s.Type, j, acc, late), i, func(w *operators.WindowNode) {
						w.Window, w.Trigger, w.Accumulation, w.Lateness = s, tr, acc, late
						w.Revision = i%3 > 0
						if late > 0 && i%4 == 0 {
							w.Trigger.LateEvery = 5
						}
						if i%7 == 0 && acc != operators.Retracting {
							w.Evictor = &operators.WindowEvictor{Count: 3, After: i%2 == 0}
						}
						if i%11 == 0 {
							w.Time, w.Lateness, w.Trigger.LateEvery = operators.TimeProcessing, 0, 0
						}
					})
				}
			}
		}
	}
}

// builtIn are the aggregates of a node as they are built in, and as guests.
func builtIn(n windowNode) (native, guest []operators.WindowAggregate) {
	agg := func(name, kind, field string) operators.WindowAggregate {
		return operators.WindowAggregate{Name: name, Kind: kind, Field: field}
	}
	native = []operators.WindowAggregate{agg("n", operators.AggCount, ""), agg("last", operators.AggLast, "v"), agg("sum", operators.AggSum, "v"),
		agg("avg", operators.AggAvg, "f"), agg("s_n", operators.AggCount, ""), agg("s_sum", operators.AggSum, "v"),
		agg("s_min", operators.AggMin, "v"), agg("s_max", operators.AggMax, "v")}
	guest = []operators.WindowAggregate{n.aggregate("n", "count"), native[1], n.aggregate("sum", "sum"), n.aggregate("avg", "avg"), n.aggregate("s", "stats")}
	return native, guest
}

// TestGuestAggregatesAreAsBuiltIn: the same rows, in the same order, with the same watermarks between, whatever
// the batches, the engine, the backend and restores.
func TestGuestAggregatesAreAsBuiltIn(t *testing.T) {
	compiled, interpreted := windowModules(t, "cases/windows/windows.wasm")
	nodes := windowNode{compiled}
	native, guest := builtIn(nodes)
	results := 0
	forAllWindows(func(name string, i int, change func(*operators.WindowNode)) {
		if *windowSeeds == 0 && i%3 != 0 {
			return
		}
		for k := range max(1, *windowSeeds) {
			seed := uint64(1000*i + k)
			t.Run(fmt.Sprintf("%s/seed %d", name, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 8))
				steps := windowSteps(rng, 120)
				w := nodes.node(operators.WindowShape{}, native...)
				change(w)
				want := newWindowWorld(t, compiled, w, "memory")
				if err := want.run(steps, 1); err != nil {
					t.Fatal(err)
				}
				want.close()
				results += len(want.output(0))
				for j, size := range []int{1, 64, 1024} {
					if *windowSeeds == 0 && j != i/3%3 {
						continue
					}
					w := nodes.node(operators.WindowShape{}, guest...)
					change(w)
					m := compiled
					if j == i%3 || i%5 == 0 {
						m = interpreted
					}
					kind := []string{"memory", "disk"}[rng.IntN(2)]
					restores := []int{rng.IntN(len(steps)), rng.IntN(len(steps))}[:rng.IntN(3)]
					x := newWindowWorld(t, m, w, kind)
					if err := x.run(steps, size, restores...); err != nil {
						t.Fatal(err)
					}
					x.close()
					for o := range 2 {
						if a, b := want.output(o), x.output(o); !slices.Equal(a, b) {
							at := 0
							for at < len(a) && at < len(b) && a[at] == b[at] {
								at++
							}
							t.Fatalf("output %d differs at %d (batches of %d, %s, restores %v):\n%q\nexpected\n%q", o, at, size, kind, restores, b[at:min(at+3, len(b))], a[at:min(at+3, len(a))])
						}
					}
				}
			})
		}
	})
	if results < 5000 {
		t.Errorf("%d results and watermarks in all", results)
	}
}
