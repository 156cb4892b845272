package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/spec"
)

const followText = `name: follow
linger: 0ms
checkpoint: {interval: 0s}
operators:
  - {id: in, source: file, path: in.ndjson, follow: true, fields: {key: string, n: int64}}
  - {id: by, key_by: key}
  - id: count
    process: {module: %q, function: count}
  - {id: out, sink: file, path: out/}
`

// graph reads a pipeline over a file of records and returns it with its folder.
func graph(t *testing.T, records int) (*operators.Graph, string) {
	t.Helper()
	dir := t.TempDir()
	module, err := filepath.Abs("../../guests/cases/crashseq/crashseq.wasm")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "pipeline.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(followText, module)), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, dir, records)
	mods, err := worker.NewModules(t.Context(), filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	defer mods.Close()
	g, err := spec.Load(file, spec.Options{Modules: mods})
	if err != nil {
		t.Fatal(err)
	}
	return g, dir
}

func write(t *testing.T, dir string, records int) {
	t.Helper()
	var text strings.Builder
	for i := range records {
		fmt.Fprintf(&text, "{\"key\":\"k%d\",\"n\":%d}\n", i%3, i)
	}
	if err := os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines counts the committed lines.
func lines(t *testing.T, dir string) (n int) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "out", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		n += strings.Count(string(b), "\n")
	}
	return n
}

// piped is a Remote whose worker is served by a goroutine over operating system pipes. cut closes the pipes
// as the end of the process would.
func piped(t *testing.T, o worker.Options) (r *worker.Remote, cut func(), served <-chan error) {
	t.Helper()
	callsIn, callsOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answersIn, answersOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- worker.Serve(context.Background(), callsIn, answersOut, worker.Options{})
		answersOut.Close()
		callsIn.Close()
	}()
	var once sync.Once
	cut = func() { once.Do(func() { callsOut.Close() }) }
	t.Cleanup(func() {
		cut()
		answersIn.Close()
	})
	return worker.NewRemote(answersIn, callsOut, func() error { cut(); return nil }, o), cut, done
}

