package jobtest

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

// ttlText is the effects guest under TTLs. settings go to the top, ttls into state_ttl.
func ttlText(settings, ttls string, parallelism int) string {
	if ttls != "" {
		ttls = ", state_ttl: {" + ttls + "}"
	}
	return fmt.Sprintf(`name: ttl
%s
operators:
  - {id: in, source: generator, kind: counter, splits: 1}
  - id: logic
    process: {module: "@effects", function: effects%s}
    on_error: {policy: dead_letter, path: dead/}
    parallelism: %d
  - {id: out, sink: file, path: out/, envelope: true}
`, settings, ttls, parallelism)
}

// ttlWorld runs records with watermarks so far behind, in such steps.
func ttlWorld(t *testing.T, text string, delay, quantum time.Duration, records ...abi.Record) *World {
	w := New(t, text)
	w.Sources["in"] = [][]abi.Record{records}
	w.timeOf(delay, quantum)
	return w
}

func (w *World) timeOf(delay, quantum time.Duration) {
	for _, n := range w.Graph.Nodes {
		if n.Source != nil {
			n.Source.Time = &operators.TimeSettings{Quantum: quantum, OutOfOrderness: delay}
		}
	}
}

// TestC018TTL: there at 999, not at 1000, for every kind of state; a timer sees what there was at its time.
func TestC018TTL(t *testing.T) {
	t.Parallel()
	const settings = "checkpoint: {interval: 0s}"
	const ask = "value;get u;scan;list;biglen"
	w := ttlWorld(t, ttlText(settings, "small: 1s, map: 1s, list: {after: 1s}, big: {after: 1s, domain: event, refresh: write}", 1), 0, time.Millisecond,
		Text("k", 0, "set x;put u y;append z;big 5000;timer 999 do value;timer 999 do scan;timer 1000 do value;timer 1000 do scan"),
		Text("other", 1000, "out"), // the watermark is 999
		Text("k", 1000, ask),
		Text("other", 1001, "out"), // 1000
		Text("k", 1001, ask),
		Text("k", 1001, "append again;list"))
	w.RunToEnd()
	there := []string{"value x", "u = y", "map u=y", "list z", "big 5000"}
	gone := []string{"no value", "no u", "map ", "list ", "no big"}
	before := []string{"fired 999 do scan", "map u=y", "fired 999 do value", "value x"}
	after := []string{"fired 1000 do scan", "map ", "fired 1000 do value", "no value"}
	want := slices.Concat(before, there, after, gone, []string{"list again"})
	w.expectValues("k", want...)
}

// TestC018OldState: a TTL that a state gets later counts from that start on, and storage comes back without
// the keys being read.
func TestC018OldState(t *testing.T) {
	t.Parallel()
	const settings = "checkpoint: {interval: 0s}"
	const n = 3000
	var records []abi.Record
	for i := range n {
		records = append(records, Text(fmt.Sprint("key-", i), int64(i), "set x;put u y"))
	}
	w := New(t, ttlText(settings, "", 1))
	w.timeOf(0, time.Millisecond)
	feed := w.Feed("in")
	feed.Push(records...)
	r := w.Start()
	w.Checkpoint(r)
	r.Stop()
	res, err := r.Wait()
	if held := res.Stats.Total("logic", "state entries"); err != nil || held != 3*n {
		t.Fatalf("%d entries of %d keys: %v", held, n, err)
	}

	w.Pipeline(ttlText(settings, "small: 1s, map: 1s, runs: 1s", 2))
	w.timeOf(0, time.Millisecond)
	r = w.Start()
	feed.Push(Text("key-7", n+900, "value;get u"))
	w.Checkpoint(r)
	feed.Push(Text("key-8", n+2000, "wm"), Text("key-8", n+2000, "value;get u"), Text("key-9", n+2000, "value;get u"))
	for range 4 { // what is removed leaves memory as checkpoints go by
		w.Checkpoint(r)
	}
	r.Stop()
	if res, err = r.Wait(); err != nil || res.Complete {
		t.Fatalf("stopped: %+v %v", res, err)
	}
	if left := res.Stats.Total("logic", "state entries"); left > 20 {
		t.Errorf("%d entries of %d keys are left", left, n)
	}
	r = w.Start()
	feed.End()
	w.Finish(r)
	w.expectValues("key-7", "value x", "u = y")
	w.expectValues("key-8", "watermark 3899", "no value", "no u")
	w.expectValues("key-9", "no value", "no u")
}

