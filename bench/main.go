// Command bench measures what Millrace reaches and compares it with what it must reach. Each figure is
// one line, RESULT <name> <value> <unit> <bound> PASS|FAIL; the exit status is 1 if one failed.
//
//	go run ./bench            all figures
//	go run ./bench native     figures whose name contains "native"
//	go run ./bench -list      names only
//
// A topic adds its figures in a file of its own: func init() { Register("topic.figure", measure) }.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"sort"
	"strings"

	"github.com/millrace-io/millrace/bench/result"
)

// figure is one measurement; run reports through the package result and returns an error if it could
// not measure at all.
type figure struct {
	name string
	run  func() error
}

var figures []figure

// Register adds a measurement. Call it from init; names are topic.figure and distinct.
func Register(name string, run func() error) {
	for _, f := range figures {
		if f.name == name {
			panic("bench: two figures named " + name)
		}
	}
	figures = append(figures, figure{name, run})
}

func main() {
	list := flag.Bool("list", false, "print the names of the figures and stop")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this `file`")
	flag.Parse()
	tuneGC()
	sort.Slice(figures, func(i, j int) bool { return figures[i].name < figures[j].name })
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(2)
		}
	}
	ran := runFigures(flag.Args(), *list)
	pprof.StopCPUProfile()
	if ran == 0 {
		fmt.Fprintf(os.Stderr, "bench: no figure's name contains any of %q, see -list\n", flag.Args())
		os.Exit(2)
	}
	result.Exit()
}

// tuneGC sets the collector as `millrace run` does: what is large lies outside the Go heap.
func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(-1)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(256 << 20)
	}
}

func runFigures(filters []string, list bool) (ran int) {
	for _, f := range figures {
		if !matches(f.name, filters) {
			continue
		}
		ran++
		if list {
			fmt.Println(f.name)
			continue
		}
		if err := f.run(); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", f.name, err)
			result.Report(f.name, 0, "-", "measured", false)
		}
	}
	return ran
}

func matches(name string, filters []string) bool {
	for _, f := range filters {
		if strings.Contains(name, f) {
			return true
		}
	}
	return len(filters) == 0
}
