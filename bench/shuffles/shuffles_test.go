package main

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

var (
	orders = flag.Int("orders", 20, "orders of arrival")
	from   = flag.Uint64("seed", 1, "first one")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// TestOrders runs a few orders of arrival, with one combination of each window and trigger for each of them.
func TestOrders(t *testing.T) {
	r := &runner{n: *orders, seed: *from, workers: 2, combos: combos(nil), pairwise: true}
	r.run()
	for _, f := range r.failures {
		t.Error(f)
	}
	if r.failed > len(r.failures) {
		t.Errorf("%d failed in all", r.failed)
	}
	if r.totals.restores == 0 || r.totals.spilled == 0 || r.totals.results < r.totals.orders {
		t.Errorf("%+v: expected restores, evictions and results", r.totals)
	}
}

// Combinations are every legal one: late firings need lateness, everything else goes together.
func TestCombinations(t *testing.T) {
	all := combos(nil)
	want := 0
	for _, s := range shapes {
		for _, tr := range s.triggers {
			if tr.trigger.LateEvery > 0 {
				want += len(accumulations)
			} else {
				want += len(accumulations) * len(latenesses)
			}
		}
	}
	if len(all) != want {
		t.Errorf("%d combinations, expected %d", len(all), want)
	}
	if n := len(combos([]string{"session/", "every-late/retracting"})); n != 1 {
		t.Errorf("%d combinations by their words, expected 1", n)
	}
	for _, c := range all { // a thousand seeds meet every kind of variant
		kinds := map[int]int{}
		for seed := range uint64(1000) {
			kinds[kindFor(c, seed)]++
		}
		if len(kinds) != variants || slices.Min(slices.Collect(maps.Values(kinds))) < 18 {
			t.Fatalf("%s meets the kinds of variants %v times", c.name, kinds)
		}
	}
}

// Orders of one stream have its records, and their watermarks make none late.
func TestArrivals(t *testing.T) {
	rs := stream(3)
	for seed := range uint64(100) {
		ahead := int64(seed % 2 * 15)
		var got []int32
		wm, behind := int64(abi.MinWatermark), 0
		for _, e := range arrivals(seed, rs, ahead, true, nil) {
			switch e.kind {
			case 'w':
				wm = max(wm, e.ms)
			case 'r':
				got = append(got, e.rec)
				if lag := wm - rs[e.rec].Time; lag >= ahead {
					t.Fatalf("seed %d: a record %d ms behind the watermark, %d are allowed", seed, lag, ahead)
				} else if lag >= 0 {
					behind++
				}
			}
		}
		if ahead > 0 && behind == 0 {
			t.Errorf("seed %d: no record behind the watermark, within lateness", seed)
		}
		slices.Sort(got)
		for i, r := range got {
			if int(r) != i || len(got) != records {
				t.Fatalf("seed %d: records %v", seed, got)
			}
		}
	}
}

// A result that is lost, doubled, changed, out of order or of another window is told.
func TestJudgeTellsWhatIsWrong(t *testing.T) {
	rs := stream(1)
	for _, name := range []string{"tumbling/every/discarding/0", "sliding/end/accumulating/0", "session/count/retracting/15", "global/count/accumulating/0"} {
		c := combos([]string{name})[0]
		w := *c.nodeFor(1)
		want := windowtest.Finals(w.Window, rs)
		m, err := newMachine()
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := m.close(); err != nil {
				t.Error(err)
			}
		}()
		m.load(rs)
		if err := m.run(&w, variantOf(0, 1, 0), arrivals(1, rs, 0, false, nil)); err != nil {
			t.Fatal(err)
		}
		good := slices.Clone(m.results)
		if wrong := judge(&w, good, want); len(wrong) > 0 {
			t.Fatalf("%s: %v", name, wrong)
		}
		last := len(good) - 1
		for damage, f := range map[string]func([]outcome) []outcome{
			"lost":    func(rs []outcome) []outcome { return rs[:last] },
			"doubled": func(rs []outcome) []outcome { return append(rs, rs[last]) },
			"changed": func(rs []outcome) []outcome { rs[last].Sum++; return rs },
			"window":  func(rs []outcome) []outcome { rs[last].Start -= 1000; return rs },
			"key":     func(rs []outcome) []outcome { rs[last].Key += "x"; return rs },
			"op":      func(rs []outcome) []outcome { rs[last].op = abi.OpDelete; return rs },
		} {
			if wrong := judge(&w, f(slices.Clone(good)), want); len(wrong) == 0 {
				t.Errorf("%s: a result is wrong (%s), nothing was said", name, damage)
			}
		}
		if w.Accumulation != operators.Retracting {
			continue
		}
		for i := range good {
			if good[i].op == abi.OpUpdateBefore {
				if wrong := judge(&w, slices.Delete(slices.Clone(good), i, i+1), want); len(wrong) == 0 {
					t.Errorf("%s: a retraction is missing, nothing was said", name)
				}
				break
			}
		}
	}
}
