package table

import (
	"testing"

	"github.com/millrace-io/millrace/state"
)

// TestHintsOfMovedEntries: positions in the grid that growth leaves still hold what they held; they are
// no hits once the entry has moved, and positions in the other grid are none before it has.
func TestHintsOfMovedEntries(t *testing.T) {
	n := maxLoad(firstHomes*16) + 1
	tab, keys := filled(t, n)
	defer tab.Close()
	if !tab.Growing() {
		t.Fatalf("not growing with %d entries in %d homes", n, tab.cur.cap)
	}
	pos := make([]state.Pos, n)
	tab.FindAll(keys, pos)
	tab.GrowStep()
	fresh := []byte("of sixteen bytes")
	moved := 0
	for i := range keys {
		k := &keys[i]
		now := tab.Find(pos[i], k.Hash, k.Bytes)
		_, _, hit := tab.ValueAt(pos[i], k.Hash, k.Bytes)
		if hit != (now == pos[i]) {
			t.Fatalf("key %d is at %x, a hit at %x: %v", i, now, pos[i], hit)
		}
		if !hit {
			moved++
		}
		if tab.Overwrite(pos[i], k.Hash, k.Bytes, fresh) != hit {
			t.Fatalf("key %d is at %x, overwritten at %x: %v", i, now, pos[i], !hit)
		}
		if v, ok := tab.Value(now); !ok || (string(v) == string(fresh)) != hit {
			t.Fatalf("key %d holds %q, %v after an overwrite that says %v", i, v, ok, hit)
		}
	}
	if moved == 0 || moved == n {
		t.Fatalf("%d of %d entries moved", moved, n)
	}
}

// TestOverwriteLeavesTheRest: what is frozen, of another length, removed, or elsewhere is not overwritten.
func TestOverwriteLeavesTheRest(t *testing.T) {
	tab, keys := filled(t, 100)
	defer tab.Close()
	at := func(i int) state.Pos { return tab.Find(state.NoPos, keys[i].Hash, keys[i].Bytes) }
	v := make([]byte, 16)
	if !tab.Overwrite(at(1), keys[1].Hash, keys[1].Bytes, v) {
		t.Fatal("a value of the same length was not overwritten")
	}
	for name, done := range map[string]bool{
		"another key":    tab.Overwrite(at(2), keys[1].Hash, keys[1].Bytes, v),
		"no position":    tab.Overwrite(state.NoPos, keys[1].Hash, keys[1].Bytes, v),
		"past the end":   tab.Overwrite(1<<29, keys[1].Hash, keys[1].Bytes, v),
		"another length": tab.Overwrite(at(1), keys[1].Hash, keys[1].Bytes, v[1:]),
	} {
		if done {
			t.Errorf("%s: overwritten", name)
		}
	}
	tab.Freeze()
	if tab.Overwrite(at(1), keys[1].Hash, keys[1].Bytes, v) {
		t.Error("a frozen entry was overwritten")
	}
}
