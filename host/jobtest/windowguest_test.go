package jobtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

const guestWindowText = `name: guests
parallelism: %d
%s
operators:
  - {id: in, source: generator, kind: counter}
  - id: per
    window: {type: session, gap: 3s}
    trigger: {count: 4}
    aggregates:
      n: %s
%s
  - {id: out, sink: file, path: out/, envelope: true}
`

const guestCount = "{guest: {module: %s, function: count}}"

// TestGuestAggregatesOverCrashes: sessions with a guest's count, killed at random points, give what the
// built-in count gives.
func TestGuestAggregatesOverCrashes(t *testing.T) {
	t.Parallel()
	var splits [][]abi.Record
	for s := range 2 {
		var rs []abi.Record
		rng := rand.New(rand.NewPCG(uint64(s), 7))
		for ms := int64(0); ms <= 120_000; ms += 100 + rng.Int64N(700) {
			rs = append(rs, Text(fmt.Sprintf("key-%d", 2*rng.IntN(4)+s), ms, "x"))
		}
		splits = append(splits, rs)
	}
	path, err := Module("windows")
	if err != nil {
		t.Fatal(err)
	}
	const settings = "batch: 4\nlinger: 0ms\nmemory: 1MiB\ncheckpoint: {interval: 5ms}"
	a := New(t, fmt.Sprintf(guestWindowText, 1, settings, "count", ""))
	a.Sources["in"] = splits
	a.RunToEnd()
	if len(a.Lines("out/")) < 20 {
		t.Fatalf("%d results", len(a.Lines("out/")))
	}
	for _, p := range []int{1, 2} {
		t.Run(fmt.Sprint("parallelism ", p), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(p)
			w := New(t, fmt.Sprintf(guestWindowText, p, settings, fmt.Sprintf(guestCount, path), "    on_error: skip"))
			w.Sources["in"] = splits
			rounds := interrupted(t, w, rand.New(rand.NewPCG(seed, 12)), 8)
			got, want := w.Lines("out/"), a.Lines("out/") // sessions end when both splits are there: in any order
			slices.Sort(got)
			slices.Sort(want)
			if d := Diff(strings.Join(got, "\n"), strings.Join(want, "\n")); d != "" {
				t.Errorf("seed %d, %d rounds: %s", seed, rounds, d)
			}
		})
	}
}

// TestWindowFunctionInAPipeline: outputs, a side output and dead letters of a window function, in Rust.
func TestWindowFunctionInAPipeline(t *testing.T) {
	t.Parallel()
	w := New(t, `name: medians
operators:
  - {id: in, source: file, path: in.ndjson, fields: {k: string, t: timestamp, v: int64, more: string}, time: {field: t}}
  - {id: by, key_by: k}
  - id: per
    window: {type: tumbling, size: 10s}
    process: {module: "@windows", function: median}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/}
  - {id: odd, sink: file, path: odd/, from: per.odd}
`)
	var in strings.Builder
	for i, v := range []int{5, 1, 9, -1001, 4, 8} {
		fmt.Fprintf(&in, "{\"k\":\"%c\",\"t\":%d,\"v\":%d,\"more\":\"x\"}\n", "aaabcc"[i], 1000*i, v)
	}
	w.File("in.ndjson", in.String())
	res := w.RunToEnd()
	out := w.Lines("out/")
	if len(out) != 2 || !strings.Contains(out[0], `"elements":3,"median":5`) || !strings.Contains(out[1], `"elements":2,"median":6`) {
		t.Errorf("medians %q", out)
	}
	if got := w.Lines("odd/"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("odd %q", got)
	}
	if dead := w.Lines("dead/"); len(dead) != 1 || !strings.Contains(dead[0], `window [0, 10000) of key`) || !strings.Contains(dead[0], "a value of -1001") {
		t.Errorf("dead letters %q", dead)
	}
	if n := res.Stats.Total("per", "dead letters"); n != 1 {
		t.Errorf("counter of dead letters: %d", n)
	}
}

// TestChangedWindowsAreRefused: what changed is said; another module of the same accumulator goes on.
func TestChangedWindowsAreRefused(t *testing.T) {
	t.Parallel()
	path, err := Module("windows")
	if err != nil {
		t.Fatal(err)
	}
	const text = `name: w
operators:
  - {id: in, source: generator, kind: counter}
  - id: per
    window: {type: tumbling, size: %s}
    aggregates: {n: {guest: {module: %s, function: count}}}
  - {id: out, sink: file, path: out/}
`
	w := New(t, fmt.Sprintf(text, "10s", path))
	feed := w.Feed("in")
	feed.Push(Text("k", 1000, "x"))
	r := w.Start()
	w.Checkpoint(r)
	r.Stop()
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
	w.Pipeline(fmt.Sprintf(text, "20s", path))
	_ = w.Fail("operator per has state of windows that have changed", "window.size_ms 10000, now 20000")
	w.Pipeline(fmt.Sprintf(text, "10s", w.Wasm("other", append(read(t, path), 0, 4, 1, 'x', 'y', 'z'))))
	feed.End()
	w.RunToEnd()
	if got := w.Lines("out/"); len(got) != 1 || !strings.Contains(got[0], `"n":1`) {
		t.Errorf("results %q", got)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
