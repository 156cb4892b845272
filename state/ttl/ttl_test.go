package ttl_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/ttl"
)

func second(d state.Domain) []state.Descriptor {
	t := state.TTL{MS: 1000, Domain: d}
	return []state.Descriptor{{Name: "v", Kind: abi.StateValue, TTL: t, MaxBytes: 100}, {Name: "m", Kind: abi.StateMap, TTL: t}}
}

// moment is a record with a time, when both clocks are at now.
func moment(time, now int64) ttl.Moment {
	return ttl.Moment{Event: now, Stamp: max(time, now), Processing: now}
}

// C018: present at 999, absent at 1000.
func TestExpiresAtItsTime(t *testing.T) {
	both(t, func(t *testing.T, kind string, budget int64) {
		for d := event; d <= processing; d++ {
			w := newWorld(t, kind, budget, second(d))
			w.start(1, nil)
			k := w.at("k", ttl.Moment{Event: abi.MinWatermark, Stamp: 0, Processing: 0})
			w.ok(k.Value(0).Store(state.NoPos, w.key("k"), []byte("x")))
			w.ok(k.Ordered(1).Put(w.key("k"), []byte("u"), []byte("y")))
			for _, now := range []int64{0, 999, 1000, 1001} {
				k := w.at("k", moment(now, now))
				v, ok, err := k.Value(0).Load(state.NoPos, w.key("k"))
				w.ok(err)
				if want := now < 1000; ok != want || ok && string(v) != "x" {
					t.Fatalf("domain %d: the value at %d: %q %v, want there: %v", d, now, v, ok, want)
				}
				if v, ok, err = k.Ordered(1).Get(w.key("k"), []byte("u")); err != nil || ok != (now < 1000) || ok && string(v) != "y" {
					t.Fatalf("domain %d: the entry at %d: %q %v %v", d, now, v, ok, err)
				}
			}
		}
	})
}

// C018: storage comes back without a read.
func TestReclaimsWithoutReads(t *testing.T) {
	both(t, func(t *testing.T, kind string, budget int64) {
		n := 100_000
		if budget < 1<<20 {
			n = 20_000
		}
		if testing.Short() {
			n /= 5
		}
		for d := event; d <= processing; d++ {
			w := newWorld(t, kind, budget, second(d))
			w.start(1, nil)
			for i := range n {
				key := fmt.Sprintf("key-%06d", i)
				k := w.at(key, moment(int64(i/100), int64(i/100)))
				w.ok(k.Value(0).Store(state.NoPos, w.key(key), []byte("some value")))
				if i%10 == 0 {
					w.ok(k.Ordered(1).Put(w.key(key), []byte("u"), []byte("an entry")))
				}
				if i%100 == 0 {
					_, err := k.Step()
					w.ok(err)
				}
			}
			full := w.stats()
			if full.Timers != 0 {
				t.Fatalf("%d timers that nobody set", full.Timers)
			}
			stored := sizeOf(w.snapshot())
			w.passed(1_000_000_000, 1_000_000_000)
			w.clean()
			left := int64(0)
			for range 200 { // what is removed leaves memory and files as snapshots go by and merges beside them end
				if left = sizeOf(w.snapshot()); left <= stored/50 {
					break
				}
				w.clean()
				time.Sleep(5 * time.Millisecond)
			}
			s := w.stats()
			if s.Entries > int64(n)/100 || left > stored/50 {
				t.Fatalf("domain %d: %d entries are left of %d, %d bytes of the snapshot's %d", d, s.Entries, full.Entries, left, stored)
			}
			for i := range n {
				key := fmt.Sprintf("key-%06d", i)
				x := w.tasks[0].(*ttl.Keyed)
				if _, ok, err := x.RawValue(0).Load(state.NoPos, w.key(key)); ok || err != nil {
					t.Fatalf("%s is still stored: %v", key, err)
				}
				if _, ok, err := x.RawOrdered(1).Get(w.key(key), []byte("u")); ok || err != nil {
					t.Fatalf("an entry of %s is still stored: %v", key, err)
				}
			}
		}
	})
}

