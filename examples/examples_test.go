package examples

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/spec"
)

// run runs an example's pipeline file in a copy of its folder and returns that folder. edit changes the
// file's text.
func run(t *testing.T, example, file string, edit func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"out", "late", "repeated", "alerts", "cleared", "dead-letters"} {
		if err := os.RemoveAll(filepath.Join(dir, left)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		changed := edit(string(text))
		if changed == string(text) {
			t.Fatal("the edit changed nothing")
		}
		text = []byte(changed)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	cache := filepath.Join(os.TempDir(), "millrace-test-cache")
	mods, err := worker.NewModules(ctx, cache)
	if err != nil {
		t.Fatal(err)
	}
	defer mods.Close()
	g, err := spec.Load(path, spec.Options{Modules: mods})
	if err != nil {
		t.Fatal(err)
	}
	g.File = path
	w := worker.NewLocal(worker.Options{})
	defer w.Close()
	if err := w.Deploy(ctx, worker.Deploy{Graph: g, StateDir: filepath.Join(dir, ".state"), CacheDir: cache}); err != nil {
		t.Fatal(err)
	}
	res, err := w.Wait(ctx)
	if err != nil || !res.Complete {
		t.Fatalf("%+v, %v", res, err)
	}
	return dir
}

// lines are the published lines of a folder, sorted.
func lines(t *testing.T, folder string) []byte {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(folder, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Collect(strings.Lines(string(b)))...)
	}
	slices.Sort(all)
	return []byte(strings.Join(all, ""))
}

func golden(t *testing.T, folder, path string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines(t, folder); !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %s has %d; first difference: %s", folder, len(got), path, len(want), difference(got, want))
	}
}

func difference(a, b []byte) string {
	x, y := strings.Split(string(a), "\n"), strings.Split(string(b), "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d: got %q, want %q", i+1, x[i], y[i])
		}
	}
	return "one has more lines"
}

func parallel(p int) func(string) string {
	if p == 1 {
		return nil
	}
	return func(s string) string {
		return strings.Replace(s, "operators:", fmt.Sprintf("parallelism: %d\noperators:", p), 1)
	}
}

func TestExamplesGiveTheirGoldenOutput(t *testing.T) {
	for _, p := range []int{1, 2, 4} {
		t.Run(fmt.Sprint("parallelism ", p), func(t *testing.T) {
			dir := run(t, "wordcount", "pipeline.yaml", parallel(p))
			golden(t, filepath.Join(dir, "out"), "wordcount/golden.ndjson")
			dir = run(t, "dedup", "pipeline.yaml", parallel(p))
			golden(t, filepath.Join(dir, "out"), "dedup/golden.ndjson")
			golden(t, filepath.Join(dir, "repeated"), "dedup/golden-repeated.ndjson")
			dir = run(t, "fraud", "pipeline.yaml", parallel(p))
			golden(t, filepath.Join(dir, "alerts"), "fraud/golden.ndjson")
			golden(t, filepath.Join(dir, "cleared"), "fraud/golden-cleared.ndjson")
			if dead := lines(t, filepath.Join(dir, "dead-letters")); bytes.Count(dead, []byte("\n")) != 1 ||
				!bytes.Contains(dead, []byte(`"position":"data/payments.ndjson:`)) || !bytes.Contains(dead, []byte(`"amount":-5`)) {
				t.Errorf("dead letters: %s", dead)
			}
		})
	}
}

func TestFlightsInBothOrdersAndFormats(t *testing.T) {
	for _, file := range []string{"flights.parquet", "flights-by-report.parquet", "flights.ndjson", "flights-by-report.ndjson"} {
		for _, p := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s parallelism %d", file, p), func(t *testing.T) {
				dir := run(t, "flights", "pipeline.yaml", func(s string) string {
					if p != 1 {
						s = parallel(p)(s)
					}
					s = strings.Replace(s, "flights-by-report.parquet", file, 1)
					return strings.Replace(s, "format: parquet", "format: "+strings.TrimPrefix(filepath.Ext(file), ".")+" # of the sample", 1)
				})
				golden(t, filepath.Join(dir, "out"), "flights/golden/sample.ndjson")
				if late := lines(t, filepath.Join(dir, "late")); len(late) != 0 {
					t.Errorf("late: %s", late)
				}
			})
		}
	}
}

// The same pipelines with the guests that are written in Go.
func TestGoGuestsGiveTheSame(t *testing.T) {
	for _, c := range []struct{ example, out, golden string }{
		{"flights", "out", "flights/golden/sample.ndjson"}, {"fraud", "alerts", "fraud/golden.ndjson"},
		{"dedup", "out", "dedup/golden.ndjson"}, {"wordcount", "out", "wordcount/golden.ndjson"},
	} {
		t.Run(c.example, func(t *testing.T) {
			wasm := filepath.Join(t.TempDir(), c.example+"-go.wasm")
			build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", wasm, ".")
			build.Dir = filepath.Join(c.example, "go")
			build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			dir := run(t, c.example, "pipeline.yaml", func(s string) string {
				return parallel(2)(strings.ReplaceAll(s, c.example+".wasm", wasm))
			})
			golden(t, filepath.Join(dir, c.out), c.golden)
		})
	}
}

// The whole three million flights, where they are: MILLRACE_FLIGHTS names the folder.
func TestWholeFlights(t *testing.T) {
	folder := os.Getenv("MILLRACE_FLIGHTS")
	if folder == "" {
		t.Log("MILLRACE_FLIGHTS is not set: only the sample was run")
		return
	}
	want, err := os.ReadFile("flights/golden/full.sha256")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"flights-3m.parquet", "flights-by-report.parquet"} {
		abs, err := filepath.Abs(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		dir := run(t, "flights", "pipeline.yaml", func(s string) string {
			return parallel(2)(strings.Replace(s, "data/flights-by-report.parquet", abs, 1))
		})
		got := lines(t, filepath.Join(dir, "out"))
		sum := sha256.Sum256(got)
		if text := fmt.Sprintf("%s  %d lines", hex.EncodeToString(sum[:]), bytes.Count(got, []byte("\n"))); text != strings.TrimSpace(string(want)) {
			t.Errorf("%s: %s, want %s", file, text, want)
		}
	}
}
