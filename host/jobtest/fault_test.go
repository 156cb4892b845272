package jobtest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

// letter is a line of a dead-letter file.
type letter struct {
	Line
	Operator, Kind, Error, Module, Position string
	Offset                                  int
	Attempts                                int
	Timer                                   *string
}

func (w *World) letters(path string) (out []letter) {
	w.T.Helper()
	for _, l := range w.Lines(path) {
		var d letter
		if err := json.Unmarshal([]byte(l), &d); err != nil {
			w.T.Fatalf("dead letter %q: %v", l, err)
		}
		out = append(out, d)
	}
	return out
}

var boom = []abi.Record{
	Text("k", 1, "out pre(a);append a;list"),
	Text("k", 2, "append lost;timer 9 lost;out pre(boom);side lost;count n 1;trap"),
	Text("k", 3, "out pre(b);append b;list;count n 1"),
}

// TestC039TrapDeadLetter: the failing record leaves nothing, the others everything, in one batch.
func TestC039TrapDeadLetter(t *testing.T) {
	t.Parallel()
	for _, module := range []string{"effects", "effects-go"} {
		t.Run(module, func(t *testing.T) {
			t.Parallel()
			w := New(t, strings.ReplaceAll(effectsText, "@effects", "@"+module))
			w.Sources["in"] = [][]abi.Record{boom}
			res := w.RunToEnd()
			w.expectValues("k", "pre(a)", "list a", "pre(b)", "list a b")
			dead := w.letters("dead/")
			if len(dead) != 1 {
				t.Fatalf("%d dead letters, expected 1", len(dead))
			}
			d := dead[0]
			if string(*d.Value) != string(boom[1].Value) || *d.Key != "k" || d.Offset != 1 || d.Attempts != 1 || d.Kind != "trap" || d.Operator != "logic" || len(d.Module) != 64 {
				t.Errorf("dead letter %+v", d)
			}
			for _, s := range []string{d.Module[:12], abi.ExportProcess, "\n    at ", "trap"} {
				if !strings.Contains(d.Error, s) {
					t.Errorf("error %q does not say %q", d.Error, s)
				}
			}
			if n := res.Stats.Total("logic", "resets"); n != 1 {
				t.Errorf("%d instances beside the first, expected 1", n)
			}
			if n := res.Stats.Total("logic", "guest.n"); n != 1 {
				t.Errorf("the guest's counter is %d, expected 1", n)
			}
			if n := len(w.Lines("sides/")); n != 0 {
				t.Errorf("%d side outputs of a record that failed", n)
			}
		})
	}
}

// TestC039TrapStop: policy stop names the record, does not commit its offset and does not restart.
func TestC039TrapStop(t *testing.T) {
	t.Parallel()
	w := New(t, strings.Replace(effectsText, "on_error: {policy: dead_letter, path: dead/}", "on_error: stop", 1))
	f := w.Feed("in")
	f.Push(boom[0])
	r := w.Start()
	id := w.Checkpoint(r)
	f.Push(boom[1], boom[2])
	res, err := r.Wait()
	var record *guestop.RecordError
	if !errors.As(err, &record) || record.Position != "feed, record 1" || record.Fault.Kind != guestop.FaultTrap {
		t.Fatalf("error %v, expected the trap at record 1", err)
	}
	if res.Restarts != 0 {
		t.Errorf("%d restarts for a fault that comes back", res.Restarts)
	}
	w.expectValues("k", "pre(a)", "list a")
	for _, s := range w.latest().Tasks {
		for _, o := range s.Operators {
			for _, p := range o.Splits {
				if p.Offset != 1 {
					t.Errorf("checkpoint %d: offset %d is committed, expected 1", id, p.Offset)
				}
			}
		}
	}
	// Skipping it, the job goes on from there.
	w.Pipeline(strings.Replace(effectsText, "on_error: {policy: dead_letter, path: dead/}", "on_error: skip", 1))
	f.End()
	w.RunToEnd()
	w.expectValues("k", "pre(a)", "list a", "pre(b)", "list a b")
}

