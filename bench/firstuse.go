package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/result"
)

// What a new user waits for: the build, and the first result of the quickstart.

// Bounds, seconds.
const (
	quickstartFirst = 5
	quickstartWhole = 20
	coldBuild       = 90
)

func init() {
	Register("quickstart", measureQuickstart)
	Register("build.cold", measureColdBuild)
}

// moduleRoot is the repository's folder.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("run it from within the repository: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

func build(out string, env ...string) (*exec.Cmd, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "build", "-o", out, "./cmd/millrace")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	return cmd, nil
}

func measureQuickstart() (err error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bin := filepath.Join(dir, "millrace")
	cmd, err := build(bin)
	if err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return err
	}
	back := prioritise()
	defer back()
	var firsts, wholes []float64
	for i := range 3 {
		first, whole, err := quickstart(bin, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		firsts, wholes = append(firsts, first.Seconds()), append(wholes, whole.Seconds())
	}
	result.AtMost("quickstart.first_line", result.Median(firsts), "s", quickstartFirst)
	result.AtMost("quickstart.whole", result.Median(wholes), "s", quickstartWhole)
	return nil
}

// quickstart runs it in a folder and a home of its own, so that nothing is cached.
func quickstart(bin, dir string) (first, whole time.Duration, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, 0, err
	}
	cmd := exec.Command(bin, "quickstart")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return 0, 0, errors.Join(fmt.Errorf("quickstart's first line: %w", err), cmd.Wait())
	}
	first = time.Since(start)
	if _, err := io.Copy(io.Discard, lines); err != nil {
		return 0, 0, err
	}
	err = cmd.Wait()
	return first, time.Since(start), err
}

// measureColdBuild builds with an empty build cache and the modules at hand. On a machine that is busy
// with something else wall time says nothing: then the CPU time over two cores is judged, which a quiet
// machine can't beat but comes near to.
func measureColdBuild() (err error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	back := prioritise()
	defer back()
	cmd, err := build(filepath.Join(dir, "millrace"), "GOCACHE="+filepath.Join(dir, "cache"), "GOMAXPROCS=2", "GOFLAGS=-p=2")
	if err != nil {
		return err
	}
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	wall := time.Since(start).Seconds()
	cpu := result.ChildCPU(cmd.ProcessState).Seconds()
	result.Note("build.cold_cpu", cpu, "s")
	if wall > cpu && runtime.NumCPU() <= 2 {
		result.Note("build.cold_wall", wall, "s")
		result.AtMost("build.cold", cpu/2, "s_of_CPU_by_2_cores", coldBuild)
		return nil
	}
	result.AtMost("build.cold", wall, "s", coldBuild)
	return nil
}
