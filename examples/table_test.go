package examples

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// example is a pipeline over committed input with what it must publish: by folder of parts, the golden file.
type example struct {
	folder, file string
	half         int // about half of the records of its input
	want         map[string]string
}

var table = []example{
	{"wordcount", "pipeline.yaml", 4, map[string]string{"out": "wordcount/golden.ndjson"}},
	{"dedup", "pipeline.yaml", 180, map[string]string{"out": "dedup/golden.ndjson", "repeated": "dedup/golden-repeated.ndjson"}},
	{"fraud", "pipeline.yaml", 90, map[string]string{"alerts": "fraud/golden.ndjson", "cleared": "fraud/golden-cleared.ndjson"}},
	{"flights", "pipeline.yaml", 3000, map[string]string{"out": "flights/golden/sample.ndjson"}},
	{"busiest", "pipeline.yaml", 3000, map[string]string{"out": "busiest/golden/sample.ndjson"}},
	{"delays", "pipeline.yaml", 3000, map[string]string{"out": "delays/golden/sample.ndjson"}},
	{"words", "pipeline.yaml", 16, map[string]string{"out": "words/golden/windows.ndjson"}},
	{"shop", "pipeline.yaml", 500, map[string]string{"out": "shop/golden/visits.ndjson", "late": "shop/golden/late.ndjson"}},
	{"deadline", "pipeline.yaml", 400, map[string]string{"alerts": "deadline/golden/alerts.ndjson", "unmatched": "deadline/golden/unmatched.ndjson"}},
}

// project copies all examples, as some read the input of others, without what runs have left in them. It
// returns the folder of one.
func project(t *testing.T, folder string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"out", "out-socket", "late", "repeated", "alerts", "cleared", "unmatched", "dead-letters", ".millrace"} {
		if err := os.RemoveAll(filepath.Join(dir, folder, left)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, folder)
}

// settings puts lines before the operators of a pipeline file.
func settings(t *testing.T, path string, lines ...string) {
	t.Helper()
	replace(t, path, "\noperators:", "\n"+strings.Join(lines, "\n")+"\noperators:")
}

func replace(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), old, with, 1)
	if changed == string(text) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// modules compiles guests and tells what they offer.
type modules struct {
	t *testing.T
	*worker.Modules
	engine *engine.Engine
}

var cache = filepath.Join(os.TempDir(), "millrace-test-cache")

func newModules(t *testing.T) modules {
	t.Helper()
	ctx := context.Background()
	e, err := engine.New(ctx, engine.Options{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.NewModules(ctx, cache)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(w.Close(), e.Close(ctx)) })
	return modules{t, w, e}
}

func (m modules) compile(path string) (guestop.Module, error) {
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return m.engine.Compile(context.Background(), wasm, nil)
}

// start makes the job of a pipeline file. change may alter its options.
func (m modules) start(path string, change func(*job.Options)) *job.Job {
	m.t.Helper()
	g, err := spec.Load(path, spec.Options{Modules: m})
	if err != nil {
		m.t.Fatal(err)
	}
	dir := filepath.Dir(path)
	o := job.Options{Graph: g, StateDir: filepath.Join(dir, ".millrace", g.Name), Clock: clock.Wall{}, Restarts: -1,
		Module: func(_ context.Context, n *operators.Node) (guestop.Module, error) {
			return m.compile(filepath.Join(dir, n.Guest.Module))
		}}
	if change != nil {
		change(&o)
	}
	j, err := job.New(context.Background(), o)
	if err != nil {
		m.t.Fatal(err)
	}
	return j
}

// complete runs a pipeline file to its end.
func (m modules) complete(path string, change func(*job.Options)) job.Result {
	m.t.Helper()
	j := m.start(path, change)
	res, err := j.Run(context.Background())
	if err = errors.Join(err, j.Close()); err != nil || !res.Complete {
		m.t.Fatalf("%s: %+v, %v", path, res, err)
	}
	return res
}

// check compares everything that an example published with its golden files.
func (e example) check(t *testing.T, dir string) {
	t.Helper()
	for folder, want := range e.want {
		golden(t, filepath.Join(dir, folder), want)
	}
}
