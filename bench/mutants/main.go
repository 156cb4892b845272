// Command mutants breaks the engine on purpose and expects the crash run to notice: each mutant is an
// edit of a copy of the tree, built and killed at the crash points where its fault shows.
//
//	go run ./bench/mutants             all
//	go run ./bench/mutants tombstones  those whose name contains a word
//	go run ./bench/mutants -apply      only try that every edit still fits and builds
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/bench/result"
)

func main() {
	applyOnly := flag.Bool("apply", false, "apply and build every mutant, run none")
	seed := flag.Uint64("seed", 1, "seed of the crash runs")
	flag.Parse()
	if err := run(flag.Args(), *applyOnly, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	result.Exit()
}

func run(filters []string, applyOnly bool, seed uint64) error {
	root, err := os.MkdirTemp("", "millrace-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	judge := filepath.Join(root, "crash")
	if out, err := exec.Command("go", "build", "-o", judge, "./bench/crash").CombinedOutput(); err != nil {
		return fmt.Errorf("build the crash run: %w\n%s", err, out)
	}
	tried, caught := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if !selected(m.name, filters) {
			continue
		}
		tried++
		ok, err := try(m, judge, filepath.Join(root, m.name), applyOnly, seed)
		if err != nil {
			return err
		}
		if ok {
			caught++
		}
		if !applyOnly {
			result.Report("mutants."+m.name, b2f(ok), "caught", "=1", ok)
		}
	}
	if tried == 0 {
		return fmt.Errorf("no mutant's name contains any of %q", filters)
	}
	if applyOnly {
		result.Note("mutants.applied", float64(tried), "mutants")
		return nil
	}
	if len(filters) == 0 {
		result.AtLeast("mutants.caught", float64(caught), "mutants", float64(max(tried, 6)))
	}
	return nil
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func selected(name string, filters []string) bool {
	for _, f := range filters {
		if strings.Contains(name, f) {
			return true
		}
	}
	return len(filters) == 0
}

// try builds a mutant and says whether the crash run found its output or its restarts wrong. Points that
// were not met do not count: the fault itself must show.
func try(m *mutant, judge, dir string, applyOnly bool, seed uint64) (bool, error) {
	if err := m.check(); err != nil {
		return false, err
	}
	if err := copyTree(".", dir); err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if err := m.apply(dir); err != nil {
		return false, err
	}
	if m.test != "" && !applyOnly {
		return m.tested(dir)
	}
	bin := filepath.Join(dir, "millrace-mutant")
	build := exec.Command("go", "build", "-trimpath", "-tags", "crash", "-o", bin, "./cmd/millrace") // trimmed: the cache has all but the mutant
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("mutant %s does not build: %w\n%s", m.name, err, out)
	}
	if applyOnly {
		return true, nil
	}
	return m.judged(judge, bin, filepath.Join(dir, "trials"), seed)
}

// tested says whether the named test fails with the mutant. A package that does not build is an error.
func (m *mutant) tested(dir string) (bool, error) {
	f := strings.Fields(m.test)
	cmd := exec.Command("go", "test", "-count=1", "-run", "^"+f[1]+"$", f[0])
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(os.Stderr, "%s (%s):\n%s\n", m.name, m.breaks, lastLines(string(out), 18))
	if err == nil && strings.Contains(string(out), "no tests to run") || err != nil && !strings.Contains(string(out), "--- FAIL: "+f[1]) {
		return false, fmt.Errorf("mutant %s: the test %s could not judge it: %w", m.name, m.test, err)
	}
	return err != nil, nil
}

func (m *mutant) judged(judge, bin, scratch string, seed uint64) (bool, error) {
	kills := m.kills
	if kills == 0 {
		kills = defaultKills
	}
	form := m.form
	if form == "" {
		form = defaultForm
	}
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return false, err
	}
	cmd := exec.Command(judge, "-binary", bin, "-scratch", scratch, "-variant", form, "-only", strings.Join(m.points, ","),
		"-points", fmt.Sprint(kills), "-random", fmt.Sprint(kills), "-seed", fmt.Sprint(seed), "-memory", m.memory)
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(os.Stderr, "%s (%s):\n%s\n", m.name, m.breaks, lastLines(string(out), 18))
	switch {
	case !m.again && strings.Contains(string(out), "without a kill went wrong"):
		fmt.Fprintf(os.Stderr, "%s: a run nobody kills goes wrong: that is no proof that kills show it\n", m.name)
		return false, nil
	case strings.Contains(string(out), "VERDICT wrong"):
		return true, nil
	case strings.Contains(string(out), "VERDICT right"):
		return false, nil
	}
	return false, fmt.Errorf("mutant %s: the crash run could not judge it: %w", m.name, err)
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
