package jobtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

// snapshots describes what a world's store holds, by id.
func (w *World) snapshots() map[checkpoint.ID]snapstore.Info {
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
	out := map[checkpoint.ID]snapstore.Info{}
	for _, i := range list {
		out[i.ID] = i
	}
	return out
}

const savepointText = `name: saved
checkpoint: {interval: 0s, retain: 1}
operators:
  - {id: in, source: generator, kind: counter, parallelism: 1}
  - id: logic
    process: {module: "@effects", function: effects}
  - {id: out, sink: file, path: out/, envelope: true}
`

func TestSavepointStaysWhileCheckpointsExpire(t *testing.T) {
	t.Parallel()
	w := New(t, savepointText)
	f := w.Feed("in")
	r := w.Start()
	ctx := context.Background()
	f.Push(Text("k", 1, "append a;list"))
	before := w.Checkpoint(r) + 1 // that one was made to see the first published
	sp, err := r.Savepoint(ctx, job.SavepointRequest{Tag: "good", Note: "before the change"})
	if err != nil {
		t.Fatal(err)
	}
	all := w.snapshots()
	if _, ok := all[before]; !ok {
		t.Errorf("checkpoint %d is gone: a savepoint took its place in retention; there are %v", before, all)
	}
	got := all[sp.ID]
	if got.Kind != checkpoint.KindSavepoint || got.Note != "before the change" || !slices.Equal(got.Tags, []string{"good"}) || got.Bytes != sp.Bytes || sp.CreatedMS != got.CreatedMS {
		t.Errorf("%+v, answer %+v", got, sp)
	}
	f.Push(Text("k", 2, "append b;list"))
	w.Checkpoint(r)
	w.Checkpoint(r)
	all = w.snapshots()
	if _, ok := all[sp.ID]; !ok || len(all) != 2 {
		t.Errorf("there are %v, expected the savepoint and one checkpoint", all)
	}
	for _, c := range []struct {
		tag  string
		want error
	}{{"good", snapstore.ErrTagTaken}, {"latest", snapstore.ErrBadTag}, {"12", snapstore.ErrBadTag}} {
		if _, err := r.Savepoint(ctx, job.SavepointRequest{Tag: c.tag}); !errors.Is(err, c.want) {
			t.Errorf("tag %s: %v, expected %v", c.tag, err, c.want)
		}
	}
	if n := len(w.snapshots()); n != 2 {
		t.Errorf("%d snapshots after requests that were refused, expected 2", n)
	}
	f.End()
	w.Finish(r)
	w.expectValues("k", "list a", "list a b")
	w.binds(sp.ID)
}

// binds checks that a snapshot holds the code it was made by: every module and the pipeline file.
func (w *World) binds(id checkpoint.ID) {
	w.T.Helper()
	s, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		w.T.Fatal(err)
	}
	defer s.Close()
	m, err := s.Load(id)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, ref := range m.Modules {
		if b, err := s.Read(context.Background(), ref.Digest); err != nil || int64(len(b)) != ref.Size || ref.Size == 0 {
			w.T.Errorf("module of %s: %d bytes of %d, %v", ref.Operator, len(b), ref.Size, err)
		}
	}
	if b, err := s.Read(context.Background(), m.Pipeline); err != nil || string(b) != string(w.Graph.Text) || len(m.Modules) == 0 {
		w.T.Errorf("pipeline file: %v; %d modules", err, len(m.Modules))
	}
}

