// Command upgrades proves that a running pipeline can be changed: it builds millrace with crash points, runs a
// pipeline as a real process whose input never rests, and changes it again and again by the command line:
// other modules, modules that trap, that do not fit, that rewrite state, another parallelism, savepoints,
// roll-backs and canaries; at some changes the process is killed and started again. In the end every record must have been
// handled once, in order per key, and versions must have followed each other.
//
//	go run ./bench/upgrades                  200 swaps, 200 of rescaling and savepoints, 200 steps of canaries
//	UPGRADE_CYCLES=10 go run ./bench/upgrades
//	go run ./bench/upgrades -seed 7          with the seed a failed run printed
//
// It prints one RESULT line per figure and exits with status 1 if one failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/millrace-io/millrace/bench/result"
)

// options are the flags of one run.
type options struct {
	seed    uint64
	swaps   int
	scales  int
	canary  int
	perRun  int // changes of one trial
	scratch string
	binary  string
	keep    bool
}

func main() {
	o := options{}
	cycles := 200
	if n, err := strconv.Atoi(os.Getenv("UPGRADE_CYCLES")); err == nil && n > 0 {
		cycles = n
	}
	flag.Uint64Var(&o.seed, "seed", 1, "seed of which change comes next and where kills fall")
	flag.IntVar(&o.swaps, "swaps", cycles, "changes of modules")
	flag.IntVar(&o.scales, "scales", cycles, "changes of parallelism, by savepoint or live")
	flag.IntVar(&o.canary, "canaries", cycles, "steps of canaries: begun, widened, reverted, promoted")
	flag.IntVar(&o.perRun, "per-trial", 20, "changes of one trial")
	flag.StringVar(&o.scratch, "scratch", "", "folder for trials; empty: a temporary one, in memory where possible")
	flag.StringVar(&o.binary, "binary", "", "millrace built with the tag crash; empty: build it")
	flag.BoolVar(&o.keep, "keep", false, "keep the folders of trials that went right")
	flag.Parse()
	if err := run(&o); err != nil {
		fmt.Fprintln(os.Stderr, "upgrades:", err)
		os.Exit(2)
	}
	result.Exit()
}

func run(o *options) error {
	if o.scratch == "" {
		dir, err := os.MkdirTemp(fastDir(), "millrace-upgrades-")
		if err != nil {
			return err
		}
		defer os.Remove(dir) // stays where trials that went wrong are in it
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
	fmt.Fprintf(os.Stderr, "upgrades: seed %d, %d swaps, %d of rescaling and savepoints, %d steps of canaries, trials in %s\n", o.seed, o.swaps, o.scales, o.canary, o.scratch)
	start := time.Now()
	var total tally
	for i := 0; total.Swaps < o.swaps || total.Scales < o.scales; i++ {
		got, err := o.trial(uint64(i), o.swaps-total.Swaps, o.scales-total.Scales)
		if err != nil {
			return err
		}
		total.add(got)
		if got.wrong() {
			break
		}
	}
	for i := 0; total.Canaries < o.canary && !total.wrong(); i++ {
		got, err := o.canaryTrial(uint64(i), o.canary-total.Canaries)
		if err != nil {
			return err
		}
		total.add(got)
	}
	report(o, &total)
	result.Note("upgrades.duration", time.Since(start).Seconds(), "s")
	return nil
}

// fastDir is a folder in memory if there is one: a killed process loses nothing that it wrote.
func fastDir() string {
	if st, err := os.Stat("/dev/shm"); err == nil && st.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func report(o *options, t *tally) {
	for _, f := range t.Failures {
		fmt.Fprintln(os.Stderr, "upgrades:", f)
	}
	result.AtLeast("upgrades.swaps", float64(t.Swaps), "changes", float64(o.swaps))
	result.AtLeast("upgrades.scales", float64(t.Scales), "changes", float64(o.scales))
	result.AtLeast("upgrades.canaries", float64(t.Canaries), "steps", float64(o.canary))
	result.Note("upgrades.taken_back", float64(t.TakenBack), "changes")
	result.Note("upgrades.refused", float64(t.Refused), "changes")
	result.Note("upgrades.migrated", float64(t.Migrated), "changes")
	result.Note("upgrades.rolled_back", float64(t.RolledBack), "changes")
	result.AtLeast("upgrades.kills", float64(t.Kills), "kills", float64((o.swaps+o.scales+o.canary)/20))
	result.Note("upgrades.records", float64(t.Records), "records")
	result.AtMost("upgrades.lost", float64(t.Lost), "records", 0)
	result.AtMost("upgrades.doubled", float64(t.Doubled), "records", 0)
	result.AtMost("upgrades.reordered", float64(t.Reordered), "records", 0)
	result.AtMost("upgrades.versions_out_of_order", float64(t.Versions), "records", 0)
	result.AtMost("upgrades.failures", float64(len(t.Failures)), "failures", 0)
}
