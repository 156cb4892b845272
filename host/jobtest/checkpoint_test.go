package jobtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	snapfault "github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state/faultfs"
)

// fullDisk makes every write of the snapshot store and of state fail while it is full.
type fullDisk struct {
	full  atomic.Bool
	state *faultfs.FS
}

func newFullDisk() *fullDisk {
	d := &fullDisk{state: faultfs.New()}
	d.state.Hook(func(op faultfs.Op, path string) error {
		if d.full.Load() && (op == faultfs.Write || op == faultfs.Create) {
			return &os.PathError{Op: string(op), Path: path, Err: syscall.ENOSPC}
		}
		return nil
	})
	return d
}

func (d *fullDisk) options(o *job.Options) {
	o.StateFS = d.state
	o.SnapshotFS = snapfault.Inject(snapstore.Disk{}, func(op snapfault.Op, path string) error {
		if d.full.Load() && (op == snapfault.OpWrite || op == snapfault.OpCreate) {
			return &os.PathError{Op: string(op), Path: path, Err: syscall.ENOSPC}
		}
		return nil
	})
}

// TestC020FullDisk: a job whose disk is full fails by name or waits, another goes on; with space again the
// first gives the output of a plain run.
func TestC020FullDisk(t *testing.T) {
	t.Parallel()
	text := func(interval string) string {
		return pipelineText("memory: 64KiB\nstate: disk\ncheckpoint: {interval: "+interval+"}", "effects", 1)
	}
	records := workload(20, 6000, 2000)
	plainRun := New(t, text("10ms"))
	plainRun.Sources["in"] = [][]abi.Record{records}
	plainRun.RunToEnd()

	disk := newFullDisk()
	var mu sync.Mutex
	var said []string
	a, b := New(t, text("10ms")), New(t, text("10ms"))
	a.Sources["in"], b.Sources["in"] = [][]abi.Record{records}, [][]abi.Record{records}
	a.Options = func(o *job.Options) {
		disk.options(o)
		o.Event = func(e job.Event) {
			if e.Kind == job.EventRestarting || e.Kind == job.EventAborted {
				mu.Lock()
				said = append(said, e.Message)
				mu.Unlock()
			}
		}
	}
	var read atomic.Int64
	var once sync.Once
	a.Polled = func(_ string, n int) {
		if read.Add(int64(n)) > 2000 {
			once.Do(func() {
				disk.full.Store(true)
				time.AfterFunc(1500*time.Millisecond, func() { disk.full.Store(false) })
			})
		}
		time.Sleep(time.Millisecond)
	}
	ra, rb := a.Start(), b.Start()
	b.Finish(rb)
	if d := Diff(b.outputs(), plainRun.outputs()); d != "" {
		t.Errorf("the job beside it: %s", d)
	}
	res := a.Finish(ra)
	if d := Diff(a.outputs(), plainRun.outputs()); d != "" {
		t.Errorf("after the disk had space again: %s", d)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(strings.Join(said, "\n"), "storage full") {
		t.Errorf("nobody said that the storage is full: %q", said)
	}
	t.Logf("%d restarts, %d failed checkpoints: %.200q", res.Restarts, res.Stats.Failed, said)
}

// TestC024FailedCheckpoints: one that fails, and five in a row, leave nothing behind; the job goes on, and
// the first good one resets the count.
func TestC024FailedCheckpoints(t *testing.T) {
	t.Parallel()
	disk := newFullDisk()
	w := New(t, effectsText)
	w.Options = disk.options
	f := w.Feed("in")
	r := w.Start()
	n := 0
	try := func(full bool) error {
		t.Helper()
		f.Push(Text("k", int64(n), fmt.Sprintf("append %d;list", n)))
		n++
		for r.Stats().Read < int64(n) {
			time.Sleep(time.Millisecond)
		}
		disk.full.Store(full)
		defer disk.full.Store(false)
		_, err := r.Job.Checkpoint(context.Background())
		return err
	}
	for i := 1; i <= 6; i++ {
		if err := try(i == 3); (err != nil) != (i == 3) || i == 3 && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("checkpoint %d: %v", i, err)
		}
	}
	for i := 1; i <= 5; i++ {
		if err := try(true); err == nil {
			t.Fatal("a checkpoint on a full disk is complete")
		}
		if s := r.Stats(); s.FailuresInARow != i || s.LastFailure == "" {
			t.Errorf("%d failures in a row, last %q, expected %d", s.FailuresInARow, s.LastFailure, i)
		}
	}
	if err := try(false); err != nil {
		t.Fatal(err)
	}
	if s := r.Stats(); s.FailuresInARow != 0 || s.Failed != 6 || s.Restarts != 0 {
		t.Errorf("stats %+v, expected 6 failures, none in a row, no restart", s)
	}
	f.End()
	w.Finish(r)
	var want []string
	list := "list"
	for i := range n {
		list += fmt.Sprint(" ", i)
		want = append(want, list)
	}
	w.expectValues("k", want...)
	w.noOrphans()
}

