package statetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

const (
	event      = state.Domain(abi.DomainEvent)
	processing = state.Domain(abi.DomainProcessing)
	tiny       = 192 << 10 // a budget in which nothing of size fits
)

// Run runs the suite over what open opens: every case with plenty of memory and with nearly none.
func Run(t *testing.T, open Open) {
	cases := []struct {
		name string
		f    func(w *world)
	}{
		{"C012 timers in one jump", timersInOneJump},
		{"C013 duplicate and deleted timers", duplicateTimers},
		{"C014 timers due while down", timersWhileDown},
		{"C015 ambiguous keys", ambiguousKeys},
		{"C016 changes while iterating", changesWhileIterating},
		{"C017 empty and absent", emptyAndAbsent},
		{"C019 neighbours of cleared keys", clearedNeighbours},
		{"C019 snapshots under overwrites", snapshotsUnderOverwrites},
		{"rounds are cut off", cutOffRounds},
		{"limits", limits},
		{"big entries", bigEntries},
		{"clear survives restore", clearSurvives},
		{"lists", lists},
		{"failed cut loses nothing", failedCut},
		{"far timers", farTimers},
	}
	for _, budget := range []int64{0, tiny} {
		t.Run(fmt.Sprintf("budget %d", budget), func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) {
					w := newWorld(t, open, budget, 1)
					c.f(w)
					if n := w.stats().OpenIters; n != 0 {
						t.Fatalf("%d iterators open at rest", n)
					}
				})
			}
			t.Run("C027 rescale", func(t *testing.T) { rescale(t, open, budget) })
			t.Run("random", func(t *testing.T) { random(t, open, budget) })
		})
	}
	t.Run("ten times the budget", func(t *testing.T) { tenTimes(t, open) })
}

func timersInOneJump(w *world) {
	w.set(event, "k", "", 10)
	w.set(event, "k", "", 20)
	got := w.fire(event, 100, func(t timer) {
		switch t.at {
		case 10:
			w.set(event, "k", "", 15)
		case 20:
			w.set(event, "k", "", 5)
		}
	})
	w.same("fired", got, ids("k", 10, 15, 20, 5))
}

func ids(k string, at ...int64) (out []string) {
	for _, a := range at {
		out = append(out, timer{event, k, "", a}.String())
	}
	return out
}

func duplicateTimers(w *world) {
	for range 3 {
		w.set(event, "k", "", 50)
	}
	w.same("set three times", w.fire(event, 100, nil), ids("k", 50))
	w.set(event, "k", "", 130)
	w.set(event, "k", "", 140)
	got := w.fire(event, 200, func(t timer) { w.unset(event, "k", "", 140) })
	w.same("deleted by a callback", got, ids("k", 130))
	w.unset(event, "k", "", 7)
	w.unset(processing, "never", "x", 7)

	for i := range int64(1000) {
		w.unset(event, "k", "", 1000+i-1+1000)
		w.set(event, "k", "", 1000+i+1000)
	}
	if n := w.at("k").Timers().Len(); n != 1 {
		w.t.Fatalf("%d live timers after 1,000 replacements, want 1", n)
	}
	// identity is (domain, key, name, time)
	w.set(processing, "k", "", 2999)
	w.set(event, "k", "n", 2999)
	w.set(event, "k2", "", 2999)
	if n := w.at("k").Timers().Len(); n != 4 {
		w.t.Fatalf("%d live timers, want 4 of different identity", n)
	}
	w.same("last", w.fire(event, 5000, nil), []string{`0/"k"/""@2999`, `0/"k2"/""@2999`, `0/"k"/"n"@2999`})
}

func timersWhileDown(w *world) {
	const now = 1_800_000_000_000
	w.set(processing, "k", "", now+1000)
	w.set(processing, "k", "", now+2000)
	w.set(processing, "k", "", now+60_000)
	w.set(processing, "gone", "", now+1000)
	w.unset(processing, "gone", "", now+1000)
	w.restart(1, w.snapshot())
	w.same("5 s later", w.fire(processing, now+5000, nil), []string{
		timer{processing, "k", "", now + 1000}.String(), timer{processing, "k", "", now + 2000}.String()})
	if at, ok := w.at("k").Timers().Next(processing); !ok || at > now+60_000 {
		w.t.Fatalf("next is %d %v, want at most %d", at, ok, now+60_000)
	}
	w.restart(1, w.snapshot())
	w.same("60 s later", w.fire(processing, now+60_000, nil), []string{timer{processing, "k", "", now + 60_000}.String()})
	w.restart(1, w.snapshot())
	w.same("again", w.fire(processing, now+99_000, nil), nil)
}

