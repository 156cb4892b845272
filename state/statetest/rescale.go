package statetest

import (
	"fmt"
	"slices"
	"testing"
)

// rescale is C027: keys with a value, entries and a timer each, from 3 tasks to 1, 2, 3, 5, 16, and on
// from there: several tasks then share runs, and a later snapshot of theirs must still be read rightly.
func rescale(t *testing.T, open Open, budget int64) {
	const keys = 600
	w := newWorld(t, open, budget, 3)
	want := map[string]int{}
	round := func(n int) {
		for i := range keys {
			if (i+n)%3 > 0 {
				continue
			}
			k := fmt.Sprintf("key-%d", i)
			want[k]++
			w.store(k, fmt.Sprint(want[k]))
			w.put(mapState, k, fmt.Sprint(want[k]), "v")
			w.unset(event, k, "", int64(1000+want[k]-1))
			w.set(event, k, "", int64(1000+want[k]))
		}
	}
	check := func(what string) {
		t.Helper()
		for i := range keys {
			k := fmt.Sprintf("key-%d", i)
			n, has := want[k]
			if v, ok := w.load(k); ok != has || has && v != fmt.Sprint(n) {
				t.Fatalf("%s: value of %s is %q %v, want %d", what, k, v, ok, n)
			}
			if got := w.scan(mapState, k, ""); len(got) != n {
				t.Fatalf("%s: %s has %d entries, want %d", what, k, len(got), n)
			}
		}
		timers := 0
		for _, task := range w.tasks {
			timers += task.Timers().Len()
		}
		if timers != len(want) {
			t.Fatalf("%s: %d timers, want %d", what, timers, len(want))
		}
	}
	round(0)
	for i, p := range []int{1, 2, 3, 5, 16, 3} {
		w.restart(p, w.snapshot())
		check(fmt.Sprintf("at %d tasks", p))
		round(i)
		w.snapshot() // an increment over runs that tasks share
		round(i + 1)
	}
	w.restart(2, w.snapshot())
	check("at the end")
	var wantFired []string
	for k, n := range want {
		wantFired = append(wantFired, timer{event, k, "", int64(1000 + n)}.String())
	}
	got := w.fire(event, 1<<40, nil)
	slices.Sort(got)
	slices.Sort(wantFired)
	w.same("fired", got, wantFired)
}
