// Command crash proves recovery: it builds millrace with crash points, runs a pipeline as a real process,
// kills it with SIGKILL at every crash point and at random times, restarts it until it has finished,
// and holds what was committed against what went in.
//
//	go run ./bench/crash                     20 kills at each point and 200 at random
//	CRASH_KILLS=2 go run ./bench/crash       2 at each point and 20 at random
//	go run ./bench/crash -seed 7 -only K12   one point, with the seed a failed run printed
//
// It prints one RESULT line per figure and exits with status 1 if one failed.
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/bench/crash/drive"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
)

//go:embed pipeline.yaml
var pipelineTemplate string

// options are the flags of one run.
type options struct {
	seed        uint64
	only        string
	random      int
	points      int
	records     int
	parallelism int
	binary      string
	scratch     string
	keep        bool
}

func main() {
	o := options{}
	kills := fromEnv("CRASH_KILLS", 20)
	flag.Uint64Var(&o.seed, "seed", 1, "seed of inputs and of where kills fall")
	flag.StringVar(&o.only, "only", "", "points to kill at, separated by commas; \"random\" for random kills")
	flag.IntVar(&o.points, "points", kills, "kills at each crash point")
	flag.IntVar(&o.random, "random", 10*kills, "kills at random times")
	flag.IntVar(&o.records, "records", 200_000, "input records of one trial")
	flag.IntVar(&o.parallelism, "parallelism", 2, "parallelism of the pipeline")
	flag.StringVar(&o.binary, "binary", "", "millrace built with the tag crash; empty: build it")
	flag.StringVar(&o.scratch, "scratch", "", "folder for trials; empty: a temporary one, in memory where possible")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders of trials that went right")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "crash:", err)
		os.Exit(2)
	}
	result.Exit()
}

func fromEnv(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return def
}

func run(o *options) error {
	if o.scratch == "" {
		dir, err := os.MkdirTemp(fastDir(), "millrace-crash-")
		if err != nil {
			return err
		}
		defer removeEmpty(dir)
		o.scratch = dir
	}
	if o.binary == "" {
		o.binary = filepath.Join(o.scratch, "millrace")
		defer os.Remove(o.binary)
		build := exec.Command("go", "build", "-tags", "crash", "-o", o.binary, "./cmd/millrace")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build millrace: %w", err)
		}
	}
	modules, err := filepath.Abs("bench/crash/guest")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "crash: seed %d, %d kills at each point, %d at random, trials in %s\n", o.seed, o.points, o.random, o.scratch)
	c := &drive.Config{Binary: o.binary, Template: pipelineTemplate, Modules: modules, Scratch: o.scratch, Seed: o.seed,
		Records: o.records, Keys: 200, Splits: o.parallelism, Parallelism: o.parallelism, RunTimeout: time.Minute, Log: os.Stderr, Keep: o.keep}
	return prove(c, o)
}

// fastDir is a folder in memory if there is one. A killed process loses nothing that it wrote, on any file
// system, so fsync need not be paid for; faults of the disk are the business of other tests. -scratch
// chooses a disk.
func fastDir() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// removeEmpty leaves the folder where trials that went wrong are kept.
func removeEmpty(dir string) {
	if os.Remove(dir) != nil {
		fmt.Fprintln(os.Stderr, "crash: trials that went wrong are in", dir)
	}
}

func prove(c *drive.Config, o *options) error {
	start := time.Now()
	hits, total, err := c.Survey()
	if err != nil {
		return err
	}
	reached, wanted, pointKills := 0, 0, 0
	if total.Wrong() {
		fmt.Fprintln(os.Stderr, "crash: the run without a kill went wrong already")
		report(total, 0, 0, 0, 0, 0, 0)
		return nil
	}
	for _, p := range crashpoint.Points {
		if !selected(o.only, p.Name) {
			continue
		}
		wanted++
		got, err := c.Point(p.Name, hits[p.Name], o.points)
		if err != nil {
			return err
		}
		if got.Kills > 0 {
			reached++
		} else {
			fmt.Fprintf(os.Stderr, "crash: %s was never met: %s\n", p.Name, p.Meaning)
		}
		pointKills += got.Kills
		total.Add(got)
	}
	randomKills, randomWanted := 0, 0
	if selected(o.only, "random") {
		randomWanted = o.random
		got, err := c.Random("random", o.random, 20)
		if err != nil {
			return err
		}
		randomKills = got.Kills
		total.Add(got)
	}
	report(total, reached, wanted, pointKills, wanted*o.points, randomKills, randomWanted)
	result.Note("crash.duration", time.Since(start).Seconds(), "s")
	return nil
}

func selected(only, name string) bool {
	if only == "" {
		return true
	}
	for _, n := range strings.Split(only, ",") {
		if n == name {
			return true
		}
	}
	return false
}

func report(o *drive.Outcome, reached, wanted, pointKills, pointWanted, randomKills, randomWanted int) {
	for i, e := range append(append([]string{}, o.Failures...), o.Verdict.Examples...) {
		if i == 20 {
			break
		}
		fmt.Fprintln(os.Stderr, "crash:", e)
	}
	fmt.Fprintln(os.Stderr, "crash: VERDICT", map[bool]string{false: "right", true: "wrong"}[o.Wrong()])
	v := &o.Verdict
	result.AtLeast("crash.points_met", float64(reached), "points", float64(wanted))
	result.AtLeast("crash.point_kills", float64(pointKills), "kills", float64(pointWanted))
	result.AtLeast("crash.random_kills", float64(randomKills), "kills", float64(randomWanted))
	result.Note("crash.records", float64(v.Records), "records")
	result.Note("crash.timers", float64(v.Timers), "timers")
	for _, z := range []struct {
		name string
		n    uint64
	}{
		{"lost", v.Lost}, {"duplicated", v.Duplicated}, {"reordered", v.Reordered}, {"wrong_state", v.WrongState}, {"alien", v.Alien},
		{"malformed", v.Malformed}, {"timers_lost", v.TimersLost}, {"timers_twice", v.TimersTwice}, {"failed_restarts", uint64(len(o.Failures))},
	} {
		result.AtMost("crash."+z.name, float64(z.n), "-", 0)
	}
}