// C018: a TTL over old state: its values age from the restore on. And back.
func TestEnabledOnOldState(t *testing.T) {
	keys := 5000
	if testing.Short() {
		keys = 1000
	}
	both(t, func(t *testing.T, kind string, budget int64) {
		plain := []state.Descriptor{{Name: "v", Kind: abi.StateValue, MaxBytes: 100}, {Name: "m", Kind: abi.StateMap}}
		for _, wm := range []int64{abi.MinWatermark, 50_000} {
			w := newWorld(t, kind, budget, plain)
			w.start(2, nil)
			for i := range keys {
				key := fmt.Sprintf("key-%d", i)
				k := w.at(key, ttl.Moment{})
				w.ok(k.Value(0).Store(state.NoPos, w.key(key), []byte(key)))
				w.ok(k.Ordered(1).Put(w.key(key), []byte("u"), []byte(key)))
			}
			snap := w.snapshot()
			w.stop()
			w.wm, w.ds = wm, second(event)
			w.start(3, snap)
			from := int64(50_000)
			check := func(now int64, there bool) {
				t.Helper()
				for i := range keys {
					key := fmt.Sprintf("key-%d", i)
					k := w.at(key, moment(now, now))
					v, ok, err := k.Value(0).Load(state.NoPos, w.key(key))
					if err != nil || ok != there || ok && string(v) != key {
						t.Fatalf("value of %s at %d: %q %v %v, want there: %v", key, now, v, ok, err, there)
					}
					v, ok, err = k.Ordered(1).Get(w.key(key), []byte("u"))
					if err != nil || ok != there || ok && string(v) != key {
						t.Fatalf("entry of %s at %d: %q %v %v, want there: %v", key, now, v, ok, err, there)
					}
				}
			}
			if wm == abi.MinWatermark {
				check(wm, true)
			}
			w.passed(from, 0)
			check(from+999, true)
			again := w.snapshot()
			check(from+1000, false)

			// without it they stay
			w.stop()
			w.ds = plain
			w.start(1, again)
			check(1<<50, true)
			if _, ok := w.tasks[0].(*ttl.Keyed); ok {
				t.Fatal("state without a TTL is wrapped")
			}
			w.stop()

			// with it back, a shorter one counts for what is there, and goes
			w.ds = second(event)
			for i := range w.ds {
				w.ds[i].TTL.MS = 10
			}
			w.start(2, again)
			check(from+9, true)
			check(from+10, false)
			w.passed(from+20, 0)
			w.clean()
			for range 3 {
				w.snapshot()
			}
			if s := w.stats(); s.Entries > 100 {
				t.Fatalf("%d entries are left", s.Entries)
			}
			w.stop()
		}
	})
}

// sizeOf is the bytes of a snapshot, shared files counted once.
func sizeOf(ss []state.Snapshot) (n int64) {
	seen := map[string]bool{}
	for _, s := range ss {
		for _, st := range s.States {
			for _, r := range st.Runs {
				if !seen[r.Object] {
					seen[r.Object] = true
					n += r.Size
				}
			}
		}
	}
	return n
}

func TestOneKeyWithManyEntriesIsSweptInPieces(t *testing.T) {
	both(t, func(t *testing.T, kind string, budget int64) {
		w := newWorld(t, kind, budget, second(event))
		w.start(1, nil)
		k := w.at("k", moment(0, 0))
		for i := range 20_000 {
			k = w.at("k", moment(int64(i/10), 0))
			w.ok(k.Ordered(1).Put(w.key("k"), fmt.Appendf(nil, "%08d", (i*7919)%20_000), []byte(strings.Repeat("x", 20))))
		}
		w.passed(2000, 0)
		steps := 0
		for busy := true; busy; steps++ {
			var err error
			busy, err = k.Step()
			w.ok(err)
		}
		if steps < 10 {
			t.Fatalf("20000 entries in %d steps", steps)
		}
		it, err := k.(*ttl.Keyed).RawOrdered(1).Scan(w.key("k"), nil)
		w.ok(err)
		n := 0
		for it.Next() {
			n++
		}
		w.ok(it.Close())
		if n != 9990 { // stamps 1001 to 1999
			t.Fatalf("%d entries are left, want 9990", n)
		}
		w.passed(3000, 0)
		w.clean()
		if it, err = k.(*ttl.Keyed).RawOrdered(1).Scan(w.key("k"), nil); err != nil || it.Next() {
			t.Fatalf("something is left: %v", err)
		}
		w.ok(it.Close())
	})
}
