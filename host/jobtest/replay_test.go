package jobtest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/replay"
)

// replayOptions are those of a replay of the world's job from a snapshot.
func (w *World) replayOptions(store *snapstore.Store, from checkpoint.ID) replay.Options {
	return replay.Options{Store: store, From: from, Code: w.code(), Source: w.source, Connect: w.Connect, Scratch: filepath.Join(w.Dir, "replays")}
}

// code is the world's pipeline with its modules.
func (w *World) code() replay.Code { return replay.Code{Graph: w.Graph, Module: w.options().Module} }

// reader opens the world's snapshots for reading.
func (w *World) reader() *snapstore.Store {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { s.Close() })
	return s
}

// recorded is a pipeline and an input, as two splits with keys of their own.
type recorded struct {
	name, text string
	records    func(seed uint64, split int) []abi.Record
	// order: blocks of windows keep the watermark at which they were last looked at, which depends on the order in which
	// tasks are read; results do not.
	order bool
}

const replaySettings = "batch: 16\nlinger: 0ms\nmemory: 2MiB\ncheckpoint: {interval: 0s, retain: 1000}"

// mixed is the workload, with keys that are the split's own.
func mixed(seed uint64, split int) []abi.Record {
	rs := workload(seed+uint64(split), 1500, 60)
	for i := range rs {
		rs[i].Key = fmt.Appendf(rs[i].Key, "-%d", split)
	}
	return rs
}

// late is clicks of which some are late.
func late(seed uint64, split int) []abi.Record { return clicksOf(seed, split, 20_000) }

// clicks are in order: of what is late in one of several tasks the result depends on which task was faster.
func clicks(seed uint64, split int) []abi.Record { return clicksOf(seed, split, 0) }

func clicksOf(seed uint64, split int, behind int64) []abi.Record {
	rng := rand.New(rand.NewPCG(seed, uint64(split)))
	var rs []abi.Record
	for ms := int64(0); len(rs) < 3000; ms += rng.Int64N(200) {
		at := ms
		if rng.IntN(20) == 0 && behind > 0 {
			at = max(0, ms-rng.Int64N(behind))
		}
		rs = append(rs, Text(fmt.Sprintf("key-%d-%d", rng.IntN(12), split), at, "x"))
	}
	return rs
}

var recordedJobs = []recorded{
	{"effects", pipelineText(replaySettings, "effects", 1), mixed, false},
	{"effects in three tasks", pipelineText(replaySettings, "effects", 3), mixed, false},
	{"sliding windows", fmt.Sprintf(slidingText, 1, replaySettings), late, false},
	{"sliding windows in two tasks", fmt.Sprintf(slidingText, 2, replaySettings), clicks, false},
	{"sessions with a guest", fmt.Sprintf(guestWindowText, 2, replaySettings, "{guest: {module: \"@windows\", function: count}}", "    on_error: skip"), clicks, true},
	{"ttl", `name: ttl
` + replaySettings + `
operators:
  - {id: in, source: generator, kind: counter, parallelism: 1}
  - id: logic
    process: {module: "@effects", function: effects, state_ttl: {small: 3s, map: 2s, list: 1s}}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
`, mixed, false},
}

var replayRuns = flag.Int("replays", 6, "recorded runs that are replayed")

// TestReplayOfRecordedRuns: runs of several pipelines with snapshots at random points, each replayed from one random
// snapshot to another, leave the same entries and publish the same lines.
func TestReplayOfRecordedRuns(t *testing.T) {
	t.Parallel()
	for i := range *replayRuns {
		job := recordedJobs[i%len(recordedJobs)]
		t.Run(fmt.Sprint(job.name, " ", i), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(i)
			rng := rand.New(rand.NewPCG(seed, 21))
			w := New(t, job.text)
			w.Sources["in"] = [][]abi.Record{job.records(seed, 0), job.records(seed, 1)}
			ids := w.runWithSnapshots(rng)
			if len(ids) < 3 {
				t.Fatalf("seed %d: only %d snapshots", seed, len(ids))
			}
			store := w.reader()
			for range 3 {
				a := rng.IntN(len(ids) - 1)
				b := a + 1 + rng.IntN(len(ids)-a-1)
				w.again(store, ids[a], ids[b], seed, job.order)
			}
		})
	}
}

// again replays from one snapshot to another, and expects what the run left.
func (w *World) again(store *snapstore.Store, a, b checkpoint.ID, seed uint64, order bool) {
	w.T.Helper()
	o := w.replayOptions(store, a)
	var err error
	if o.End.To, err = store.Load(b); err != nil {
		w.T.Fatal(err)
	}
	rep, err := replay.Again(context.Background(), o)
	if err != nil {
		w.T.Fatalf("seed %d, %d to %d: %v", seed, a, b, err)
	}
	if order {
		rep.States = nil
	}
	if !rep.Same() {
		text, _ := json.MarshalIndent(rep, "", " ")
		w.T.Errorf("seed %d, %d to %d: %s", seed, a, b, text)
	}
}

// runWithSnapshots runs the job to its end with snapshots wherever they fall, and returns their ids.
func (w *World) runWithSnapshots(rng *rand.Rand) (ids []checkpoint.ID) {
	w.T.Helper()
	var mu sync.Mutex // several tasks poll
	polls, at := 0, 5+rng.IntN(20)
	gate := make(chan struct{}, 1)
	w.Polled = func(string, int) {
		mu.Lock()
		polls++
		due := polls >= at
		if due {
			at = polls + 5 + rng.IntN(20)
		}
		mu.Unlock()
		if due {
			select {
			case gate <- struct{}{}:
			default: // one is under way
			}
		}
		time.Sleep(300 * time.Microsecond) // or the run is over before the first
	}
	r := w.Start()
	for {
		select {
		case <-gate:
			if id, err := r.Job.Checkpoint(context.Background()); err == nil {
				ids = append(ids, id)
			}
			continue
		case <-r.Done():
		}
		break
	}
	w.Polled = nil
	res := w.Finish(r)
	return append(ids, res.Checkpoint)
}
