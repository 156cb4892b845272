package clocklog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/jobtest"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
)

// logged is a job with a stretch from one snapshot to another in which the clock did something.
func logged(t *testing.T, moves int) (s *scene, st *snapstore.Store, from, to checkpoint.ID) {
	s = newScene(t, fmt.Sprintf(text, 10), 1, operators.TimeSettings{Quantum: 100 * time.Millisecond})
	s.run = s.Start()
	s.push()
	from = s.checkpoint()
	for range moves {
		s.clock.now.Add(10)
		s.push()
		s.drain()
	}
	to = s.checkpoint()
	s.run.Crash()
	return s, s.store(), from, to
}

// TestRefused: without a log that fits, a job that is to repeat ends with what is missing, not with other results.
func TestRefused(t *testing.T) {
	t.Parallel()
	s, st, from, to := logged(t, 30)
	stretch, err := clocklog.Between(context.Background(), st, from, to)
	if err != nil {
		t.Fatal(err)
	}
	fails := func(what string, r *scene, want error, words ...string) {
		t.Helper()
		run, err := r.Open()
		if err == nil {
			_, err = run.Wait()
		}
		if !errors.Is(err, want) {
			t.Fatalf("%s: %v", what, err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q does not say %q", what, err, w)
			}
		}
	}
	yaml := fmt.Sprintf(text, 10)
	r := s.fork(t, st, from, yaml, 0)
	r.repeat(&clocklog.Stretch{From: from, To: to})
	fails("no log", r, clocklog.ErrMissing, "operator ", fmt.Sprintf("from snapshot %d to %d", from, to))

	// The same records, but the watermark stands elsewhere.
	r = s.fork(t, st, from, yaml, 0)
	for _, n := range r.Graph.Nodes {
		if n.Source != nil {
			n.Source.Time.OutOfOrderness = 700 * time.Millisecond
		}
	}
	r.repeat(stretch)
	fails("another watermark", r, task.ErrOtherInput, "record ", "the watermark is")
}

// TestRunsOut: behind the log a task goes on by its own clock, and what is due by then fires; held, it does not.
func TestRunsOut(t *testing.T) {
	t.Parallel()
	s := newScene(t, fmt.Sprintf(text, 10), 1, operators.TimeSettings{Quantum: 100 * time.Millisecond})
	s.run = s.Start()
	s.push()
	from := s.checkpoint()
	due := s.clock.NowMS() + 5000
	s.feed.push(0, jobtest.Text("k", s.at, fmt.Sprintf("ptimer %d p;now", due)))
	to := s.checkpoint()
	s.run.Crash()
	st := s.store()
	stretch, err := clocklog.Between(context.Background(), st, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, hold := range []bool{false, true} {
		r := s.fork(t, st, from, fmt.Sprintf(text, 10), 0)
		r.clock.now.Store(due)
		before := r.Options
		r.Options = func(o *job.Options) {
			before(o)
			o.Clocks = func(id task.ID) *clocklog.Reader {
				x := stretch.Reader(id.Vertex, id.Index)
				if hold {
					x.Hold()
				}
				return x
			}
		}
		r.run = r.Start()
		last := r.checkpoint()
		r.run.Crash()
		out := r.published(r.store(), from, last)["out"]
		if now := fmt.Sprintf("now %d", due-5000); !strings.Contains(out, now) {
			t.Errorf("hold %t: %q does not have %q", hold, out, now)
		}
		if fired := strings.Contains(out, "fired"); fired == hold {
			t.Errorf("hold %t: the timer fired: %t: %q", hold, fired, out)
		}
	}
}

// TestKept: a long log is an object of its snapshot: verified, exported with it, and gone with it; a pipeline to
// which the clock does not matter has none.
func TestKept(t *testing.T) {
	t.Parallel()
	s, st, _, to := logged(t, 4000)
	m, err := st.Load(to)
	if err != nil {
		t.Fatal(err)
	}
	var object string
	for i := range m.Tasks {
		if c := m.Tasks[i].Clock; c != nil && c.Object != "" {
			object = c.Object
		}
	}
	if object == "" {
		t.Fatal("no log is long enough to be an object")
	}
	found := false
	for ref := range m.Objects() {
		found = found || ref.Digest == object && strings.Contains(ref.Where, "log of the clock")
	}
	if !found {
		t.Error("the manifest does not count it among its objects")
	}
	var file bytes.Buffer
	if err := archive.Export(context.Background(), &file, st, to, archive.Sealing{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	other, err := snapstore.Open(dir, snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := archive.Import(context.Background(), bytes.NewReader(file.Bytes()), other, archive.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(context.Background(), object); err != nil {
		t.Errorf("after export and import: %v", err)
	}
	path := filepath.Join(s.StateDir(), "snapshots", "objects", object[:2], object)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = clocklog.Between(context.Background(), s.store(), m.Parent, to)
	var damage *snapstore.DamageError
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "log of the clock") {
		t.Errorf("a damaged object: %v", err)
	}

	w := jobtest.New(t, `name: plain
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter, records: 100}
  - {id: same, map: {module: "@identity", function: identity}}
  - {id: out, sink: file, path: out/, envelope: true}
`)
	w.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	res := w.RunToEnd()
	plain, err := snapstore.Open(filepath.Join(w.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if m, err = plain.Load(res.Checkpoint); err != nil {
		t.Fatal(err)
	}
	for i := range m.Tasks {
		if m.Tasks[i].Clock != nil {
			t.Errorf("task %s has a log of %d bytes", m.Tasks[i].ID(), m.Tasks[i].Clock.Size)
		}
	}
}
