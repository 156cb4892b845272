// Command testrun runs go test and closes with a summary: packages, tests, and every skip with its
// reason. With CI=true a skip is a failure: what CI does not run is not proved.
//
//	go run ./bench/testrun [flags of go test] packages
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

// summary gathers events.
type summary struct {
	output   map[string][]string // lines of a running test or package
	failed   []string
	skipped  []string
	slow     []string
	packages int
	passed   int
	broken   int // packages that failed
	empty    int // packages without tests
}

func main() {
	start := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(2)
	}
	s := &summary{output: map[string][]string{}}
	in := bufio.NewScanner(pipe)
	in.Buffer(make([]byte, 1<<20), 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // not of go test: show it
			continue
		}
		s.take(&e)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	ci := os.Getenv("CI") == "true"
	s.print(time.Since(start), ci)
	if err != nil || s.broken > 0 || len(s.failed) > 0 || ci && len(s.skipped) > 0 {
		os.Exit(1)
	}
}

func (s *summary) take(e *event) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		s.output[name] = append(s.output[name], e.Output)
		if e.Test == "" && closing(e.Output) {
			fmt.Print(e.Output)
		}
	case "build-output":
		fmt.Print(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e, name)
		} else {
			s.endTest(e, name)
		}
		delete(s.output, name)
	}
}

// closing says whether a package's output line is the one that go test ends it with.
func closing(line string) bool {
	for _, p := range []string{"ok  \t", "FAIL\t", "---", "?   \t", "panic:"} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

func (s *summary) endPackage(e *event, name string) {
	s.packages++
	switch e.Action {
	case "skip":
		s.empty++
	case "fail":
		s.broken++
		for _, l := range s.output[name] {
			if !closing(l) {
				fmt.Print(l)
			}
		}
	}
}

func (s *summary) endTest(e *event, name string) {
	switch e.Action {
	case "pass":
		s.passed++
	case "fail":
		s.failed = append(s.failed, name)
		for _, l := range s.output[name] {
			fmt.Print(l)
		}
	case "skip":
		s.skipped = append(s.skipped, name+": "+reason(s.output[name]))
	}
	if e.Elapsed >= 5 && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, fmt.Sprintf("%6.1f s %s", e.Elapsed, name))
	}
}

// reason is the last line a skipped test printed, without its place.
func reason(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimSpace(lines[i])
		if l == "" || strings.HasPrefix(l, "---") || strings.HasPrefix(l, "===") {
			continue
		}
		if _, rest, ok := strings.Cut(l, ".go:"); ok {
			if _, rest, ok = strings.Cut(rest, ": "); ok {
				return rest
			}
		}
		return l
	}
	return "no reason given"
}

func (s *summary) print(took time.Duration, ci bool) {
	sort.Sort(sort.Reverse(sort.StringSlice(s.slow)))
	for _, l := range s.slow[:min(len(s.slow), 10)] {
		fmt.Println("slow:", l)
	}
	for _, l := range s.skipped {
		fmt.Println("skipped:", l)
	}
	for _, l := range s.failed {
		fmt.Println("failed:", l)
	}
	fmt.Printf("SUMMARY packages %d (failed %d, without tests %d), tests passed %d, failed %d, skipped %d, %s\n",
		s.packages, s.broken, s.empty, s.passed, len(s.failed), len(s.skipped), took.Round(time.Second))
	if ci && len(s.skipped) > 0 {
		fmt.Println("CI=true allows no skip")
	}
}