func ambiguousKeys(w *world) {
	fill := func() {
		w.put(mapState, "a", "bc", "1")
		w.put(mapState, "ab", "c", "2")
		w.put(mapState, "", "abc", "3")
		w.put(mapState, "a\x00", "bc", "4")
		w.put(mapState, "\xff\xff", "", "5")
		w.put(otherMap, "a", "bc", "other")
	}
	check := func(what, a string) {
		w.t.Helper()
		for k, e := range map[string]string{"a": a, "ab": "c=2", "": "abc=3", "a\x00": "bc=4", "\xff\xff": "=5"} {
			want := []string{e}
			if e == "" {
				want = nil
			}
			w.same(fmt.Sprintf("%s: key %q", what, k), w.scan(mapState, k, ""), want)
		}
		w.same(what, w.scan(otherMap, "a", ""), []string{"bc=other"})
	}
	fill()
	check("as put", "bc=1")
	w.clear(mapState, "a")
	check("a cleared", "")
	w.restart(1, w.snapshot())
	check("restored", "")
}

func changesWhileIterating(w *world) {
	for _, u := range []string{"a", "b", "c"} {
		w.put(mapState, "m", u, map[string]string{"a": "1", "b": "2", "c": "3"}[u])
	}
	it, err := w.at("m").Ordered(mapState).Scan(w.key("m"), nil)
	w.ok(err)
	var got []string
	var kept [][]byte
	for it.Next() {
		u, v := it.Entry()
		got = append(got, string(u)+"="+string(v))
		kept = append(kept, u, v)
		if string(u) == "a" {
			w.del(mapState, "m", "b")
			w.put(mapState, "m", "d", "4")
			w.put(mapState, "m", "c", "9")
		}
	}
	w.same("iterator", got, []string{"a=1", "b=2", "c=3"})
	for i := range got {
		if s := string(kept[2*i]) + "=" + string(kept[2*i+1]); s != got[i] {
			w.t.Fatalf("entry %q became %q before Close", got[i], s)
		}
	}
	w.ok(it.Close())
	w.same("afterwards", w.scan(mapState, "m", ""), []string{"a=1", "c=9", "d=4"})

	n := 100_000
	if w.budget == tiny {
		n = 20_000
	}
	for i := range n {
		w.put(mapState, "big", fmt.Sprintf("%06d", i), "v")
	}
	it, err = w.at("big").Ordered(mapState).Scan(w.key("big"), nil)
	w.ok(err)
	seen := 0
	for it.Next() {
		u, _ := it.Entry()
		if string(u) != fmt.Sprintf("%06d", seen) {
			w.t.Fatalf("entry %d is %q", seen, u)
		}
		w.del(mapState, "big", string(u))
		seen++
	}
	w.ok(it.Close())
	if left := w.scan(mapState, "big", ""); seen != n || len(left) != 0 {
		w.t.Fatalf("%d of %d seen, %d left", seen, n, len(left))
	}
}

func emptyAndAbsent(w *world) {
	check := func(what string) {
		w.t.Helper()
		if v, ok := w.load("k"); !ok || v != "" {
			w.t.Fatalf("%s: value is %q %v, want present and empty", what, v, ok)
		}
		if _, ok := w.load("other"); ok {
			w.t.Fatalf("%s: absent value is present", what)
		}
		if v, ok := w.load(""); !ok || v != "of the empty key" {
			w.t.Fatalf("%s: value of the empty key is %q %v", what, v, ok)
		}
		for _, u := range []string{"", "u"} {
			if v, ok := w.get(mapState, "k", u); !ok || v != "" {
				w.t.Fatalf("%s: entry %q is %q %v, want present and empty", what, u, v, ok)
			}
		}
		if _, ok := w.get(mapState, "k", "x"); ok {
			w.t.Fatalf("%s: absent entry is present", what)
		}
	}
	w.store("k", "")
	w.store("", "of the empty key")
	w.put(mapState, "k", "", "")
	w.put(mapState, "k", "u", "")
	check("as put")
	w.restart(1, w.snapshot())
	check("restored")
	w.ok(w.at("k").Value(valueState).Remove(state.NoPos, w.key("k")))
	if _, ok := w.load("k"); ok {
		w.t.Fatal("removed value is present")
	}
}

