package examples

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/file"
)

func each(t *testing.T, run func(t *testing.T, e example, m modules)) {
	for _, e := range table {
		t.Run(e.folder, func(t *testing.T) { run(t, e, newModules(t)) })
	}
}

// Batch is a bounded stream: how often checkpoints are made and how large batches are is nothing that a
// result shows, whatever the parallelism.
func TestEveryModeGivesTheGoldenOutput(t *testing.T) {
	each(t, func(t *testing.T, e example, m modules) {
		for _, set := range [][]string{
			{"mode: auto"}, {"mode: stream", "checkpoint: {interval: 5ms}", "batch: 16"}, {"mode: batch"},
			{"mode: stream", "parallelism: 4"}, {"mode: batch", "parallelism: 4"}, {"mode: auto", "parallelism: 4", "batch: 7"},
		} {
			dir := project(t, e.folder)
			path := filepath.Join(dir, e.file)
			settings(t, path, set...)
			res := m.complete(path, nil)
			if set[0] == "mode: batch" && res.Stats.Checkpoints != 1 {
				t.Errorf("%q: %d checkpoints, want the final one", set, res.Stats.Checkpoints)
			}
			e.check(t, dir)
			if t.Failed() {
				t.Fatalf("with %q", set)
			}
		}
	})
}

// gate lets a file source read so many records, and no more until it is opened.
type gate struct {
	*file.Source
	mu    sync.Mutex
	left  int
	ready chan struct{}
	held  chan struct{} // has a value once all are read
}

func newGate(n *operators.Node, records int) *gate {
	return &gate{Source: file.NewSource(n), left: records, ready: make(chan struct{}, 1), held: make(chan struct{}, 1)}
}

func (g *gate) open(records int) {
	g.mu.Lock()
	g.left = records
	g.mu.Unlock()
	g.ready <- struct{}{}
}

// Poll implements operators.Source.
func (g *gate) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left == 0 {
		g.Intake().Begin()
		select {
		case g.held <- struct{}{}:
		default:
		}
		return operators.PollIdle, nil
	}
	s, err := g.Source.Poll(b, min(max, g.left))
	g.left -= min(g.left, b.Len())
	return s, err
}

// Ready implements operators.Source.
func (g *gate) Ready() <-chan struct{} { return g.ready }

func await(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not happen", what)
	}
}

// killed runs the first part of the input, with a checkpoint after `before` records if asked for, and ends
// without a further one after `after` more.
func killed(t *testing.T, m modules, path string, before, after int, checkpoint bool) {
	t.Helper()
	var g *gate
	j := m.start(path, func(o *job.Options) {
		o.Source = func(n *operators.Node) (operators.Source, error) {
			g = newGate(n, before)
			return g, nil
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := j.Run(ctx)
		ended <- err
	}()
	<-j.Ready()
	await(t, g.held, "the first part")
	if checkpoint {
		if _, err := j.Checkpoint(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-g.held: // of looks during the checkpoint
	default:
	}
	g.open(after)
	await(t, g.held, "the second part")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestKilledAndResumed(t *testing.T) {
	each(t, func(t *testing.T, e example, m modules) {
		for _, p := range []int{1, 4} {
			dir := project(t, e.folder)
			path := filepath.Join(dir, e.file)
			settings(t, path, fmt.Sprint("parallelism: ", p), "batch: 32")
			killed(t, m, path, e.half, max(1, e.half/3), true)
			var from uint64
			res := m.complete(path, func(o *job.Options) {
				o.Event = func(ev job.Event) {
					if ev.Kind == job.EventRestored {
						from = uint64(ev.Checkpoint)
					}
				}
			})
			if from != 1 || res.Stats.Read == 0 {
				t.Errorf("went on from checkpoint %d and read %d records", from, res.Stats.Read)
			}
			e.check(t, dir)
		}
	})
}

// A batch without checkpoints in between that ends in its middle has published nothing, and begins anew.
func TestABatchThatIsKilledStartsAgain(t *testing.T) {
	each(t, func(t *testing.T, e example, m modules) {
		dir := project(t, e.folder)
		path := filepath.Join(dir, e.file)
		settings(t, path, "mode: batch", "batch: 32")
		killed(t, m, path, e.half, max(1, e.half/3), false)
		for folder := range e.want {
			if got := lines(t, filepath.Join(dir, folder)); len(got) != 0 {
				t.Errorf("%s was published before the end: %s", folder, got)
			}
		}
		restored := false
		m.complete(path, func(o *job.Options) {
			o.Event = func(ev job.Event) { restored = restored || ev.Kind == job.EventRestored }
		})
		if restored {
			t.Error("there was a checkpoint to go on from")
		}
		e.check(t, dir)
	})
}

// The twins in Go, in place of the modules in Rust, give the same bytes.
func TestGoTwins(t *testing.T) {
	for _, e := range table[len(table)-5:] {
		if _, err := os.Stat(filepath.Join(e.folder, "go")); err != nil {
			continue // built in operators are enough
		}
		t.Run(e.folder, func(t *testing.T) {
			dir := project(t, e.folder)
			src, err := filepath.Abs(filepath.Join(e.folder, "go"))
			if err != nil {
				t.Fatal(err)
			}
			build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", filepath.Join(dir, e.folder+".wasm"), ".")
			build.Dir = src
			build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			path := filepath.Join(dir, e.file)
			settings(t, path, "parallelism: 2")
			newModules(t).complete(path, nil)
			e.check(t, dir)
		})
	}
}

// The whole three million flights in both orders, where MILLRACE_FLIGHTS says that they are.
func TestWholeFlightsInWindows(t *testing.T) {
	folder := os.Getenv("MILLRACE_FLIGHTS")
	if folder == "" {
		t.Log("MILLRACE_FLIGHTS is not set: only the sample was run")
		return
	}
	for _, e := range table {
		if e.folder != "busiest" && e.folder != "delays" {
			continue
		}
		want, err := os.ReadFile(filepath.Join(e.folder, "golden", "full.sha256"))
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"flights-3m.parquet", "flights-by-report.parquet"} {
			dir := project(t, e.folder)
			path := filepath.Join(dir, e.file)
			abs, err := filepath.Abs(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			replace(t, path, "../flights/data/flights-by-report.parquet", abs)
			settings(t, path, fmt.Sprint("parallelism: ", 1+3*i))
			newModules(t).complete(path, nil)
			got := lines(t, filepath.Join(dir, "out"))
			if sum := fmt.Sprintf("%x  %d lines\n", sha256.Sum256(got), bytes.Count(got, []byte("\n"))); sum != string(want) {
				t.Errorf("%s over %s: %s, want %s", e.folder, name, sum, want)
			}
		}
	}
}
