package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// crashing is the command with crash points, built when first needed.
var crashing = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "millrace-crash")
	out, err := exec.Command("go", "build", "-tags", "crash", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build -tags crash: %w: %s", err, out)
	}
	return path, nil
})

// killed runs a command that kills itself at the nth hit of a point, and says whether it came there.
func killed(t *testing.T, dir, at string, args ...string) (ran, bool) {
	t.Helper()
	path, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "MILLRACE_CRASH="+at+":kill")
	r := finish(t, c)
	ws, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	return r, ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

// verbPoints are the crash points that verbs meet when they write to a store: a file written, synced, renamed;
// the manifest ready, in place; the registry half written; a manifest deleted, its objects not.
var verbPoints = []string{"K7", "K8", "K9", "K11", "K12", "K23", "K24"}

// A verb that is killed anywhere in its work has done nothing or all of it: everything that is listed is
// whole, the verb can be said again, and the pipeline gives what it would have given.
func TestKillInTheMiddleOfAVerb(t *testing.T) {
	want := slowWant(t)
	dir := stopped(t, slowPipeline)
	do(t, dir, "snapshot", "create", "p.yaml", "--tag", "old").want(t, 0)
	do(t, dir, "snapshot", "create", "p.yaml").want(t, 0)
	do(t, dir, "snapshot", "export", "p.yaml", "old", "old.snap").want(t, 0)
	write(t, dir, "q.yaml", strings.Replace(strings.Replace(slowPipeline, "name: slow", "name: second", 1), "path: out/", "path: forked/", 1))
	verbs := map[string][]string{
		"create":         {"snapshot", "create", "p.yaml"},
		"tag":            {"snapshot", "tag", "p.yaml", "old", "new", "--move"},
		"import":         {"snapshot", "import", "fresh", "old.snap"},
		"import beside":  {"snapshot", "import", "p.yaml", "old.snap", "--renumber"},
		"fork":           {"snapshot", "fork", "p.yaml", "old", "--to", "q.yaml"},
		"prune":          {"snapshot", "prune", "p.yaml", "--keep", "1", "--keep-savepoints", "1"},
		"delete":         {"snapshot", "delete", "p.yaml"}, // and the id of the oldest
		"restore, twice": {"snapshot", "restore", "p.yaml", "old"},
	}
	hits := 0
	for name, args := range verbs {
		for _, point := range verbPoints {
			for nth := 1; nth <= 2; nth++ {
				at := fmt.Sprintf("%s:%d", point, nth)
				here := t.TempDir()
				if err := os.CopyFS(here, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
				args := args
				if name == "delete" {
					args = append(append([]string(nil), args...), oldest(t, here))
				}
				if _, hit := killed(t, here, at, args...); !hit {
					break // it does not get there so often
				}
				hits++
				afterKill(t, here, name+" at "+at, args)
			}
		}
	}
	if hits < 20 {
		t.Errorf("%d kills, expected more", hits)
	}
	t.Logf("%d kills", hits)
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	expect(t, dir, want)
}

func oldest(t *testing.T, dir string) string {
	t.Helper()
	var rows []snapshotRow
	if err := json.Unmarshal(envelopeOf(t, do(t, dir, "snapshot", "list", "p.yaml", "--json").out).Data, &rows); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(rows[0].ID)
}

// afterKill checks what a killed verb left, says it again and looks whether the pipeline still starts.
func afterKill(t *testing.T, dir, what string, args []string) {
	t.Helper()
	r := do(t, dir, "snapshot", "verify", "p.yaml")
	if r.code != 0 {
		t.Errorf("%s: exit %d: %s", what, r.code, r.err)
	}
	// A snapshot that is gone already is what delete was to do.
	if r := do(t, dir, args...); r.code != 0 && !strings.Contains(r.err, "there is no snapshot") && !strings.Contains(r.err, "snapshots already") {
		t.Errorf("%s, again: exit %d: %s", what, r.code, r.err)
	}
	for _, ref := range []string{"latest", "old"} {
		do(t, dir, "snapshot", "show", "p.yaml", ref).want(t, 0)
	}
	if r := do(t, dir, "snapshot", "verify", "p.yaml"); r.code != 0 {
		t.Errorf("%s, after the second: exit %d: %s", what, r.code, r.err)
	}
}

// The running pipeline is killed while it makes a savepoint, at each place where it writes: whoever asked hears
// of it, and the next run goes on to the same output.
func TestKillInTheMiddleOfASavepoint(t *testing.T) {
	want := slowWant(t)
	path, err := crashing()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"K11:2", "K12:2", "K23:1", "K23:2", "K8:9", "K9:12"} {
		t.Run(at, func(t *testing.T) {
			dir := project(t, strings.Replace(slowPipeline, "interval: 50ms", "interval: 400ms", 1))
			c := exec.Command(path, "run", "p.yaml")
			c.Dir = dir
			c.Env = append(os.Environ(), "MILLRACE_CRASH="+at+":kill")
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
			waitFor(t, "an answer", func() bool { return do(t, dir, "status", "p.yaml").code == 0 })
			var last ran
			for i := range 20 {
				if last = do(t, dir, "snapshot", "create", "p.yaml", "--tag", fmt.Sprint("t", i)); last.code != 0 {
					break
				}
			}
			last.want(t, 1, "ended before it answered")
			_ = c.Wait()
			do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0)
			do(t, dir, "run", "p.yaml").want(t, 0, "complete")
			expect(t, dir, want)
			do(t, dir, "snapshot", "create", "p.yaml", "--tag", "after").want(t, 0)
		})
	}
}

// An export that is killed leaves no file under its name, or a whole one.
func TestKillInTheMiddleOfAnExport(t *testing.T) {
	dir := stopped(t, slowPipeline)
	whole := 0
	for i := range 12 {
		name := fmt.Sprintf("x%d.snap", i)
		c := command(dir, "snapshot", "export", "p.yaml", "latest", name)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(3*i) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		_, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			do(t, dir, "snapshot", "export", "p.yaml", "latest", name).want(t, 0)
		} else {
			whole++
		}
		do(t, dir, "snapshot", "import", fmt.Sprint("into", i), name).want(t, 0)
		do(t, dir, "snapshot", "verify", fmt.Sprint("into", i)).want(t, 0)
	}
	t.Logf("%d of 12 were whole", whole)
}

// A disk without space: the verb says so, and nothing is harmed.
func TestVerbsOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a small disk")
	}
	dir := stopped(t, slowPipeline)
	small := filepath.Join(dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("no disk can be mounted here:", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
	do(t, dir, "snapshot", "export", "p.yaml", "latest", "whole.snap").want(t, 0)
	fill := filepath.Join(small, "fill")
	if err := os.WriteFile(fill, make([]byte, 48<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	do(t, dir, "snapshot", "export", "p.yaml", "latest", "small/x.snap").want(t, 1, "no space")
	do(t, dir, "snapshot", "import", "small/state", "whole.snap").want(t, 1, "no space")
	do(t, dir, "snapshot", "fork", "p.yaml", "latest", "--to", "small/fork", "--name", "slow").want(t, 1, "no space")
	if _, err := os.Lstat(filepath.Join(small, "x.snap")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half an export: %v", err)
	}
	do(t, dir, "snapshot", "verify", "p.yaml").want(t, 0)
	do(t, dir, "run", "p.yaml").want(t, 0, "complete")
	expect(t, dir, slowWant(t))
}