// clearedNeighbours looks at what a scan costs beside a key whose many entries were deleted or cleared:
// counted in cold reads, since time says little on a busy machine.
func clearedNeighbours(w *world) {
	n := 20_000
	w.put(mapState, "B", "only", "1")
	fill := func() {
		for i := range n {
			w.put(mapState, "A", fmt.Sprintf("%06d", i), "some value")
		}
	}
	check := func(what string) {
		w.t.Helper()
		before := w.stats().ColdReads
		w.same(what, w.scan(mapState, "B", ""), []string{"only=1"})
		w.same(what, w.scan(mapState, "A", ""), nil)
		if d := w.stats().ColdReads - before; d > 4 {
			w.t.Fatalf("%s: two scans made %d cold reads", what, d)
		}
	}
	fill()
	for i := range n {
		w.del(mapState, "A", fmt.Sprintf("%06d", i))
	}
	check("deleted one by one")
	fill()
	w.clear(mapState, "A")
	check("cleared")
	w.put(mapState, "A", "new", "2")
	w.same("after the clear", w.scan(mapState, "A", ""), []string{"new=2"})
	w.restart(1, w.snapshot())
	w.same("restored", w.scan(mapState, "A", ""), []string{"new=2"})
}

// snapshotsUnderOverwrites bounds what a snapshot names while the same keys are written again and again.
func snapshotsUnderOverwrites(w *world) {
	const keys = 500
	var last []state.Snapshot
	for i := range 40 {
		for k := range keys {
			w.put(mapState, fmt.Sprintf("k%d", k), "u", strings.Repeat(string(rune('a'+i%26)), 50))
		}
		last = w.snapshot()
	}
	var bytes, n int64
	for _, s := range last[0].States {
		if s.Name == "s" {
			for _, r := range s.Runs {
				bytes += r.Size
				n++
			}
		}
	}
	// 500 entries of about 80 bytes; a delta has an index, too
	if live := int64(keys * 80); bytes > 12*live || n > 16 {
		w.t.Fatalf("the snapshot names %d bytes in %d runs for %d live ones", bytes, n, live)
	}
	w.restart(1, last)
	for k := range keys {
		if v, ok := w.get(mapState, fmt.Sprintf("k%d", k), "u"); !ok || v != strings.Repeat(string(rune('a'+39%26)), 50) {
			w.t.Fatalf("key %d: %q %v", k, v, ok)
		}
	}
}

func cutOffRounds(w *world) {
	for i, k := range []string{"d", "c", "b", "a"} {
		w.set(event, k, "", int64(10+i%2))
		w.set(event, k, "", 20)
	}
	got := w.due(0, event, 30, 3)
	w.set(event, "d", "", 5) // by a callback: the next round's
	got = append(got, w.due(0, event, 30, 3)...)
	w.same("first round", got, []string{`0/"b"/""@10`, `0/"d"/""@10`, `0/"a"/""@11`, `0/"c"/""@11`})
	w.same("second", w.due(0, event, 30, 9), []string{`0/"d"/""@5`, `0/"a"/""@20`, `0/"b"/""@20`, `0/"c"/""@20`})
	w.same("third", w.due(0, event, 30, 9), []string{`0/"d"/""@20`})
	w.same("fourth", w.due(0, event, 30, 9), nil)
}

func limits(w *world) {
	k := w.key("k")
	long := state.Key{Hash: 1, Bytes: make([]byte, abi.MaxKeyBytes+1)}
	o := w.tasks[0].Ordered(mapState)
	w.tooLarge("key", o.Put(long, nil, nil))
	w.tooLarge("user key", o.Put(k, make([]byte, abi.MaxKeyBytes+1), nil))
	w.tooLarge("value", o.Put(k, nil, make([]byte, abi.MaxStateValueBytes+1)))
	w.ok(o.Put(k, make([]byte, abi.MaxKeyBytes), make([]byte, abi.MaxStateValueBytes)))
	tm := w.tasks[0].Timers()
	w.tooLarge("timer's name", tm.Set(event, k, make([]byte, abi.MaxTimerNameBytes+1), 1))
	for i := range abi.MaxTimersPerKey {
		w.set(state.Domain(i%2), "k", "", int64(1_000_000*i))
	}
	w.tooLarge("one timer more", tm.Set(event, k, nil, 77))
	w.set(event, "k", "", 0) // registered: no change, no error
	w.restart(1, w.snapshot())
	w.tooLarge("one timer more after a restore", w.tasks[0].Timers().Set(event, k, nil, 77))
	w.unset(event, "k", "", 0)
	w.set(event, "k", "", 77)
	if n := w.tasks[0].Timers().Len(); n != abi.MaxTimersPerKey {
		w.t.Fatalf("%d timers, want %d", n, abi.MaxTimersPerKey)
	}
}

