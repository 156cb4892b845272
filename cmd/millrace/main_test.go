package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// binary is the command under test, built once: signals, locks and kills need real processes.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "millrace-cmd")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "millrace")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// ran is how a command ended.
type ran struct {
	code     int
	out, err string
}

func command(dir string, args ...string) *exec.Cmd {
	c := exec.Command(binary, args...)
	c.Dir = dir
	return c
}

func finish(t *testing.T, c *exec.Cmd) ran {
	t.Helper()
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ran{c.ProcessState.ExitCode(), out.String(), errs.String()}
}

func do(t *testing.T, dir string, args ...string) ran {
	t.Helper()
	return finish(t, command(dir, args...))
}

// want checks a command's exit code and that its stderr (or stdout) has all the texts.
func (r ran) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit %d, want %d\nstdout: %s\nstderr: %s", r.code, code, r.out, r.err)
	}
	for _, s := range texts {
		if !strings.Contains(r.err+r.out, s) {
			t.Errorf("%q is missing\nstdout: %s\nstderr: %s", s, r.out, r.err)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// project makes a folder with the word count's module and a pipeline over in.txt.
func project(t *testing.T, pipeline string) string {
	t.Helper()
	dir := t.TempDir()
	wasm, err := os.ReadFile("../../examples/wordcount/wordcount.wasm")
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "wordcount.wasm", string(wasm))
	write(t, dir, "p.yaml", pipeline)
	return dir
}

const countPipeline = `name: words
checkpoint: {interval: 50ms}
operators:
  - id: lines
    source: file
    path: in.txt
    format: lines
  - id: by-word
    key_by: {whole: true}
  - id: count
    process: {module: wordcount.wasm, function: count}
  - id: out
    sink: file
    path: out/
`

// numbered makes n lines over k words, and what counting them gives.
func numbered(n, k int) (text string, want []string) {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "word%d\n", i%k)
		want = append(want, fmt.Sprintf(`{"word":"word%d","count":%d}`, i%k, i/k+1))
	}
	slices.Sort(want)
	return b.String(), want
}

func published(t *testing.T, dir string) []string {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(dir, "out", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range parts {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Fields(string(b))...)
	}
	slices.Sort(all)
	return all
}

func expect(t *testing.T, dir string, want []string) {
	t.Helper()
	if got := published(t, dir); !slices.Equal(got, want) {
		t.Fatalf("%d lines published, want %d", len(got), len(want))
	}
}

// slow makes the source's lines come at the pace of a generator, so that there is time to interfere.
const slowPipeline = `name: slow
checkpoint: {interval: 50ms}
operators:
  - id: made
    source: generator
    kind: sequence
    records: 6000
    rate: 4000
    keys: 10
  - id: count
    process: {module: wordcount.wasm, function: count}
  - id: out
    sink: file
    path: out/
`

// slowWant is what counting the sequence's keys gives.
func slowWant(t *testing.T) []string {
	t.Helper()
	dir := project(t, strings.Replace(slowPipeline, "    rate: 4000\n", "", 1))
	do(t, dir, "run", "p.yaml").want(t, 0, "complete: 6,000 records read in this run")
	want := published(t, dir)
	if len(want) != 6000 {
		t.Fatalf("%d lines", len(want))
	}
	return want
}

// waitFor waits until ok says so.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited 20 s for " + what)
		}
	}
}

// background starts a run and waits until something is published.
func background(t *testing.T, dir string) (c *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	c = command(dir, "run", "p.yaml")
	stderr = &bytes.Buffer{}
	c.Stderr = stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	waitFor(t, "output", func() bool { return len(published(t, dir)) > 0 })
	return c, stderr
}

func envelopeOf(t *testing.T, out string) (e struct {
	OK    bool
	Data  json.RawMessage
	Error *problem
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return e
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}