// TestTTLRemoved: without its TTL a state keeps what had not expired, for ever; with another one, that counts.
func TestTTLRemoved(t *testing.T) {
	t.Parallel()
	text := func(ttls string) string { return ttlText(atTheEnd, ttls, 1) }
	w := New(t, text("small: 1s, map: 1s, list: 1s"))
	w.timeOf(0, time.Millisecond)
	feed := w.Feed("in")
	restart := func(ttls string, rs ...abi.Record) {
		t.Helper()
		w.Pipeline(text(ttls))
		w.timeOf(0, time.Millisecond)
		feed.Push(rs...)
		r := w.Start()
		w.Checkpoint(r)
		r.Stop()
		if res, err := r.Wait(); err != nil || res.Complete {
			t.Fatalf("stopped: %+v %v", res, err)
		}
	}
	restart("small: 1s, map: 1s, list: 1s", Text("old", 1, "set x"), Text("k", 1000, "set x;put u y;append z"), Text("w", 1500, "out"))
	restart("", Text("w", 90_000, "out"), Text("k", 90_000, "value;scan;list"), Text("old", 90_000, "value"))
	restart("small: 5s", Text("w", 94_000, "out"), Text("k", 94_000, "value;scan"))
	restart("small: 2s, list: {after: 1s, refresh: read}", Text("k", 95_000, "value;list"))
	w.expectValues("k", "value x", "map u=y", "list z", "value x", "map u=y", "no value", "list z")
	w.expectValues("old", "no value")
}

// TestTTLByTheClock: what ages by the host's clock goes without a record coming.
func TestTTLByTheClock(t *testing.T) {
	t.Parallel()
	w := New(t, ttlText("checkpoint: {interval: 0s}\nbatch: 4\nlinger: 0ms", "small: {after: 1s, domain: processing}, map: {after: 1s, domain: processing, refresh: read}, runs: {after: 1s, domain: processing}", 1))
	w.timeOf(0, time.Millisecond)
	clock := &manual{}
	clock.now.Store(1_700_000_000_000)
	w.Options = func(o *job.Options) { o.Clock = clock }
	feed := w.Feed("in")
	r := w.Start()
	step := func(ms int64, rs ...abi.Record) {
		clock.now.Add(ms)
		feed.Push(rs...)
		for range 3 {
			w.Checkpoint(r)
		}
	}
	step(0, Text("k", 1, "set x;put u y;put v z"))
	step(999, Text("k", 2, "value;get u"))
	step(1, Text("k", 3, "value;scan"))
	step(998, Text("k", 4, "scan")) // u was read at 999, both at 1000
	step(1000)
	step(0)
	r.Stop()
	res, err := r.Wait()
	if err != nil || res.Complete {
		t.Fatalf("stopped: %+v %v", res, err)
	}
	if left := res.Stats.Total("logic", "state entries"); left > 0 {
		t.Errorf("%d entries are left", left)
	}
	r = w.Start()
	step(0, Text("k", 5, "scan"))
	feed.End()
	w.Finish(r)
	w.expectValues("k", "value x", "u = y", "no value", "map u=y", "map u=y", "map ")
}

// ttlCommands makes a random workload: several keys, times out of order, records that fail.
func ttlCommands(r *rand.Rand, n int, timers bool) (records []abi.Record) {
	now := int64(1000)
	for range n {
		if r.Intn(3) > 0 {
			now += int64(r.Intn(8))
		}
		if r.Intn(100) == 0 {
			now += 300
		}
		var cs []string
		at := now - int64(r.Intn(60))
		for range 1 + r.Intn(3) {
			u := fmt.Sprint("u", r.Intn(3))
			c := []string{"set v%d", "value", "value", "unset", "put " + u + " p%d", "get " + u, "scan", "del " + u, "append e%d", "list", "big %d", "biglen"}[r.Intn(12)]
			if strings.Contains(c, "%") {
				c = fmt.Sprintf(c, r.Intn(1000))
			}
			cs = append(cs, c)
		}
		switch r.Intn(25) {
		case 0:
			cs = append(cs, "fail on purpose")
		case 1:
			cs = append(cs, "trap")
		}
		if timers && r.Intn(4) == 0 {
			cs = append([]string{fmt.Sprintf("timer %d do value", at+int64(r.Intn(200))-20)}, cs...)
		}
		rec := Text(fmt.Sprint("k", min(r.Intn(40), r.Intn(40))), at, strings.Join(cs, ";"))
		if r.Intn(40) == 0 {
			rec.Time = abi.NoTime
		}
		records = append(records, rec)
	}
	return records
}

