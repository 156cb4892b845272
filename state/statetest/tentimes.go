package statetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
)

const (
	smallBudget = 256 << 10
	valueBytes  = 64
	tenTimesN   = 10 * smallBudget / (valueBytes + 40)
)

// tenTimes fills one kind after the other with ten times the budget, snapshots, restores and reads it all.
func tenTimes(t *testing.T, open Open) {
	v := strings.Repeat("v", valueBytes)
	key := func(i int) string { return fmt.Sprintf("key-%07d", i) }
	run := func(name string, fill, check func(w *world, k string, i int)) *world {
		w := newWorld(t, open, smallBudget, 1)
		for i := range tenTimesN {
			fill(w, key(i), i)
		}
		snap := w.snapshot()
		for _, what := range []string{"filled", "restored"} {
			for i := range tenTimesN {
				n := i * 7919 % tenTimesN
				check(w, key(n), n)
			}
			s := w.stats()
			t.Logf("%s %s: %d keys, %d bytes in memory, budget %d; %d cold, %d evictions, %d cold reads", name, what,
				tenTimesN, s.MemBytes, smallBudget, s.ColdBytes, s.Evictions, s.ColdReads)
			if what == "filled" {
				w.restart(1, snap)
			}
		}
		return w
	}
	t.Run("value", func(*testing.T) {
		run("value", func(w *world, k string, _ int) { w.store(k, v) }, func(w *world, k string, _ int) {
			if got, ok := w.load(k); !ok || got != v {
				t.Fatalf("value of %s: %q %v", k, got, ok)
			}
		}).stop()
	})
	t.Run("map", func(*testing.T) {
		run("map", func(w *world, k string, _ int) { w.put(mapState, k, "u", v) }, func(w *world, k string, _ int) {
			if got, ok := w.get(mapState, k, "u"); !ok || got != v {
				t.Fatalf("entry of %s: %q %v", k, got, ok)
			}
		}).stop()
	})
	t.Run("timers", func(*testing.T) {
		w := run("timers", func(w *world, k string, i int) { w.set(event, k, v, int64(i)*1000) }, func(w *world, k string, i int) {
			if i%100 == 0 { // a deleted and registered again one is still one
				w.unset(event, k, v, int64(i)*1000)
				w.set(event, k, v, int64(i)*1000)
				w.set(event, k, v, int64(i)*1000)
			}
		})
		if got := w.tasks[0].Timers().Len(); got != tenTimesN {
			t.Fatalf("%d timers, want %d", got, tenTimesN)
		}
		drainInOrder(w)
		w.stop()
	})
}

// drainInOrder fires timers that are a second apart, many in an advance.
func drainInOrder(w *world) {
	fired, at := 0, int64(-1)
	for upTo := int64(999_000); fired < tenTimesN && upTo < 2000*tenTimesN; upTo += 1_000_000 {
		for {
			ts, err := w.tasks[0].Timers().Due(state.Domain(0), upTo, 256, nil)
			w.ok(err)
			if len(ts) == 0 {
				break
			}
			for _, t := range ts {
				if t.At <= at {
					w.t.Fatalf("timer at %d after %d", t.At, at)
				}
				at = t.At
				fired++
			}
		}
	}
	if fired != tenTimesN {
		w.t.Fatalf("%d timers fired, want %d", fired, tenTimesN)
	}
}
