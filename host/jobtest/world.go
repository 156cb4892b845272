// Package jobtest runs whole jobs in tests: a pipeline from its YAML text with the repository's modules,
// over as many runs as a test wants, with crashes between them, and reads what they have committed.
package jobtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// World is a folder with one pipeline, its inputs, outputs and state. It outlives the runs in it.
type World struct {
	T     testing.TB
	Dir   string
	Graph *operators.Graph

	// Sources replaces sources: by node id, one slice of records per split.
	Sources map[string][][]abi.Record
	// Feeds replaces sources by live ones.
	Feeds map[string]*Feed
	// Wrap, if set, may put something around each native operator; only those with a
	// part in checkpoints are offered.
	Wrap func(n *operators.Node, op Native) operators.Operator
	// Polled is called after each poll of a replaced source with the number of records it gave; it may
	// block, which holds the source's task, or end the run.
	Polled func(node string, records int)
	// Options may change the options of each run.
	Options     func(o *job.Options)
	Connect     connect.Env
	Interpreter bool
	Log         *slog.Logger
}

// New makes a world of a pipeline in YAML. "@name" in it becomes the path of a module, see Module. The
// outputs' paths are relative to the world's folder.
func New(t testing.TB, yaml string) *World {
	t.Helper()
	w := &World{T: t, Dir: tempDir(t), Sources: map[string][][]abi.Record{}, Feeds: map[string]*Feed{}}
	w.Pipeline(yaml)
	return w
}

// tempDir is a folder in memory where the machine has one: a job syncs every few milliseconds here, and
// disks are slow. What needs a real disk's faults injects them.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "jobtest")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Pipeline replaces the pipeline, for the next run.
func (w *World) Pipeline(yaml string) {
	w.T.Helper()
	g, err := w.Parse(yaml)
	if err != nil {
		w.T.Fatalf("pipeline: %v", err)
	}
	w.Graph = g
}

// Parse reads a pipeline as Pipeline does, but returns what is wrong with it.
func (w *World) Parse(yaml string) (*operators.Graph, error) {
	text, err := modulePaths(yaml)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.Dir, "pipeline.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return spec.Load(file, spec.Options{Modules: resolver()})
}

// File writes an input file.
func (w *World) File(name, text string) {
	w.T.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o644); err != nil {
		w.T.Fatal(err)
	}
}

// StateDir is the state folder of the runs.
func (w *World) StateDir() string { return filepath.Join(w.Dir, "state") }

// Run is one run of the job.
type Run struct {
	*job.Job
	cancel context.CancelFunc
	done   chan struct{}
	res    job.Result
	err    error
}

func (w *World) options() job.Options {
	o := job.Options{Graph: w.Graph, StateDir: w.StateDir(), Clock: clock.Wall{}, Log: w.Log, Source: w.source, Operator: w.operator}
	o.Module = func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
		path := n.Guest.Module
		if !filepath.IsAbs(path) {
			path = filepath.Join(w.Dir, path)
		}
		wasm, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return engineFor(w.Interpreter).Compile(ctx, wasm, n.Guest.Describe)
	}
	o.Compile = engineFor(w.Interpreter).Compile
	if w.Options != nil {
		w.Options(&o)
	}
	return o
}

// Open makes the job of one run, which does not run yet; an error is the start's.
func (w *World) Open() (*Run, error) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Run{cancel: cancel, done: make(chan struct{})}
	j, err := job.New(ctx, w.options())
	if err != nil {
		cancel()
		return nil, err
	}
	r.Job = j
	go func() {
		defer close(r.done)
		r.res, r.err = j.Run(ctx)
		r.err = errors.Join(r.err, j.Close())
	}()
	return r, nil
}

// Start starts a run.
func (w *World) Start() *Run {
	w.T.Helper()
	r, err := w.Open()
	if err != nil {
		w.T.Fatalf("start: %v", err)
	}
	return r
}

// Wait returns how the run ended; the job is closed then.
func (r *Run) Wait() (job.Result, error) {
	<-r.done
	r.cancel()
	return r.res, r.err
}

// Done is closed when the run has ended.
func (r *Run) Done() <-chan struct{} { return r.done }

// Crash ends the run without a last checkpoint, as far as a process can do that to itself: nothing is
// flushed, committed or acknowledged any more.
func (r *Run) Crash() {
	r.cancel()
	<-r.done
}

// Cancel is Crash without waiting, for use from within the job's own goroutines.
func (r *Run) Cancel() { r.cancel() }

// Finish waits for a run that must complete.
func (w *World) Finish(r *Run) job.Result {
	w.T.Helper()
	res, err := r.Wait()
	if err != nil {
		w.T.Fatalf("run: %v", err)
	}
	if !res.Complete {
		w.T.Fatalf("the run is not complete: %+v", res)
	}
	return res
}

// RunToEnd starts a run that must complete.
func (w *World) RunToEnd() job.Result {
	w.T.Helper()
	return w.Finish(w.Start())
}

// Checkpoint makes a checkpoint of everything pushed before, and returns its id. Sinks have published it when
// the tasks have seen the notice: it waits for that by a second one.
func (w *World) Checkpoint(r *Run) checkpoint.ID {
	w.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, f := range w.Feeds {
		for !f.drained() {
			select {
			case <-r.done:
				w.T.Fatalf("the run has ended: %v", r.err)
			case <-ctx.Done():
				w.T.Fatal("the feed is not read")
			case <-time.After(time.Millisecond):
			}
		}
	}
	id, err := r.Job.Checkpoint(ctx)
	if err == nil {
		_, err = r.Job.Checkpoint(ctx)
	}
	if err != nil {
		w.T.Fatalf("checkpoint: %v", err)
	}
	return id
}

// Fail starts a run that must fail, be it at the start, with all the given texts in its error.
func (w *World) Fail(texts ...string) error {
	w.T.Helper()
	r, err := w.Open()
	if err == nil {
		_, err = r.Wait()
	}
	if err == nil {
		w.T.Fatalf("the run did not fail, expected an error with %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			w.T.Errorf("error %q does not say %q", err, s)
		}
	}
	return err
}