const (
	ttlsOfWrites = "small: 70ms, map: 100ms, list: 150ms, big: 40ms"
	ttlsOfReads  = "small: {after: 70ms, refresh: read}, map: {after: 100ms, refresh: read}, list: {after: 150ms, refresh: read}, big: {after: 40ms, refresh: read}"
)

// TestTTLsAgainstModel compares with an interpreter of the same commands that keeps stamps in a plain map.
func TestTTLsAgainstModel(t *testing.T) {
	t.Parallel()
	for i, reads := range []bool{false, true, false, true} {
		quantum := []time.Duration{time.Millisecond, 25 * time.Millisecond}[i/2]
		ttls := ttlsOfWrites
		if reads {
			ttls = ttlsOfReads
		}
		seed := rand.Int63()
		t.Logf("seed %d", seed)
		records := ttlCommands(rand.New(rand.NewSource(seed)), 3000, false)
		want := ttlModel(records, 30, quantum.Milliseconds(), reads)
		for _, batch := range []int{1, 7, 64, 1024} {
			w := ttlWorld(t, ttlText(fmt.Sprintf("checkpoint: {interval: 0s}\nbatch: %d", batch), ttls, 1), 30*time.Millisecond, quantum, records...)
			w.RunToEnd()
			expired := 0
			for key, lines := range want {
				if got := w.Values("out/", key); !slices.Equal(got, lines) {
					for i := range lines {
						if i >= len(got) || got[i] != lines[i] {
							t.Fatalf("seed %d, reads %v, batch %d, key %s, line %d of %d: want %q, got %q", seed, reads, batch, key, i, len(lines), lines[i], got[min(i, len(got)):min(i+1, len(got))])
						}
					}
					t.Fatalf("seed %d, batch %d, key %s: %d lines, want %d", seed, batch, key, len(got), len(lines))
				}
				for _, l := range lines {
					if l == "no value" {
						expired++
					}
				}
			}
			if expired == 0 {
				t.Fatal("nothing expired")
			}
		}
	}
}

// TestTTLsAreTheSameHoweverItRuns: batch sizes, backends, parallelism and crashes do not show, timers included.
func TestTTLsAreTheSameHoweverItRuns(t *testing.T) {
	t.Parallel()
	seed := rand.Int63()
	t.Logf("seed %d", seed)
	records := ttlCommands(rand.New(rand.NewSource(seed)), 6000, true)
	for i, ttls := range []string{ttlsOfWrites, ttlsOfReads} {
		want := ""
		for _, c := range []combination{{256, 5, 1, "memory", false, ""}, {1, 0, 1, "disk", false, ""}, {7, 0, 2, "memory", false, ""}, {64, 0, 4, "disk", false, ""}, {1024, 5, 1, "memory", false, ""}} {
			w := ttlWorld(t, ttlText(fmt.Sprintf("checkpoint: {interval: 20ms}\nbatch: %d\nlinger: %dms\nstate: %s\nmemory: 8MiB", c.batch, c.linger, c.state), ttls, c.parallelism), 30*time.Millisecond, 10*time.Millisecond, records...)
			var polled atomic.Int64
			for crash := range 3 { // then to the end
				stop := int64(700 * (crash + 1))
				polled.Store(0)
				var r *Run
				started := make(chan struct{})
				w.Polled = func(_ string, n int) {
					if polled.Add(int64(n)) > stop {
						<-started
						r.Cancel()
					}
				}
				if want != "" {
					r = w.Start()
					close(started)
					_, _ = r.Wait() // it was crashed
				}
			}
			w.Polled = nil
			w.RunToEnd()
			got := w.outputs()
			if want == "" {
				want = got
			} else if d := Diff(got, want); d != "" {
				t.Fatalf("seed %d, TTLs %d, %v: %s", seed, i, c, d)
			}
		}
	}
}
