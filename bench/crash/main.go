// Command crash proves recovery: it builds millrace with crash points, runs a pipeline as a real process,
// kills it with SIGKILL at every crash point and at random times, restarts it until it has finished,
// and holds what was committed against what went in.
//
//	go run ./bench/crash                     20 kills at each point, 200 at random, 500 of guests whose memory is state
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

//go:embed windows.yaml
var windowsTemplate string

// options are the flags of one run.
type options struct {
	seed        uint64
	only        string
	random      int
	points      int
	records     int
	variant     string
	parallelism int
	memory      string
	memoryKills int
	language    string
	binary      string
	scratch     string
	keep        bool
}

func main() {
	o := options{}
	kills := fromEnv("CRASH_KILLS", 20)
	flag.Uint64Var(&o.seed, "seed", 1, "seed of inputs and of where kills fall")
	flag.StringVar(&o.only, "only", "", "points to kill at, separated by commas; \"random\" for random kills, \"windows\" for those of windows, \"memory\" for those of guests whose memory is state")
	flag.IntVar(&o.points, "points", kills, "kills at each crash point")
	flag.IntVar(&o.random, "random", 10*kills, "kills at random times")
	flag.IntVar(&o.memoryKills, "memory-kills", 25*kills, "kills of guests whose memory is state, over all languages")
	flag.StringVar(&o.language, "language", "", "languages of those guests, separated by commas; empty: all")
	flag.IntVar(&o.records, "records", 40_000, "input records of one trial")
	flag.StringVar(&o.variant, "variant", "", "forms of the pipeline, separated by commas; empty: all of variants.go")
	flag.IntVar(&o.parallelism, "parallelism", 0, "another parallelism than that of the variants")
	flag.StringVar(&o.memory, "memory", "", "another memory for state than that of the variants")
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
	return prove(o, modules)
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

// config is how trials of a variant run.
func (o *options) config(v drive.Variant, modules string) *drive.Config {
	if o.parallelism > 0 {
		v.Parallelism = o.parallelism
	}
	if o.memory != "" {
		v.Memory = o.memory
	}
	return &drive.Config{Binary: o.binary, Template: pipelineTemplate, Modules: modules, Scratch: o.scratch, Seed: o.seed,
		Records: o.records, Variant: v, RunTimeout: time.Minute, Log: os.Stderr, Keep: o.keep}
}

// surveyed is a variant with how often a run of it meets each point.
type surveyed struct {
	*drive.Config
	hits map[string]int
}

// survey runs each variant once without a kill, which has to go right.
func survey(o *options, modules string, total *drive.Outcome) (vs []surveyed, err error) {
	for _, v := range variants {
		if !selected(o.variant, v.Name) {
			continue
		}
		c := o.config(v, modules)
		hits, got, err := c.Survey()
		if err != nil {
			return nil, err
		}
		total.Add(got)
		vs = append(vs, surveyed{c, hits})
	}
	if len(vs) == 0 {
		return nil, fmt.Errorf("no variant named %q", o.variant)
	}
	return vs, nil
}

// upgrading are the points that only a pipeline meets whose code changes, or of which savepoints are made:
// bench/upgrades and the tests of cmd/millrace kill there.
var upgrading = map[string]bool{crashpoint.MidSwap: true, crashpoint.AfterSwap: true, crashpoint.MidRegistry: true}

func prove(o *options, modules string) error {
	start := time.Now()
	total := &drive.Outcome{}
	vs, err := survey(o, modules, total)
	if err != nil {
		return err
	}
	if total.Wrong() {
		fmt.Fprintln(os.Stderr, "crash: a run without a kill went wrong already")
		report(total, tally{})
		return nil
	}
	t := tally{}
	for i, p := range crashpoint.Points {
		if !selected(o.only, p.Name) || upgrading[p.Name] {
			continue
		}
		t.wanted++
		t.pointWanted += o.points
		got, err := share(vs, i, o.points, func(v surveyed, kills int) (*drive.Outcome, error) {
			return v.Point(p.Name, v.hits[p.Name], kills)
		})
		if err != nil {
			return err
		}
		if got.Kills > 0 {
			t.reached++
		} else {
			fmt.Fprintf(os.Stderr, "crash: %s was never met: %s\n", p.Name, p.Meaning)
		}
		t.pointKills += got.Kills
		total.Add(got)
	}
	if selected(o.only, "random") {
		t.randomWanted = o.random
		got, err := share(vs, 0, o.random, func(v surveyed, kills int) (*drive.Outcome, error) { return v.Random("random", kills, 10) })
		if err != nil {
			return err
		}
		t.randomKills = got.Kills
		total.Add(got)
	}
	if selected(o.only, "memory") {
		if err := memory(o, total, &t); err != nil {
			return err
		}
	}
	if selected(o.only, "windows") {
		if err := windows(o, vs, total, &t); err != nil {
			return err
		}
	}
	report(total, t)
	result.Note("crash.duration", time.Since(start).Seconds(), "s")
	return nil
}

// leastShare is how many kills a variant gets at least, so that some hit a process that restored.
const leastShare = 2

// share divides kills among the variants, beginning with another one each time. What one can't give,
// since it does not meet the point, the next ones get.
func share(vs []surveyed, first, kills int, try func(v surveyed, kills int) (*drive.Outcome, error)) (*drive.Outcome, error) {
	total := &drive.Outcome{}
	for i := range vs {
		left := kills - total.Kills
		if left <= 0 {
			break
		}
		n := min(left, max(leastShare, (left+len(vs)-i-1)/(len(vs)-i)))
		got, err := try(vs[(first+i)%len(vs)], n)
		if err != nil {
			return nil, err
		}
		total.Add(got)
	}
	if left := kills - total.Kills; left > 0 && total.Kills > 0 { // the last ones did not meet it
		got, err := try(vs[first%len(vs)], left)
		if err != nil {
			return nil, err
		}
		total.Add(got)
	}
	return total, nil
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

// tally counts kills.
type tally struct {
	reached, wanted           int // points
	pointKills, pointWanted   int
	randomKills, randomWanted int
	windowKills, windowWanted int
	windows                   drive.Windows
	memoryKills, memoryWanted int
	memory                    drive.Memory
}

// windowKeys are those of each split: a run of them takes as long as it takes to have several checkpoints.
const windowKeys = 400

// windows kills a pipeline of sliding windows at random times, in each of the variants.
func windows(o *options, vs []surveyed, total *drive.Outcome, t *tally) error {
	t.windowWanted = o.points
	got, err := share(vs, 0, o.points, func(v surveyed, kills int) (*drive.Outcome, error) {
		c := *v.Config
		c.Template, c.Variant.Keys, c.Variant.Splits = windowsTemplate, windowKeys, 2
		out, w, err := c.RandomWindows(kills, 5)
		if err == nil {
			t.windows.Add(w)
		}
		return out, err
	})
	if err != nil {
		return err
	}
	t.windowKills = got.Kills
	total.Add(got)
	return nil
}

func report(o *drive.Outcome, t tally) {
	for i, e := range append(append([]string{}, o.Failures...), o.Verdict.Examples...) {
		if i == 20 {
			break
		}
		fmt.Fprintln(os.Stderr, "crash:", e)
	}
	fmt.Fprintln(os.Stderr, "crash: VERDICT", map[bool]string{false: "right", true: "wrong"}[o.Wrong() || t.windows.Anomalies()+t.memory.Anomalies() > 0])
	v := &o.Verdict
	result.AtLeast("crash.points_met", float64(t.reached), "points", float64(t.wanted))
	result.AtLeast("crash.point_kills", float64(t.pointKills), "kills", float64(t.pointWanted))
	result.AtLeast("crash.random_kills", float64(t.randomKills), "kills", float64(t.randomWanted))
	result.Note("crash.records", float64(v.Records), "records")
	result.Note("crash.timers", float64(v.Timers), "timers")
	result.Note("crash.letters", float64(v.Letters), "letters")
	result.AtLeast("crash.window_kills", float64(t.windowKills), "kills", float64(t.windowWanted))
	result.Note("crash.windows", float64(t.windows.Results), "results")
	result.AtLeast("crash.memory_kills", float64(t.memoryKills), "kills", float64(t.memoryWanted))
	result.Note("crash.memory_records", float64(t.memory.Results), "records")
	result.Note("crash.memory_letters", float64(t.memory.Letters), "letters")
	for _, z := range []struct {
		name string
		n    uint64
	}{
		{"lost", v.Lost}, {"duplicated", v.Duplicated}, {"reordered", v.Reordered}, {"wrong_state", v.WrongState}, {"alien", v.Alien},
		{"malformed", v.Malformed}, {"timers_lost", v.TimersLost}, {"timers_twice", v.TimersTwice}, {"watermark_back", v.WentBack}, {"letters_lost", v.LettersLost},
		{"letters_twice", v.LettersTwice}, {"letters_alien", v.LettersAlien},
		{"windows_lost", t.windows.Missing}, {"windows_twice", t.windows.Repeated}, {"windows_wrong", t.windows.Different},
		{"windows_reordered", t.windows.Reordered}, {"windows_late", t.windows.Late},
		{"memory_lost", t.memory.Missing}, {"memory_twice", t.memory.Repeated}, {"memory_wrong", t.memory.Different},
		{"memory_reordered", t.memory.Reordered}, {"memory_letters_wrong", t.memory.LettersNo}, {"failed_restarts", uint64(len(o.Failures))},
	} {
		result.AtMost("crash."+z.name, float64(z.n), "-", 0)
	}
}
