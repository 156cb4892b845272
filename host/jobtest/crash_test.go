package jobtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators/guestop"
)

// crashSettings make many checkpoints in a short run.
const crashSettings = "batch: 16\nlinger: 0ms\nmemory: 1MiB\ncheckpoint: {interval: 5ms}"

// interrupted runs the workload with crashes and stops at random moments until it has been restored so often,
// then to its end.
func interrupted(t *testing.T, w *World, rng *rand.Rand, restores int64) (rounds int) {
	t.Helper()
	var restored atomic.Int64
	for {
		rounds++
		var run atomic.Pointer[Run]
		var polls, checkpoints atomic.Int64
		stop, from := rng.IntN(3) == 0, int64(rng.IntN(3))
		at, after := int64(rng.IntN(20)), time.Duration(rng.IntN(8000))*time.Microsecond
		interrupt := func() {
			if r := run.Load(); r != nil && restored.Load() < restores {
				if stop {
					r.Stop()
				} else {
					r.Cancel()
				}
			}
		}
		w.Polled = func(string, int) {
			if restored.Load() < restores {
				time.Sleep(500 * time.Microsecond)
				if checkpoints.Load() < from { // slow checkpoints must not let the run end before them
					time.Sleep(4 * time.Millisecond)
				}
			}
			if polls.Add(1) >= at && checkpoints.Load() >= from {
				interrupt()
			}
		}
		w.Options = func(o *job.Options) {
			o.Event = func(e job.Event) {
				switch e.Kind {
				case job.EventRestored:
					restored.Add(1)
				case job.EventCheckpoint:
					if checkpoints.Add(1) == from && at%2 == 0 {
						time.AfterFunc(after, interrupt)
					}
				}
			}
		}
		r, err := w.Open()
		if err != nil {
			t.Fatalf("round %d: %v", rounds, err)
		}
		run.Store(r)
		res, err := r.Wait()
		if res.Complete {
			if n := restored.Load(); n < restores {
				t.Errorf("only %d restores in %d rounds: this test shows little", n, rounds)
			}
			return rounds
		}
		var lost *guestop.LostMemory // found as the run was ended
		if err != nil && !errors.Is(err, context.Canceled) && !errors.As(err, &lost) {
			t.Fatalf("round %d: %v", rounds, err)
		}
	}
}

// TestC021C023CrashesAndStops: whatever the moment, the next run goes on from the newest complete checkpoint,
// and the committed output is that of a plain run.
func TestC021C023CrashesAndStops(t *testing.T) {
	t.Parallel()
	for i, p := range []int{1, 2, 3} {
		t.Run(fmt.Sprint("parallelism ", p), func(t *testing.T) {
			t.Parallel()
			seed := *seedFlag + uint64(i)
			rng := rand.New(rand.NewPCG(seed, 21))
			records := workload(seed, 8000, 500)
			a := New(t, pipelineText(crashSettings, "effects", p))
			a.Sources["in"] = [][]abi.Record{records}
			a.RunToEnd()
			w := New(t, pipelineText(crashSettings, "effects", p))
			w.Sources["in"] = [][]abi.Record{records}
			rounds := interrupted(t, w, rng, 6)
			if d := Diff(w.outputs(), a.outputs()); d != "" {
				t.Errorf("seed %d, %d rounds: %s", seed, rounds, d)
			}
		})
	}
}

// TestC021CrashDuringRestore: three times in a row, then each record is counted once.
func TestC021CrashDuringRestore(t *testing.T) {
	t.Parallel()
	w := New(t, effectsText)
	f := w.Feed("in")
	push := func(n int) {
		for i := range n {
			f.Push(Text(fmt.Sprint("key", i%10), 1, "append x"))
		}
	}
	push(1000)
	r := w.Start()
	w.Checkpoint(r)
	push(500)
	for r.Stats().Read < 1500 {
		time.Sleep(time.Millisecond)
	}
	r.Crash()
	for i := range 3 {
		r := w.Start()
		time.Sleep(time.Duration(i) * 500 * time.Microsecond)
		r.Crash()
	}
	for i := range 10 {
		f.Push(Text(fmt.Sprint("key", i), 2, "list"))
	}
	f.End()
	w.RunToEnd()
	want := "list" + strings.Repeat(" x", 150)
	for i := range 10 {
		w.expectValues(fmt.Sprint("key", i), want)
	}
}

// damagedWorld is a stopped job with several checkpoints of growing state.
func damagedWorld(t *testing.T) (*World, *Feed, []checkpoint.ID) {
	w := New(t, effectsText)
	f := w.Feed("in")
	r := w.Start()
	var ids []checkpoint.ID
	for i := range 3 {
		f.Push(Text("k", int64(i), fmt.Sprintf("append %d;list", i)))
		ids = append(ids, w.Checkpoint(r))
	}
	r.Crash()
	return w, f, ids
}

// TestC023TruncatedSnapshot: it is named, the job stops, and the previous one is offered and works.
func TestC023TruncatedSnapshot(t *testing.T) {
	t.Parallel()
	w, f, _ := damagedWorld(t)
	m := w.latest()
	objects := map[string]bool{}
	for ref := range m.Objects() {
		objects[ref.Digest] = true
	}
	cut := false
	for d := range objects {
		path := filepath.Join(w.StateDir(), "snapshots", "objects", d[:2], d)
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if !cut && !w.inOldest(d) {
			if err := os.Truncate(path, st.Size()-1); err != nil {
				t.Fatal(err)
			}
			cut = true
		}
	}
	if !cut {
		t.Fatal("the newest checkpoints have no object of their own")
	}
	err := w.Fail(fmt.Sprintf("checkpoint %d is damaged", m.ID), "objects", "--restore")
	var damaged *snapstore.DamagedCheckpointError
	if !errors.As(err, &damaged) || damaged.Previous == 0 {
		t.Fatalf("error %v offers no checkpoint", err)
	}
	before := w.Values("out/", "k")
	w.Options = func(o *job.Options) { o.Restore = damaged.Previous }
	f.End()
	w.RunToEnd()
	want := []string{"list 0", "list 0 1", "list 0 1 2"}
	if !slices.Equal(before, want) {
		t.Errorf("published before: %q, expected %q", before, want)
	}
	w.expectValues("k", want...)
}

// inOldest says whether the oldest checkpoint that is kept needs the object.
func (w *World) inOldest(digest string) bool {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		w.T.Fatal(err)
	}
	defer s.Close()
	list, err := s.List()
	if err != nil {
		w.T.Fatal(err)
	}
	m, err := s.Load(list[0].ID)
	if err != nil {
		w.T.Fatal(err)
	}
	for ref := range m.Objects() {
		if ref.Digest == digest {
			return true
		}
	}
	return false
}