// TestC040EndlessLoop: fuel ends it, the record goes to the policy, nothing is left behind.
func TestC040EndlessLoop(t *testing.T) { // alone: it counts goroutines
	var rs []abi.Record
	for i := range 100 {
		rs = append(rs, Text("k", int64(2*i), "spin"), Text("k", int64(2*i+1), fmt.Sprint("out ", i)))
	}
	w := New(t, strings.Replace(effectsText, "function: effects", "function: effects, fuel: 1000000", 1))
	w.Sources["in"] = [][]abi.Record{rs}
	before := runtime.NumGoroutine()
	began := time.Now()
	w.RunToEnd()
	t.Logf("100 endless loops in %v", time.Since(began))
	for wait := 0; runtime.NumGoroutine() > before; wait++ {
		if wait == 500 {
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := len(w.Values("out/", "k")); n != 100 {
		t.Errorf("%d records came through, expected 100", n)
	}
	for _, d := range w.letters("dead/") {
		if d.Kind != string(guestop.FaultFuel) {
			t.Fatalf("dead letter %+v, expected kind %q", d, guestop.FaultFuel)
		}
	}
	if n := len(w.Lines("dead/")); n != 100 {
		t.Errorf("%d dead letters, expected 100", n)
	}
}

// TestC040OneSpinOfTheDefaultFuel ends within a second of CPU.
func TestC040OneSpinOfTheDefaultFuel(t *testing.T) {
	t.Parallel()
	w := effectsWorld(t, Text("k", 1, "spin"), Text("k", 2, "out after"))
	w.RunToEnd()
	w.expectValues("k", "after")
}

// kitchenText is a pipeline of the C guest that does anything.
const kitchenText = `name: kitchen
batch: 64
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter}
  - id: logic
    process: {module: "@kitchen", function: kitchen, memory: 16MiB, clock: %s}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
`

// TestC041MemoryLimit: growth ends at the limit with a fault by name; the next record works.
func TestC041MemoryLimit(t *testing.T) {
	t.Parallel()
	w := New(t, strings.Replace(effectsText, "function: effects", "function: effects, memory: 16MiB", 1))
	w.Sources["in"] = [][]abi.Record{{Text("k", 1, "out before"), Text("k", 2, "eat"), Text("k", 3, "out after")}}
	before := resident(t)
	w.RunToEnd()
	if grown := resident(t) - before; grown > 256<<20 {
		t.Errorf("the process has grown by %d MiB", grown>>20) // other tests run beside; the exact bound is the engine's test
	}
	w.expectValues("k", "before", "after")
	d := w.letters("dead/")
	if len(d) != 1 || d[0].Kind != string(guestop.FaultMemory) {
		t.Errorf("dead letters %+v, expected one out of memory", d)
	}
	if _, err := w.Parse(strings.Replace(effectsText, "function: effects", "function: effects, memory: 838860800KiB", 1)); err == nil || !strings.Contains(err.Error(), "an instance has at most") {
		t.Errorf("a limit of 13,107,200 pages: %v", err)
	}
}

func resident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc to read the resident memory from")
	}
	var size, rss int64
	if _, err := fmt.Sscan(string(b), &size, &rss); err != nil {
		t.Fatal(err)
	}
	return rss * int64(os.Getpagesize())
}

// TestC042EnemyPointers: wild pointers are errors or traps, and what the host keeps it has copied.
func TestC042EnemyPointers(t *testing.T) {
	t.Parallel()
	put := func(ptr, n uint32) string {
		b := []byte{'x'}
		for _, a := range []uint32{2, 0, 0, 0, ptr, n} {
			b = binary.LittleEndian.AppendUint32(b, a)
		}
		return string(b)
	}
	w := New(t, fmt.Sprintf(kitchenText, "event"))
	w.Sources["in"] = [][]abi.Record{{
		Text("wild", 1, put(0xfffffff0, 0x20)), Text("wild", 2, put(0, 0xffffffff)), Text("wild", 3, put(0xffffffff, 2)),
		Text("wild", 4, "eon"), Text("copy", 5, "s"), Text("copy", 6, "g"),
	}}
	w.RunToEnd()
	vs := w.Values("out/", "<null>") // the guest's outputs have no key
	if len(vs) < 4 || vs[len(vs)-4] != "on" {
		t.Fatalf("outputs %q: the record after the attacks is not there", vs)
	}
	wild, vs := vs[:len(vs)-4], vs[len(vs)-3:]
	for i, v := range wild {
		if len(v) != 8 || int64(binary.LittleEndian.Uint64([]byte(v))) >= 0 {
			t.Errorf("wild pointer %d: the guest got %q, expected an error", i, v)
		}
	}
	if n := len(w.Lines("dead/")) + len(wild); n != 3 {
		t.Errorf("%d outcomes of 3 attacks", n)
	}
	if len(vs) != 3 || vs[0] != "ZZZZ" || vs[2] != "AAAA" {
		t.Errorf("the guest emitted %q, expected ZZZZ, a status and AAAA from state", vs)
	}
}

