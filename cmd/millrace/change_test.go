package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stopped runs the slow pipeline for a while and stops it with a checkpoint.
func stopped(t *testing.T, pipeline string) string {
	t.Helper()
	dir := project(t, pipeline)
	c, _ := background(t, dir)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	return dir
}

func change(t *testing.T, dir, from, to string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "p.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), from) {
		t.Fatalf("no %q in the pipeline", from)
	}
	write(t, dir, "p.yaml", strings.Replace(string(b), from, to, 1))
}

const keyedPipeline = `name: keyed
checkpoint: {interval: 50ms}
operators:
  - {id: made, source: generator, kind: payments, format: ndjson, records: 20000, rate: 4000}
  - {id: by, key_by: card}
  - id: count
    process: {module: wordcount.wasm, function: count}
  - {id: out, sink: file, path: out/}
`

func TestPipelineChangedBetweenRuns(t *testing.T) {
	t.Run("operator with state renamed", func(t *testing.T) {
		dir := stopped(t, slowPipeline)
		change(t, dir, "id: count", "id: tally")
		do(t, dir, "run", "p.yaml").want(t, 2, "state of operators that are not in the pipeline", "count (", "--drop")
		do(t, dir, "run", "p.yaml", "--drop", "cuont").want(t, 2, "--drop cuont", "nothing of that name")
		do(t, dir, "run", "p.yaml", "--drop", "count").want(t, 0, "operator count is gone")
	})
	t.Run("source renamed", func(t *testing.T) {
		dir := stopped(t, slowPipeline)
		change(t, dir, "id: made", "id: source")
		do(t, dir, "run", "p.yaml").want(t, 2, "made (")
		do(t, dir, "run", "p.yaml", "--drop", "made").want(t, 0, "source source is new: it starts at its beginning")
	})
	t.Run("key changed", func(t *testing.T) {
		dir := stopped(t, keyedPipeline)
		change(t, dir, "key_by: card", "key_by: merchant")
		do(t, dir, "run", "p.yaml").want(t, 2, "operator count has state by key card, its records now come by key merchant")
	})
	t.Run("parallelism", func(t *testing.T) {
		dir := stopped(t, slowPipeline)
		change(t, dir, "operators:", "parallelism: 3\noperators:")
		do(t, dir, "run", "p.yaml").want(t, 0, "complete")
		expect(t, dir, slowWant(t))
	})
}

// A byte that changed in a state file, or in the copy of the pipeline file.
func TestDamagedState(t *testing.T) {
	dir := stopped(t, slowPipeline)
	objects, err := filepath.Glob(filepath.Join(dir, ".millrace", "slow", "snapshots", "objects", "*", "*"))
	if err != nil || len(objects) < 3 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	whole := map[string][]byte{}
	for _, o := range objects {
		if whole[o], err = os.ReadFile(o); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "p.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, o := range objects {
		b := append([]byte(nil), whole[o]...)
		b[len(b)/2] ^= 1
		if err := os.WriteFile(o, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if string(whole[o]) == string(text) {
			continue // the copy of the pipeline file: the next run writes it anew
		}
		if r := do(t, dir, "run", "p.yaml"); r.code == 2 && strings.Contains(r.err, filepath.Base(o)) {
			named++
		} else if r.code != 0 || !strings.Contains(r.err, "complete") {
			t.Errorf("exit %d, %s", r.code, r.err)
		} else {
			return // this object belonged to older checkpoints only, and the run went through
		}
		if err := os.WriteFile(o, whole[o], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if named == 0 {
		t.Error("no damage was named")
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	expect(t, dir, slowWant(t))
}

// Two sinks, or two pipelines, at one place would lose lines.
func TestOnePlaceForTwoSinks(t *testing.T) {
	for _, second := range []string{"out", "./out/", "../DIR/out/", "out/part-0000-00000000.ndjson"} {
		dir := project(t, countPipeline)
		second = strings.Replace(second, "DIR", filepath.Base(dir), 1)
		if second == "out" {
			second = dir + "/out/"
		}
		change(t, dir, "    path: out/\n", "    path: out/\n  - id: more\n    sink: file\n    path: "+second+"\n    from: count\n")
		do(t, dir, "lint", "p.yaml").want(t, 2, "p.yaml:")
	}
	dir := project(t, slowPipeline)
	c, _ := background(t, dir)
	b, err := os.ReadFile(filepath.Join(dir, "p.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "q.yaml", strings.Replace(string(b), "name: slow", "name: other", 1))
	do(t, dir, "run", "q.yaml").want(t, 2, "not this job's")
	if err := c.Wait(); err != nil {
		t.Errorf("the first: %v", err)
	}
	expect(t, dir, slowWant(t))
}

func TestStdoutThatTakesNoMoreEndsTheRun(t *testing.T) {
	dir := project(t, strings.Replace(countPipeline, "    sink: file\n    path: out/\n", "    sink: stdout\n", 1))
	text, _ := numbered(3000, 7)
	write(t, dir, "in.txt", text)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	c := command(dir, "run", "p.yaml")
	var errs strings.Builder
	c.Stdout, c.Stderr = full, &errs
	_ = c.Run()
	if c.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "standard output takes no more") || strings.Contains(errs.String(), "starting again") {
		t.Errorf("exit %d: %s", c.ProcessState.ExitCode(), errs.String())
	}
}
