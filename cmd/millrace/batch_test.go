package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// batchRunning starts a batch that takes a second and a half and waits until it has staged output.
func batchRunning(t *testing.T) (dir string, c *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	dir = project(t, strings.Replace(slowPipeline, "checkpoint: {interval: 50ms}", "mode: batch", 1))
	c = command(dir, "run", "p.yaml")
	stderr = &bytes.Buffer{}
	c.Stderr = stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	waitFor(t, "staged output", func() bool {
		files, err := filepath.Glob(filepath.Join(dir, ".millrace/slow/stage/out/*"))
		return err == nil && len(files) > 0
	})
	return dir, c, stderr
}

// kill -9 in the middle of a batch: nothing was published, and the next run gives everything once.
func TestKilledBatch(t *testing.T) {
	want := slowWant(t)
	dir, c, stderr := batchRunning(t)
	_ = c.Process.Kill()
	_ = c.Wait()
	if !strings.Contains(stderr.String(), "mode batch (the file says so): one checkpoint, at the end") {
		t.Errorf("%s", stderr)
	}
	if n := len(published(t, dir)); n != 0 {
		t.Fatalf("%d lines were published before the end", n)
	}
	r := do(t, dir, "run", "p.yaml")
	r.want(t, 0, "complete: 6,000 records read in this run, checkpoint 1")
	if strings.Contains(r.err, "going on") {
		t.Errorf("there was nothing to go on from: %s", r.err)
	}
	expect(t, dir, want)
}

// Ctrl-C makes a checkpoint in a batch too.
func TestStoppedBatch(t *testing.T) {
	want := slowWant(t)
	dir, c, _ := batchRunning(t)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 130 {
		t.Fatalf("exit %d", code)
	}
	do(t, dir, "run", "p.yaml").want(t, 0, "going on from checkpoint 1", "complete: ")
	expect(t, dir, want)
}

func TestModeIsSaidAndChecked(t *testing.T) {
	dir := project(t, countPipeline)
	do(t, dir, "explain", "p.yaml").want(t, 0, "mode batch (all input ends): a checkpoint each 50ms, batches of up to 1024")
	write(t, dir, "p.yaml", strings.Replace(countPipeline, "format: lines", "format: lines\n    follow: true", 1))
	do(t, dir, "explain", "p.yaml").want(t, 0, `mode stream (source "lines" is followed)`)
	write(t, dir, "p.yaml", "mode: batch\n"+strings.Replace(countPipeline, "format: lines", "format: lines\n    follow: true", 1))
	do(t, dir, "lint", "p.yaml").want(t, 2, "p.yaml:5", "mode: batch (line 1) is for input that ends", `source "lines" is followed`)
	write(t, dir, "p.yaml", "mode: batch\n"+strings.Replace(countPipeline, "checkpoint: {interval: 50ms}\n", "", 1))
	do(t, dir, "explain", "p.yaml").want(t, 0, "one checkpoint, at the end", "a run that is killed has published nothing and starts at the beginning")
}
