package window

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
)

var sames = flag.Int("same", 1, "random inputs per node of TestSameOutput")

// sameNodes are windows of every kind, with every aggregate.
func sameNodes() (ws []*operators.WindowNode) {
	all := append(statsOf(), operators.WindowAggregate{Name: "avg", Kind: operators.AggAvg, Field: "f"},
		operators.WindowAggregate{Name: "fsum", Kind: operators.AggSum, Field: "f"},
		operators.WindowAggregate{Name: "smin", Kind: operators.AggMin, Field: "s"}, operators.WindowAggregate{Name: "smax", Kind: operators.AggMax, Field: "s"},
		operators.WindowAggregate{Name: "first", Kind: operators.AggFirst, Field: "s"}, operators.WindowAggregate{Name: "last", Kind: operators.AggLast, Field: "v"},
		operators.WindowAggregate{Name: "u", Kind: operators.AggDistinct, Field: "v"}, operators.WindowAggregate{Name: "us", Kind: operators.AggDistinct, Field: "s"},
		operators.WindowAggregate{Name: "about", Kind: operators.AggDistinctApprox, Field: "s"}, operators.WindowAggregate{Name: "q", Kind: operators.AggQuantile, Field: "f", Quantile: 0.9},
		operators.WindowAggregate{Name: "top", Kind: operators.AggTop, Field: "v", N: 3}, operators.WindowAggregate{Name: "ids", Kind: operators.AggCollect, Field: "v"})
	some := append(statsOf(), operators.WindowAggregate{Name: "ids", Kind: operators.AggCollect, Field: "v"}, operators.WindowAggregate{Name: "smax", Kind: operators.AggMax, Field: "s"})
	for i, s := range append(shuffleShapes, operators.WindowShape{Type: operators.WindowSession, GapField: "v"}) {
		w := node(s, all...)
		ws = append(ws, w)
		w = node(s, some...)
		w.Trigger = shuffleTriggers[i%len(shuffleTriggers)]
		w.Trigger.Timeout, w.Trigger.TimeoutReset = 15, i%2 == 0
		w.Lateness, w.Revision, w.Accumulation = 12, true, operators.Discarding
		if i%3 == 0 {
			w.Accumulation, w.Trigger.LateEvery = operators.Retracting, 5
		}
		ws = append(ws, w)
		w = node(s, some...)
		w.Evictor, w.Lateness = &operators.WindowEvictor{Count: 2, After: i%2 == 0}, 6
		ws = append(ws, w)
		w = node(s, all...)
		w.Time, w.Trigger.EveryClock = operators.TimeProcessing, 4
		ws = append(ws, w)
	}
	for _, s := range []operators.WindowShape{{Type: operators.WindowGlobal}, {Type: operators.WindowCount, Count: 3}, {Type: operators.WindowCount, Count: 4, CountSlide: 2}} {
		w := node(s, some...)
		w.Trigger.EndOfStream = true
		if s.CountSlide > 0 {
			w.Evictor = &operators.WindowEvictor{Count: s.Count}
		}
		ws = append(ws, w)
		w = node(s, some...)
		w.Trigger.EveryClock, w.Trigger.IfChanged = 7, true
		ws = append(ws, w)
		w = node(s, some...)
		w.Trigger = operators.WindowTrigger{Every: 7}
		ws = append(ws, w)
	}
	return ws
}

// sameSteps is an input with late records, and the clock moving.
func sameSteps(rng *rand.Rand, n int) (steps []step) {
	_, steps = arrivals(rng, n, 30)
	clock := int64(0)
	for i := range steps {
		if steps[i].kind == 'w' {
			steps[i].wm += 12 // ahead of what may come
		} else {
			steps[i].rec.V = 1 + (steps[i].rec.V+500)%40
		}
	}
	for i := 0; i < len(steps); i += 1 + rng.IntN(12) {
		clock += rng.Int64N(9)
		steps = slices.Insert(steps, i, step{kind: 'c', clock: clock})
	}
	return steps
}

// keyOrder is an output as text, of each key in order.
func keyOrder(rs []abi.Record) map[string][]string {
	m := map[string][]string{}
	for _, r := range rs {
		m[string(r.Key)] = append(m[string(r.Key)], fmt.Sprintf("%d %d %x", r.Time, r.Op, r.Value))
	}
	return m
}

// marksOf are an output's watermarks, with the number of results before each.
func marksOf(x *world, output int) (ms []operatortest.Mark) {
	before := 0
	for _, h := range append(slices.Clone(x.gone), x.tasks...) {
		c := h.Output(output)
		for _, m := range c.Marks {
			ms = append(ms, operatortest.Mark{Records: m.Records + before, Watermark: m.Watermark})
		}
		before += len(c.Records)
	}
	return ms
}

// TestSameOutput: batch size, backend and restores don't show in the output, byte for byte; tasks don't in
// what each key gets.
func TestSameOutput(t *testing.T) {
	for i, w := range sameNodes() {
		for n := range *sames {
			seed := uint64(1000*i + n)
			t.Run(fmt.Sprintf("%d %s %s seed %d", i, w.Window.Type, w.Time, seed), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 5))
				steps := sameSteps(rng, 120)
				plainly := newWorld(t, w, "memory", 1)
				plainly.run(steps, 1, nil)
				defer plainly.close()
				if len(plainly.results(0)) == 0 {
					t.Fatal("no results")
				}
				same(t, rng, w, steps, plainly, 1)
				same(t, rng, w, steps, plainly, []int{2, 4}[n%2])
			})
		}
	}
}

func same(t *testing.T, rng *rand.Rand, w *operators.WindowNode, steps []step, plainly *world, tasks int) {
	t.Helper()
	restores := map[int]int{}
	for range rng.IntN(3) {
		restores[rng.IntN(len(steps))] = 1
		if tasks > 1 {
			restores[rng.IntN(len(steps))] = 1 + rng.IntN(4)
		}
	}
	kind, size := []string{"memory", "disk"}[rng.IntN(2)], []int{7, 64, 1024}[rng.IntN(3)]
	x := newWorld(t, w, kind, tasks)
	x.run(steps, size, restores)
	defer x.close()
	for output := range 2 {
		a, b := plainly.results(output), x.results(output)
		if len(a) != len(b) {
			t.Errorf("output %d: %d records, expected %d (%s, batches of %d, %d tasks, restores %v)", output, len(b), len(a), kind, size, tasks, restores)
			return
		}
		if tasks == 1 {
			for i := range a {
				if string(a[i].Value) != string(b[i].Value) || string(a[i].Key) != string(b[i].Key) || a[i].Time != b[i].Time || a[i].Op != b[i].Op {
					t.Errorf("output %d, record %d of key %q: %x, of %q expected: %x (%s, batches of %d, restores %v)", output, i, b[i].Key, b[i].Value, a[i].Key, a[i].Value, kind, size, restores)
					return
				}
			}
			continue
		}
		ka, kb := keyOrder(a), keyOrder(b)
		for k := range ka {
			if !slices.Equal(ka[k], kb[k]) {
				t.Errorf("output %d, key %q: %q, expected %q (%s, batches of %d, %d tasks, restores %v)", output, k, kb[k], ka[k], kind, size, tasks, restores)
				return
			}
		}
	}
	if a, b := marksOf(plainly, 0), marksOf(x, 0); tasks == 1 && !slices.Equal(a, b) {
		t.Errorf("watermarks between results: %v, expected %v (%s, batches of %d, restores %v)", b, a, kind, size, restores)
	}
	if plainly.late() != x.late() {
		t.Errorf("%d late, expected %d", x.late(), plainly.late())
	}
}