// noOrphans checks that nothing is left in the store and the stage folder that no checkpoint names.
func (w *World) noOrphans() {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{})
	if err != nil {
		w.T.Fatal(err)
	}
	defer s.Close()
	if lines := s.Skipped(); len(lines) > 0 {
		w.T.Errorf("left behind: %q", lines)
	}
	for _, dir := range []string{"stage", "work"} {
		err := filepath.WalkDir(filepath.Join(w.StateDir(), dir), func(p string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				w.T.Errorf("left behind: %s", p)
			}
			return err
		})
		if err != nil && !os.IsNotExist(err) {
			w.T.Fatal(err)
		}
	}
}

const twoFiles = `name: files
checkpoint: {interval: 0s}
linger: 0ms
parallelism: %d
operators:
  - {id: in, source: file, paths: [a.ndjson, b.ndjson], follow: %v, fields: {key: string, n: int64}}
  - {id: by, key_by: key}
  - id: count
    process: {module: "@crashseq", function: count}
  - {id: out, sink: file, path: out/}
`

func row(key string, n int) string { return fmt.Sprintf(`{"key":%q,"n":%d}`+"\n", key, n) }

// TestC025IdleFinishedBusySources: checkpoints go on whatever the sources do, and start at once.
func TestC025IdleFinishedBusySources(t *testing.T) {
	t.Parallel()
	t.Run("finished", func(t *testing.T) { // one source is at its end, the other is not
		t.Parallel()
		w := New(t, `name: mixed
checkpoint: {interval: 0s}
operators:
  - {id: done, source: file, path: a.txt, format: lines}
  - {id: live, source: file, path: b.txt, format: lines, follow: true}
  - {id: both, union: [done, live]}
  - {id: out, sink: file, path: out/}
`)
		w.File("a.txt", "a1\na2\n")
		w.File("b.txt", "b1\n")
		r := w.Start()
		for r.Stats().Read < 3 {
			time.Sleep(time.Millisecond)
		}
		w.Checkpoint(r)
		w.Checkpoint(r)
		r.Crash()
		w.File("b.txt", "b1\nb2\n")
		r = w.Start()
		for r.Stats().Read < 1 {
			time.Sleep(time.Millisecond)
		}
		w.Checkpoint(r)
		r.Stop()
		if res, err := r.Wait(); err != nil || !res.Stopped {
			t.Fatalf("stop: %+v, %v", res, err)
		}
		got := w.Lines("out/")
		slices.Sort(got)
		if want := []string{"a1", "a2", "b1", "b2"}; !slices.Equal(got, want) {
			t.Errorf("got %q, expected %q", got, want)
		}
	})
	t.Run("idle", func(t *testing.T) { // nothing ever came: the start position is in the snapshot
		t.Parallel()
		w := New(t, fmt.Sprintf(twoFiles, 2, true))
		w.File("a.ndjson", "")
		w.File("b.ndjson", "")
		r := w.Start()
		began := time.Now()
		w.Checkpoint(r)
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("two checkpoints of idle sources took %v", d)
		}
		r.Stop()
		if _, err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		w.File("a.ndjson", row("k", 1))
		r = w.Start()
		for r.Stats().Read < 1 {
			time.Sleep(time.Millisecond)
		}
		r.Stop()
		if _, err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := w.Lines("out/"); len(got) != 1 {
			t.Errorf("got %q, expected the one record", got)
		}
	})
	t.Run("busy", func(t *testing.T) { // a source at full speed lets every barrier in
		t.Parallel()
		w := New(t, strings.Replace(effectsText, "records", "records", 1))
		w.Pipeline(`name: busy
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter, keys: 100}
  - {id: out, sink: blackhole}
`)
		r := w.Start()
		for range 10 {
			began := time.Now()
			if _, err := r.Job.Checkpoint(context.Background()); err != nil {
				t.Fatal(err)
			}
			if d := time.Since(began); d > 5*time.Second { // a second, where the machine is ours
				t.Errorf("a checkpoint of a busy source took %v", d)
			}
		}
		r.Stop()
		if _, err := r.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestC027Rescale: a snapshot at parallelism 3 goes on at 1, 2, 3, 5, 16 with the counts and timers of the
// plain run; 16 tasks on 4 keys start; another slot count is refused.
func TestC027Rescale(t *testing.T) {
	t.Parallel()
	const keys = 2000
	var first, second []abi.Record
	for i := range keys {
		key := fmt.Sprintf("key-%05d", i)
		first = append(first, Text(key, int64(i), fmt.Sprintf("append a;put m %d;timer %d t", i, 100_000+i)))
		second = append(second, Text(key, int64(50_000+i), "append b;list;scan"))
	}
	run := func(p int) string {
		w := New(t, pipelineText("checkpoint: {interval: 0s}", "effects", 3))
		f := w.Feed("in")
		f.Push(first...)
		r := w.Start()
		w.Checkpoint(r)
		r.Crash()
		w.Pipeline(pipelineText("checkpoint: {interval: 0s}", "effects", p))
		f.Push(second...)
		f.End()
		res := w.RunToEnd()
		if n := res.Stats.Total("logic", "timers"); n != keys {
			t.Errorf("parallelism %d: %d timers fired, expected %d", p, n, keys)
		}
		return w.ByKey("out/")
	}
	want := run(3)
	if n := strings.Count(want, "list a b"); n != keys {
		t.Fatalf("%d full lists, expected %d", n, keys)
	}
	for _, p := range []int{1, 2, 5, 16} {
		t.Run(fmt.Sprint(p), func(t *testing.T) {
			t.Parallel()
			if d := Diff(run(p), want); d != "" {
				t.Error(d)
			}
		})
	}
	t.Run("more tasks than keys", func(t *testing.T) {
		t.Parallel()
		w := New(t, pipelineText("checkpoint: {interval: 0s}", "effects", 16))
		w.Sources["in"] = [][]abi.Record{{Text("a", 1, "out x"), Text("b", 2, "out x"), Text("c", 3, "out x"), Text("d", 4, "out x;fail no")}}
		w.RunToEnd()
		if n := len(w.Lines("out/")); n != 3 {
			t.Errorf("%d lines, expected 3", n)
		}
	})
	t.Run("another slot count", func(t *testing.T) {
		t.Parallel()
		w := New(t, effectsText)
		f := w.Feed("in")
		f.Push(Text("k", 1, "append a"))
		r := w.Start()
		w.Checkpoint(r)
		r.Crash()
		m := w.latest()
		m.Slots, m.ID = 1024, m.ID+1000
		s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.WriteManifest(context.Background(), m)
		s.Close()
		if err == nil {
			err = w.Fail()
		}
		if !strings.Contains(err.Error(), "1024") {
			t.Errorf("error %v does not name the slot count", err)
		}
	})
}

// notices delivers a sink's completion notices in an order of its own.
type notices struct {
	Native
	order func(id checkpoint.ID) []checkpoint.ID
}

func (s *notices) Complete(id checkpoint.ID) error {
	for _, n := range s.order(id) {
		if err := s.Native.Complete(n); err != nil {
			return err
		}
	}
	return nil
}

// TestC028NoticesOutOfOrder: late, missing and repeated notices change nothing.
func TestC028NoticesOutOfOrder(t *testing.T) {
	t.Parallel()
	type ids = []checkpoint.ID
	orders := map[string]map[int]ids{ // nth notice -> what is delivered, as nth notices
		"1 2 3":     {1: {1}, 2: {2}, 3: {3}},
		"2 1 3":     {1: {}, 2: {2, 1}, 3: {3}},
		"3":         {1: {}, 2: {}, 3: {3}},
		"1 1 2 2 3": {1: {1, 1}, 2: {2, 2}, 3: {3}},
		"none":      {1: {}, 2: {}, 3: {}}, // healed by the final one
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := New(t, effectsText)
			f := w.Feed("in")
			w.Wrap = func(n *operators.Node, op Native) operators.Operator {
				seen := ids{0}
				return &notices{op, func(id checkpoint.ID) (out ids) {
					seen = append(seen, id)
					nth := len(seen) - 1
					if nth > 3 {
						return ids{id}
					}
					for _, k := range order[nth] {
						out = append(out, seen[k])
					}
					return out
				}}
			}
			r := w.Start()
			var want []string
			for i := range 3 {
				f.Push(Text("k", int64(i), fmt.Sprint("out ", i)))
				for !f.drained() {
					time.Sleep(time.Millisecond)
				}
				if _, err := r.Job.Checkpoint(context.Background()); err != nil {
					t.Fatal(err)
				}
				want = append(want, fmt.Sprint(i))
			}
			f.End()
			w.Finish(r)
			w.expectValues("k", want...)
			w.noOrphans()
		})
	}
}
