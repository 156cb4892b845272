package table

import (
	"testing"

	"github.com/millrace-io/millrace/state"
)

// TestWarmerKeepsContents: a table grows while its new memory gets huge pages ahead of the owner, and
// afterwards under it; every value stays. The table is then closed, and another one in the midst of both.
func TestWarmerKeepsContents(t *testing.T) {
	const n = 450_000 // past the move to a grid of 64 MiB
	tab, keys := filled(t, n)
	for tab.Growing() {
		tab.GrowStep()
	}
	w := tab.cur.warm
	if w == nil {
		t.Fatalf("a grid of %d bytes has no warmer", len(tab.cur.mem))
	}
	if w.stop.Load() {
		t.Fatal("the warmer of the grid in use is stopped")
	}
	check := func() {
		t.Helper()
		for i := range keys {
			p := tab.Find(state.NoPos, keys[i].Hash, keys[i].Bytes)
			if p == state.NoPos {
				t.Fatalf("key %d is gone", i)
			}
			if v, ok := tab.Value(p); !ok || len(v) != 16 {
				t.Fatalf("key %d: %q, %v", i, v, ok)
			}
		}
	}
	check() // while small pages are replaced
	<-w.done
	check()
	tab.Close()

	tab, _ = filled(t, 393_300) // growth to 64 MiB has just begun
	if !tab.Growing() {
		t.Fatalf("not growing with %d entries in %d homes", tab.Len(), tab.cur.cap)
	}
	tab.Close()
}

// TestWarmerStaysAway: huge pages are filled in only behind the margin before the owner.
func TestWarmerStaysAway(t *testing.T) {
	b, w, err := mapGrowing(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	<-w.done
	if w.from < warmMargin || w.from > w.last {
		t.Errorf("filled in from %d on, with the owner at 0", w.from)
	}
	w.finish(b)
	w.wait()
	unmapMemory(b)
}