// TestC043GoReactorIsInitialised: package state made by init is there in every instance, once.
func TestC043GoReactorIsInitialised(t *testing.T) {
	t.Parallel()
	w := New(t, `name: numbers
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter}
  - id: logic
    process: {module: "@goguest-go", function: numbers}
    on_error: skip
    parallelism: 2
  - {id: out, sink: file, path: out/, envelope: true}
`)
	var rs []abi.Record
	for i := range 40 {
		rs = append(rs, Text(fmt.Sprint(i), int64(i), []string{"one", "two", "panic", "three"}[i%4]))
	}
	w.Sources["in"] = [][]abi.Record{rs}
	res := w.RunToEnd()
	counts := map[string]int{}
	for _, e := range w.Envelopes("out/") {
		counts[string(*e.Value)]++
	}
	want := map[string]int{"one is 1, init ran 1 time": 10, "two is 2, init ran 1 time": 10, "three is 0, init ran 1 time": 10}
	if fmt.Sprint(counts) != fmt.Sprint(want) {
		t.Errorf("got %v, expected %v", counts, want)
	}
	if n := res.Stats.Total("logic", "resets"); n != 10 {
		t.Errorf("%d instances replaced, expected 10", n)
	}
}

// TestC044ManyJobsShareModules: jobs start, run and end side by side over the same compiled modules.
func TestC044ManyJobsShareModules(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for round := range 5 {
				w := effectsWorld(t, workload(uint64(i), 200, 20)...)
				if round%2 == 1 {
					r := w.Start()
					time.Sleep(time.Duration(i) * time.Millisecond)
					r.Crash()
					continue
				}
				w.RunToEnd()
			}
		})
	}
}

// TestC045ClockAndRandomAfterALostAttempt: what was drawn and read by a lost attempt is drawn again; no two
// records draw the same.
func TestC045ClockAndRandomAfterALostAttempt(t *testing.T) {
	t.Parallel()
	var rs []abi.Record
	for i := range 60 {
		rs = append(rs, Text(fmt.Sprint("key", i%7), 1_700_000_000_000+int64(i), "t"), Text(fmt.Sprint("key", i%7), 1_700_000_000_000+int64(i), "t"))
	}
	run := func(lose bool) []string {
		w := New(t, strings.Replace(fmt.Sprintf(kitchenText, "event"), "    on_error", "    parallelism: 2\n    on_error", 1))
		f := w.Feed("in")
		f.Push(rs[:40]...)
		r := w.Start()
		w.Checkpoint(r)
		f.Push(rs[40:80]...)
		if lose {
			for r.Stats().Read < 80 {
				time.Sleep(time.Millisecond)
			}
			r.Crash()
			r = w.Start()
		}
		f.Push(rs[80:]...)
		f.End()
		w.Finish(r)
		lines := w.Lines("out/")
		slices.Sort(lines)
		return lines
	}
	whole, again := run(false), run(true)
	if !slices.Equal(whole, again) {
		t.Errorf("with a lost attempt: %s", Diff(strings.Join(again, "\n"), strings.Join(whole, "\n")))
	}
	seen := map[string]bool{}
	for _, l := range whole {
		if seen[l] {
			t.Errorf("two records drew the same: %s", l)
		}
		seen[l] = true
	}
	if len(whole) != len(rs) {
		t.Errorf("%d outputs for %d records", len(whole), len(rs))
	}
}

// TestC045ProcessingClock: a guest that asks for the host's time gets it.
func TestC045ProcessingClock(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		clock string
		want  int64
	}{{"event", 1_600_000_000_000}, {"processing", time.Now().UnixMilli()}} {
		w := New(t, fmt.Sprintf(`name: clock
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter}
  - id: logic
    process: {module: "@goguest-go", function: clock, clock: %s}
  - {id: out, sink: file, path: out/, envelope: true}
`, c.clock))
		w.Sources["in"] = [][]abi.Record{{Text("k", 1_600_000_000_000, "")}}
		w.RunToEnd()
		var ms int64
		if _, err := fmt.Sscan(w.Values("out/", "k")[0], &ms); err != nil || ms < c.want || ms > c.want+60_000 {
			t.Errorf("clock %s: the guest sees %d, expected about %d (%v)", c.clock, ms, c.want, err)
		}
	}
}
