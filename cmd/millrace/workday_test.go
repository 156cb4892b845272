package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var rewriteWorkday = flag.Bool("rewrite-workday", false, "write the golden files of examples/workday anew")

// In the reports differ: how many checkpoints came before the snapshot, and what a compiler made of the same modules.
var (
	snapshotNumber = regexp.MustCompile(`snapshot \d+`)
	moduleDigest   = regexp.MustCompile(`\b[0-9a-f]{12}\b`)
)

// The commands of examples/workday, as a shell runs them: what they report is in its golden files.
func TestWorkdayExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, example := range []string{"backfill", "workday"} {
		if err := os.CopyFS(filepath.Join(dir, example), os.DirFS("../../examples/"+example)); err != nil {
			t.Fatal(err)
		}
	}
	day := filepath.Join(dir, "workday")
	for _, left := range []string{"out", ".millrace", "data.ndjson", "slice.snap", "ci.txt", "comment.md"} {
		if err := os.RemoveAll(filepath.Join(day, left)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-eu", "-c", blocks(t, filepath.Join(day, "README.md"), "sh")[0])
	c.Dir = day
	c.Env = append(os.Environ(), "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) } // with what it left running
	var out, errs strings.Builder
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
	}
	for _, name := range []string{"ci.txt", "comment.md"} {
		got, err := os.ReadFile(filepath.Join(day, name))
		if err != nil {
			t.Fatal(err)
		}
		report := moduleDigest.ReplaceAllString(snapshotNumber.ReplaceAllString(string(got), "snapshot 1"), "0123456789ab")
		golden := filepath.Join("../../examples/workday/golden", name)
		if *rewriteWorkday {
			write(t, filepath.Dir(golden), name, report)
		}
		if want, err := os.ReadFile(golden); err != nil || report != string(want) {
			t.Errorf("%s is another report than golden/%s: %v\n%s", name, name, err, report)
		}
	}
	for _, says := range []string{"100 records", "has slots 0-32767", "has ended", "<- this one", "withdrawn       out: ", "runs from checkpoint", "in force at the barrier of checkpoint"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is missing in\n%s", says, out.String())
		}
	}
}