// Many at once, with checkpoints by the clock between them: each gets one that began after it asked.
func TestSavepointsAtOnce(t *testing.T) {
	t.Parallel()
	w := New(t, savepointText)
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("k", 1, "append a"))
	newest := w.Checkpoint(r)
	const n = 8
	got := make([]job.Savepoint, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if i%4 == 3 {
				_, err = r.Job.Checkpoint(context.Background())
			} else {
				got[i], err = r.Savepoint(context.Background(), job.SavepointRequest{Tag: fmt.Sprint("tag-", i)})
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	all := w.snapshots()
	for i, sp := range got {
		if i%4 == 3 {
			continue
		}
		in := all[sp.ID]
		if sp.ID <= newest || in.Kind != checkpoint.KindSavepoint || !slices.Contains(in.Tags, fmt.Sprint("tag-", i)) {
			t.Errorf("%d: got %d, which is %+v", i, sp.ID, in)
		}
	}
	f.End()
	w.Finish(r)
}

func TestSavepointThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	disk := newFullDisk()
	w := New(t, savepointText)
	w.Options = disk.options
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("k", 1, "append a;list"))
	w.Checkpoint(r)
	had := w.snapshots()
	f.Push(Text("k", 2, "append b;list"))
	for r.Stats().Read < 2 {
		time.Sleep(time.Millisecond)
	}
	disk.full.Store(true)
	_, err := r.Savepoint(context.Background(), job.SavepointRequest{Note: "x"})
	disk.full.Store(false)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, expected that the disk is full", err)
	}
	if all := w.snapshots(); len(all) != len(had) {
		t.Errorf("there are %v, expected only what was before", all)
	}
	if _, err := r.Savepoint(context.Background(), job.SavepointRequest{Tag: "again"}); err != nil {
		t.Error(err)
	}
	f.End()
	w.Finish(r)
	w.expectValues("k", "list a", "list a b")
	if _, err := r.Savepoint(context.Background(), job.SavepointRequest{Tag: "late"}); !errors.Is(err, job.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// refuses makes the first n barriers fail that end a job.
type refuses struct {
	Native
	left *atomic.Int64
}

func (o *refuses) Barrier(b checkpoint.Barrier) (operators.Pending, error) {
	if b.Final && o.left.Add(-1) >= 0 {
		return nil, &os.PathError{Op: "write", Path: "staged", Err: syscall.EIO}
	}
	return o.Native.Barrier(b)
}

// A job that ends with a savepoint goes on from it as if nothing had been, without a last watermark; also
// when the first attempt at it fails.
func TestStopWithSavepoint(t *testing.T) {
	t.Parallel()
	for _, failures := range []int64{0, 1, 3} {
		t.Run(fmt.Sprint(failures, " failures"), func(t *testing.T) {
			t.Parallel()
			var left atomic.Int64
			left.Store(failures)
			w := New(t, savepointText)
			w.Wrap = func(_ *operators.Node, op Native) operators.Operator { return &refuses{op, &left} }
			f := w.Feed("in")
			r := w.Start()
			f.Push(Text("k", 1, "append a;list;timer 5000 t"))
			w.Checkpoint(r)
			f.Push(Text("k", 2, "append b;list"))
			for !f.drained() {
				time.Sleep(time.Millisecond)
			}
			sp, err := r.Savepoint(context.Background(), job.SavepointRequest{Tag: "end", Stop: true})
			if failures == 3 { // as often as a last checkpoint is tried
				if !errors.Is(err, syscall.EIO) {
					t.Fatalf("%v, expected what was in the way", err)
				}
				// The job is not ended by that: it goes on from the checkpoint before.
				f.End()
				if res := w.Finish(r); res.Restarts != 1 {
					t.Errorf("%d restarts, expected 1", res.Restarts)
				}
				w.expectValues("k", append([]string{"list a", "list a b"}, fired("5000 t")...)...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			res, err := r.Wait()
			if err != nil || !res.Stopped || res.Complete || res.Checkpoint != sp.ID {
				t.Fatalf("%+v, %v, expected a stop at %d", res, err, sp.ID)
			}
			in := w.snapshots()[sp.ID]
			if in.Kind != checkpoint.KindSavepoint || !in.Newest || !slices.Equal(in.Tags, []string{"end"}) {
				t.Errorf("%+v", in)
			}
			w.expectValues("k", "list a", "list a b") // no timer: the watermark was not there
			f.End()
			w.RunToEnd()
			w.expectValues("k", append([]string{"list a", "list a b"}, fired("5000 t")...)...)
		})
	}
}

// A request that comes while the job waits to restart is served by the next attempt, and one whose asker
// goes away harms nothing.
func TestSavepointAcrossRestart(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	w := New(t, savepointText)
	w.Wrap = func(_ *operators.Node, op Native) operators.Operator { return &breaks{op, &fail} }
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("k", 1, "append a;list"))
	w.Checkpoint(r)
	fail.Store(true)
	f.Push(Text("k", 2, "append b;list"))
	for r.Stats().Paused == "" {
		time.Sleep(time.Millisecond)
	}
	fail.Store(false)
	gone, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := r.Savepoint(gone, job.SavepointRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, expected that the time ran out", err)
	}
	sp, err := r.Savepoint(context.Background(), job.SavepointRequest{Tag: "after"})
	if err != nil || w.snapshots()[sp.ID].Kind != checkpoint.KindSavepoint {
		t.Errorf("%+v, %v", sp, err)
	}
	f.End()
	w.Finish(r)
	w.expectValues("k", "list a", "list a b")
}

// breaks fails its task at a batch while it is told to.
type breaks struct {
	Native
	fail *atomic.Bool
}

func (o *breaks) Batch(in int, b *abi.Batch, out operators.Collector) error {
	if o.fail.Load() {
		return &os.PathError{Op: "write", Path: "staged", Err: syscall.EIO}
	}
	return o.Native.Batch(in, b, out)
}
