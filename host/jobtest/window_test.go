package jobtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

const slidingText = `name: windows
parallelism: %d
%s
operators:
  - {id: in, source: generator, kind: counter}
  - id: per
    window: {type: sliding, size: 10s, slide: 5s}
    aggregates: {n: count}
  - {id: out, sink: file, path: out/, envelope: true}
  - {id: late, sink: file, path: late/, envelope: true, from: per.late}
`

// TestC011WindowsAfterRestore: two splits, killed at random points: no good record is late, no window comes
// twice, and the output is that of a plain run.
func TestC011WindowsAfterRestore(t *testing.T) {
	t.Parallel()
	var splits [][]abi.Record
	for s := range 2 {
		var rs []abi.Record
		for ms := int64(0); ms <= 50_000; ms += 500 {
			for k := range 3 {
				rs = append(rs, Text(fmt.Sprintf("key-%d", (k+s)%5), ms, "x"))
			}
		}
		splits = append(splits, rs)
	}
	for _, p := range []int{1, 2} {
		t.Run(fmt.Sprint("parallelism ", p), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(p)
			text := fmt.Sprintf(slidingText, p, "batch: 4\nlinger: 0ms\nmemory: 1MiB\ncheckpoint: {interval: 5ms}")
			a := New(t, text)
			a.Sources["in"] = splits
			res := a.RunToEnd()
			w := New(t, text)
			w.Sources["in"] = splits
			rounds := interrupted(t, w, rand.New(rand.NewPCG(seed, 11)), 8)
			if d := Diff(w.ByKey("out/"), a.ByKey("out/")); d != "" {
				t.Errorf("seed %d, %d rounds: %s", seed, rounds, d)
			}
			if n := res.Stats.Total("per", "late"); n != 0 || len(a.Lines("late/")) != 0 || len(w.Lines("late/")) != 0 {
				t.Errorf("late: counter %d, %d and %d records", n, len(a.Lines("late/")), len(w.Lines("late/")))
			}
			lines := w.Lines("out/")
			slices.Sort(lines)
			if n := len(slices.Compact(slices.Clone(lines))); n != len(lines) || n != 4*12 {
				t.Errorf("%d windows, %d of them different, expected 48", len(lines), n)
			}
		})
	}
}

// TestLateRecordsGoOn: late records leave by their side output as they came, and are counted once.
func TestLateRecordsGoOn(t *testing.T) {
	t.Parallel()
	w := New(t, fmt.Sprintf(slidingText, 1, "batch: 4"))
	w.Sources["in"] = [][]abi.Record{{Text("k", 6000, "a"), Text("k", 20_000, "b"), Text("k", 7000, "late"), Text("k", 40_000, "c")}}
	res := w.RunToEnd()
	if got := w.Values("late/", "k"); !slices.Equal(got, []string{"late"}) || res.Stats.Total("per", "late") != 1 {
		t.Errorf("late %q, counter %d", got, res.Stats.Total("per", "late"))
	}
	want := []string{`{"key":"k","window_start":0,"window_end":10000,"n":1}`, `{"key":"k","window_start":5000,"window_end":15000,"n":1}`,
		`{"key":"k","window_start":15000,"window_end":25000,"n":1}`, `{"key":"k","window_start":20000,"window_end":30000,"n":1}`,
		`{"key":"k","window_start":35000,"window_end":45000,"n":1}`, `{"key":"k","window_start":40000,"window_end":50000,"n":1}`}
	var got []string
	for _, l := range w.Lines("out/") {
		_, v, _ := strings.Cut(l, `"value":`)
		v, _, _ = strings.Cut(v, `,"time"`)
		got = append(got, v)
	}
	if !slices.Equal(got, want) {
		t.Errorf("results\n%s\nexpected\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestRestoreIntoOtherWindows: state of other windows is refused by name.
func TestRestoreIntoOtherWindows(t *testing.T) {
	t.Parallel()
	w := New(t, fmt.Sprintf(slidingText, 1, "checkpoint: {interval: 0s}"))
	f := w.Feed("in")
	f.Push(Text("k", 1000, "a"))
	r := w.Start()
	w.Checkpoint(r)
	r.Crash()
	w.Pipeline(strings.Replace(fmt.Sprintf(slidingText, 1, "checkpoint: {interval: 0s}"), "slide: 5s", "slide: 2s", 1))
	w.Fail("windows", "per")
}