func waitRead(t *testing.T, w worker.Worker, n int64) {
	t.Helper()
	for {
		s, err := w.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Read >= n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// workers runs a test with a worker in this process and with one behind pipes.
func workers(t *testing.T, test func(t *testing.T, w worker.Worker)) {
	t.Run("local", func(t *testing.T) {
		w := worker.NewLocal(worker.Options{})
		defer w.Close()
		test(t, w)
	})
	t.Run("remote", func(t *testing.T) {
		w, _, served := piped(t, worker.Options{})
		test(t, w)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Errorf("served: %v", err)
		}
	})
}

func TestDeployBarrierStop(t *testing.T) {
	workers(t, func(t *testing.T, w worker.Worker) {
		ctx := t.Context()
		if _, err := w.Stats(ctx); err == nil {
			t.Error("stats of nothing")
		}
		if _, err := w.Barrier(ctx); err == nil {
			t.Error("a barrier through nothing")
		}
		g, dir := graph(t, 10)
		d := worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache")}
		if err := w.Deploy(ctx, d); err != nil {
			t.Fatal(err)
		}
		if err := w.Deploy(ctx, d); err == nil {
			t.Error("a second pipeline was deployed")
		}
		waitRead(t, w, 10)
		first, err := w.Barrier(ctx)
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.Barrier(ctx) // by now the first is published
		if err != nil || second <= first {
			t.Fatalf("checkpoint %d after %d: %v", second, first, err)
		}
		if n := lines(t, dir); n != 10 {
			t.Errorf("%d lines are committed, expected 10", n)
		}
		saved, err := w.Savepoint(ctx, job.SavepointRequest{Tag: "kept"})
		if err != nil || saved.ID <= second || saved.CreatedMS == 0 || saved.Bytes == 0 {
			t.Errorf("savepoint %+v, %v", saved, err)
		}
		if _, err := w.Savepoint(ctx, job.SavepointRequest{Tag: "kept"}); err == nil || !strings.Contains(err.Error(), "taken") {
			t.Errorf("the same tag again: %v", err)
		}
		last, err := w.Savepoint(ctx, job.SavepointRequest{Stop: true})
		if err != nil {
			t.Fatal(err)
		}
		res, err := w.Wait(ctx)
		if err != nil || !res.Stopped || res.Checkpoint != last.ID || last.ID <= saved.ID {
			t.Errorf("result %+v after %+v, %v", res, last, err)
		}
		if _, err := w.Barrier(ctx); err == nil {
			t.Error("a barrier through a pipeline that has ended")
		}
	})
}

func TestStopNowAndGoOn(t *testing.T) {
	g, dir := graph(t, 10)
	for i, n := range []int{10, 20, 30} {
		w, _, served := piped(t, worker.Options{})
		write(t, dir, n)
		if err := w.Deploy(t.Context(), worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache")}); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		for {
			if _, err := w.Barrier(t.Context()); err != nil {
				t.Fatal(err)
			}
			if lines(t, dir) == n {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if err := w.Stop(t.Context(), worker.Stop{Now: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Wait(t.Context()); err == nil {
			t.Error("a pipeline stopped at once ended well")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		<-served
	}
	if n := lines(t, dir); n != 30 {
		t.Errorf("%d lines, expected 30", n)
	}
}

// A worker whose process goes away is an error of every call, and its pipeline ends with it.
func TestTheWorkerGoesAway(t *testing.T) {
	g, dir := graph(t, 10)
	w, cut, served := piped(t, worker.Options{})
	d := worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache")}
	if err := w.Deploy(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := w.Wait(t.Context())
		waited <- err
	}()
	time.Sleep(10 * time.Millisecond)
	cut()
	if err := <-waited; err == nil {
		t.Error("the wait ended well")
	}
	if err := <-served; err != nil {
		t.Errorf("served: %v", err)
	}
	if _, err := w.Stats(t.Context()); !worker.Gone(err) {
		t.Errorf("stats of a worker that is gone: %v", err)
	}
	// The state folder is free again.
	l := worker.NewLocal(worker.Options{})
	defer l.Close()
	if err := l.Deploy(t.Context(), d); err != nil {
		t.Errorf("after the worker: %v", err)
	}
}

// Errors keep their kind over the wire, and events and logs come through.
func TestErrorsAndEventsCrossTheWire(t *testing.T) {
	g, dir := graph(t, 10)
	var mu sync.Mutex
	var kinds []job.EventKind
	w, _, _ := piped(t, worker.Options{Event: func(e job.Event) {
		mu.Lock()
		kinds = append(kinds, e.Kind)
		mu.Unlock()
	}})
	d := worker.Deploy{Graph: g, StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "cache")}
	l := worker.NewLocal(worker.Options{})
	if err := l.Deploy(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	err := w.Deploy(t.Context(), d)
	if worker.Classify(err) != worker.KindLocked || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("a second run: %v (%s)", err, worker.Classify(err))
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := w.Deploy(t.Context(), d); err != nil { // after the refusal the worker is free
		t.Fatal(err)
	}
	if _, err := w.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(kinds) == 0 || kinds[len(kinds)-1] != job.EventCheckpoint {
		t.Errorf("events %v, expected a checkpoint", kinds)
	}
}

// What is no message ends the service with an error, and half a message at the end of input does too.
func TestGarbageOnTheWire(t *testing.T) {
	for _, text := range []string{"no json\n", `{"seq":1,"call":"sta`} {
		if err := worker.Serve(t.Context(), strings.NewReader(text), io.Discard, worker.Options{}); err == nil && strings.HasSuffix(text, "\n") {
			t.Errorf("%q was served", text)
		}
	}
	var out strings.Builder
	err := worker.Serve(t.Context(), strings.NewReader(`{"seq":7,"call":"dance"}`+"\n"), &out, worker.Options{})
	if err != nil || !strings.Contains(out.String(), `unknown call \"dance\"`) || !strings.Contains(out.String(), `"seq":7`) {
		t.Errorf("%v, answer %s", err, out.String())
	}
	var e *worker.Error
	if errors.As(err, &e) {
		t.Error("an answer's error ended the service")
	}
}
