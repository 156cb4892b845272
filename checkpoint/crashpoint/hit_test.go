package crashpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// child is a program that hits K7 five times and says after each that it is alive. What it hits before, muted, is not
// counted.
const child = `package main

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
)

func main() {
	unmute := crashpoint.Mute()
	for range 5 {
		crashpoint.Hit(crashpoint.AfterWrite)
	}
	unmute()
	for i := 1; i <= 5; i++ {
		crashpoint.Hit(crashpoint.AfterWrite)
		fmt.Println("after", i)
	}
}
`

func buildChild(t *testing.T, tags string) string {
	t.Helper()
	dir := t.TempDir()
	src := filepath.Join(dir, "main.go")
	if err := os.WriteFile(src, []byte(child), 0o644); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "child")
	cmd := exec.Command("go", "build", "-tags", tags, "-o", bin, src)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build -tags %q: %v\n%s", tags, err, out)
	}
	return bin
}

func run(t *testing.T, bin string, env ...string) (string, *os.ProcessState) {
	t.Helper()
	cmd := exec.Command(bin)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState
}

func TestKillStopsTheProcessAtTheNthHit(t *testing.T) {
	bin := buildChild(t, "crash")
	trace := filepath.Join(t.TempDir(), "trace")
	out, ps := run(t, bin, "MILLRACE_CRASH=K7:3:kill", "MILLRACE_CRASH_TRACE="+trace)
	ws := ps.Sys().(syscall.WaitStatus)
	if !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("process ended with %v, expected SIGKILL", ps)
	}
	if strings.Count(out, "after") != 2 {
		t.Errorf("printed %q, expected the two hits before the third", out)
	}
	if b, err := os.ReadFile(trace); err != nil || string(b) != "K7 1\nK7 2\n" {
		t.Errorf("trace is %q, %v", b, err)
	}
	if out, ps := run(t, bin, "MILLRACE_CRASH=K7:6:kill"); !ps.Success() || strings.Count(out, "after") != 5 {
		t.Errorf("a hit that never comes changed the run: %v %q", ps, out)
	}
	if _, ps := run(t, bin, "MILLRACE_CRASH=K7:nonsense"); ps.ExitCode() != 2 {
		t.Errorf("malformed plan: %v, expected status 2", ps)
	}
}

func TestNormalBuildIgnoresThePlan(t *testing.T) {
	out, ps := run(t, buildChild(t, ""), "MILLRACE_CRASH=K7:1:kill")
	if !ps.Success() || strings.Count(out, "after") != 5 {
		t.Errorf("a build without the tag reacted: %v %q", ps, out)
	}
}
