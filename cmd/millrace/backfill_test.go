package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The commands of examples/backfill, as a shell runs them: the present is put right by deploying, the past by
// a fork, and both jobs publish what a calculation apart from Millrace says.
func TestBackfillExample(t *testing.T) {
	t.Parallel()
	dir, bin := t.TempDir(), t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/backfill")); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"out", "repaired", ".millrace", "picture.html", "data/payments.ndjson"} {
		if err := os.RemoveAll(filepath.Join(dir, left)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bin, "chart"), "../../examples/backfill/chart").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := blocks(t, filepath.Join(dir, "README.md"), "sh")[0]
	if strings.Count(script, "go run ./chart") != 1 {
		t.Fatal("the README draws no chart")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-eu", "-c", strings.Replace(script, "go run ./chart", "chart", 1))
	c.Dir = dir
	c.Env = append(os.Environ(), "PATH="+bin+":"+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // with what it left running
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	drawn := out.String()[strings.Index(out.String(), "before\n"):]
	if text, err := os.ReadFile(filepath.Join(dir, "README.md")); err != nil || !strings.Contains(string(text), drawn) {
		t.Errorf("the README shows another picture than\n%s", drawn)
	}
	for folder, golden := range map[string]string{"out": "before", "repaired": "after"} {
		want, err := os.ReadFile(filepath.Join(dir, "golden", golden+".ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		if got := linesIn(t, filepath.Join(dir, folder)); !slices.Equal(got, strings.Fields(string(want))) {
			t.Errorf("%s: %d lines, expected those of golden/%s.ndjson", folder, len(got), golden)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "picture.html"))
	if err != nil || strings.Count(string(page), "<svg") != 2 || strings.Count(string(page), `class="none"`) != 7 || strings.Contains(string(page), "http") {
		t.Errorf("picture.html: %d bytes, %v", len(page), err)
	}
}

// linesIn are the published lines of a folder, sorted.
func linesIn(t *testing.T, folder string) (all []string) {
	t.Helper()
	parts, err := filepath.Glob(filepath.Join(folder, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
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