func bigEntries(w *world) {
	key := strings.Repeat("k\x00", abi.MaxKeyBytes/2)
	var want []string
	for i := range 30 {
		u := strings.Repeat("u", abi.MaxKeyBytes-3) + fmt.Sprintf("%03d", i)
		v := strings.Repeat("v", i*i*1000)
		w.put(mapState, key, u, v)
		want = append(want, u+"="+v)
	}
	w.same("big", w.scan(mapState, key, ""), want)
	w.restart(1, w.snapshot())
	w.same("restored", w.scan(mapState, key, ""), want)
	for i := range 30 {
		w.del(mapState, key, strings.Repeat("u", abi.MaxKeyBytes-3)+fmt.Sprintf("%03d", i))
	}
	w.same("deleted", w.scan(mapState, key, ""), nil)
}

func clearSurvives(w *world) {
	for i := range 200 {
		for _, k := range []string{"a", "b", "a\x00"} {
			w.put(mapState, k, fmt.Sprint(i), "old")
		}
	}
	w.snapshot()
	w.clear(mapState, "a")
	w.put(mapState, "a", "7", "new")
	w.clear(mapState, "b")
	w.put(mapState, "b", "8", "gone, too")
	w.clear(mapState, "b")
	w.clear(mapState, "never")
	w.restart(1, w.snapshot())
	w.same("a", w.scan(mapState, "a", ""), []string{"7=new"})
	w.same("b", w.scan(mapState, "b", ""), nil)
	if n := len(w.scan(mapState, "a\x00", "")); n != 200 {
		w.t.Fatalf("the neighbour has %d entries, want 200", n)
	}
}

// lists appends under ascending sequence numbers and drops from the front, as list state does.
func lists(w *world) {
	seq := func(i int) string { return string([]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 5000 {
		w.put(listState, "l", seq(i), "item")
		if i >= 100 {
			w.del(listState, "l", seq(i-100))
		}
	}
	w.restart(1, w.snapshot())
	got := w.scan(listState, "l", "")
	if len(got) != 100 || got[0] != seq(4900)+"=item" || got[99] != seq(4999)+"=item" {
		w.t.Fatalf("%d items, want the last 100", len(got))
	}
	w.same("tail", w.scan(listState, "l", seq(4998)), got[98:])
}

func failedCut(w *world) {
	w.put(mapState, "k", "a", "1")
	w.store("k", "1")
	w.set(event, "k", "", 1)
	broken := errors.New("no store today")
	w.objects.Fail(broken)
	c := w.freeze()
	for busy := true; busy; {
		var err error
		busy, err = w.tasks[0].Step()
		w.ok(err)
	}
	<-c.frozen[0].Done()
	if _, err := c.frozen[0].Result(); !errors.Is(err, broken) {
		w.t.Fatalf("cut with a broken store: %v", err)
	}
	w.objects.Fail(nil)
	w.put(mapState, "k", "b", "2")
	w.restart(1, w.snapshot())
	w.same("map", w.scan(mapState, "k", ""), []string{"a=1", "b=2"})
	if v, ok := w.load("k"); !ok || v != "1" {
		w.t.Fatalf("value %q %v", v, ok)
	}
	w.same("timers", w.fire(event, 5, nil), ids("k", 1))
}

// farTimers spreads timers over centuries, before 1970, and at the ends of time.
func farTimers(w *world) {
	const day = 86_400_000
	times := []int64{-1 << 63, -1<<63 + 1, -day, -1, 0, 1, 63, 64, day, 1<<63 - 2, 1<<63 - 1}
	for i := range int64(2000) {
		times = append(times, 1_700_000_000_000+i*day/3)
	}
	for i, at := range times {
		w.set(event, fmt.Sprintf("k%d", i%50), "", at)
	}
	slices.Sort(times)
	var got []int64
	for i := range 40 {
		upTo := times[(i+1)*len(times)/40-1]
		w.fire(event, upTo, func(t timer) { got = append(got, t.at) })
		if at, ok := w.tasks[0].Timers().Next(event); ok && at <= upTo {
			w.t.Fatalf("nothing is due at %d but next is %d", upTo, at)
		}
		if i == 20 {
			w.restart(1, w.snapshot())
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, times) {
		w.t.Fatalf("%d timers fired, want %d", len(got), len(times))
	}
	if at, ok := w.tasks[0].Timers().Next(event); ok || w.tasks[0].Timers().Len() != 0 {
		w.t.Fatalf("next is %d after the last", at)
	}
}
