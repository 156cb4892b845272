// Package drive runs a pipeline as a real process, kills it again and again, lets it finish and hands
// its committed output to the oracle.
package drive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/millrace-io/millrace/bench/crash/oracle"
)

// Config says what is run and how hard it is hit.
type Config struct {
	Binary     string   // millrace built with the tag crash
	Args       []string // before the pipeline file
	Template   string   // text of the pipeline file, a text/template over Pipeline
	Modules    string   // folder with the guest modules, absolute
	Scratch    string   // folder for trials; each gets one of its own
	Seed       uint64
	Records    int // input records of a trial
	Variant    Variant
	RunTimeout time.Duration // of one process; longer is a livelock
	Log        io.Writer     // one line per trial
	Keep       bool          // keep the folder of a trial that went right

	whole time.Duration // of a run without a kill, from Survey
}

// Variant is a form of the pipeline.
type Variant struct {
	Name        string
	Keys        int // of each input file
	Splits      int // input files
	Parallelism int
	Memory      string // of keyed state
	State       string // "memory" or "disk"
	Single      bool   // outputs are single files, not folders of parts
	BadEvery    int    // as in oracle.Generator
	Guest       string // path of a module of its own; empty: the one in Modules
	// Guests are taken in turn by the processes of a trial, in place of Guest.
	Guests []string
}

// Pipeline is what a template may use.
type Pipeline struct {
	Variant
	Input    string // glob of the input files
	Output   string // of committed files: a folder with / at its end, or a file
	Rejected string // of the source's dead letters, likewise
	Dead     string // of the guest's
	Modules  string
}

// Outcome sums trials.
type Outcome struct {
	Kills    int // processes that ended by SIGKILL
	Runs     int // processes started
	Failures []string
	Verdict  oracle.Verdict
}

// Wrong says whether anything went wrong: an anomaly, or a process that failed, hung or would not start.
func (o *Outcome) Wrong() bool { return len(o.Failures) > 0 || o.Verdict.Anomalies() > 0 }

// Add sums outcomes.
func (o *Outcome) Add(p *Outcome) {
	o.Kills += p.Kills
	o.Runs += p.Runs
	o.Failures = append(o.Failures, p.Failures...)
	o.Verdict.Add(&p.Verdict)
}

// trial is one input, run until it is finished, with kills on the way.
type trial struct {
	cfg      *Config
	dir      string
	pipeline Pipeline
	file     string
	in       *oracle.Input
	out      Outcome
}

func (c *Config) newTrial(name string, seed uint64) (*trial, error) {
	t, err := c.emptyTrial(name)
	if err != nil {
		return nil, err
	}
	for s := 0; s < c.Variant.Splits; s++ {
		if err := t.writeInput(s, seed); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// emptyTrial is one without input.
func (c *Config) emptyTrial(name string) (*trial, error) {
	dir, err := os.MkdirTemp(c.Scratch, name+"-"+c.Variant.Name+"-")
	if err != nil {
		return nil, err
	}
	t := &trial{cfg: c, dir: dir, in: oracle.NewInput(),
		pipeline: Pipeline{Variant: c.Variant, Input: filepath.Join(dir, "in-*.ndjson"), Modules: c.Modules,
			Output: c.output(dir, outFolder), Rejected: c.output(dir, lettersFolder+"/rejected"), Dead: c.output(dir, lettersFolder+"/dead")}}
	t.file = filepath.Join(dir, "pipeline.yaml")
	return t, t.writePipeline()
}

// writePipeline writes the pipeline file for the next process.
func (t *trial) writePipeline() error {
	if g := t.pipeline.Guests; len(g) > 0 {
		t.pipeline.Guest = g[t.out.Runs%len(g)]
	}
	tpl, err := template.New("pipeline").Option("missingkey=error").Parse(t.cfg.Template)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := tpl.Execute(&text, t.pipeline); err != nil {
		return err
	}
	return os.WriteFile(t.file, text.Bytes(), 0o644)
}

// Folders of a trial.
const (
	outFolder     = "out"
	lettersFolder = "letters"
	stateFolder   = "state"
)

// output is where committed files go.
func (c *Config) output(dir, name string) string {
	if c.Variant.Single {
		return filepath.Join(dir, name, "all.ndjson")
	}
	return filepath.Join(dir, name) + "/"
}

func (t *trial) writeInput(split int, seed uint64) error {
	name := fmt.Sprintf("in-%d.ndjson", split)
	f, err := os.Create(filepath.Join(t.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	v := &t.cfg.Variant
	in, err := oracle.Generator{Seed: seed + uint64(split), Keys: v.Keys, Records: t.cfg.Records / v.Splits,
		Prefix: string(rune('a' + split)), StepMS: 1, BadEvery: v.BadEvery, File: name}.Write(f)
	if err != nil {
		return err
	}
	t.in.Merge(in)
	return f.Close()
}

// ending is how a process ended.
type ending int

const (
	finished ending = iota
	killed
	failed
)

// start runs the pipeline once. plan arms a crash point; killAfter, if not 0, kills from outside.
func (t *trial) start(plan string, killAfter time.Duration) ending {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.RunTimeout)
	defer cancel()
	args := append(append([]string{}, t.cfg.Args...), "run", t.file, "--state-dir", filepath.Join(t.dir, stateFolder))
	cmd := exec.CommandContext(ctx, t.cfg.Binary, args...)
	var talk bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &talk, &talk, t.dir
	cmd.Env = append(os.Environ(), "MILLRACE_CRASH="+plan, "MILLRACE_CRASH_TRACE="+filepath.Join(t.dir, "trace"))
	if err := t.writePipeline(); err != nil {
		t.fail("pipeline file: %v", err)
		return failed
	}
	t.out.Runs++
	if err := cmd.Start(); err != nil {
		t.fail("start: %v", err)
		return failed
	}
	if killAfter > 0 {
		timer := time.AfterFunc(killAfter, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		defer timer.Stop()
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.fail("plan %q: not finished after %v: %s", plan, t.cfg.RunTimeout, tail(talk.String()))
		return failed
	case err == nil:
		return finished
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		t.out.Kills++
		return killed
	}
	t.fail("plan %q after %d kills: %v: %s", plan, t.out.Kills, err, tail(talk.String()))
	return failed
}

func (t *trial) fail(format string, args ...any) {
	t.out.Failures = append(t.out.Failures, filepath.Base(t.dir)+": "+fmt.Sprintf(format, args...))
}

func tail(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], " | ")
}

// end lets the pipeline finish, starts it once more, since a finished job must stay as it is, and checks.
func (t *trial) end(done bool) *Outcome {
	if !done && len(t.out.Failures) == 0 {
		done = t.start("", 0) == finished
	}
	if done && t.start("", 0) != finished {
		t.fail("a finished job did not end well when run again")
	}
	v, err := oracle.CheckFolder(t.in, filepath.Join(t.dir, outFolder))
	if err == nil {
		err = oracle.CheckLetters(t.in, filepath.Join(t.dir, lettersFolder), v)
	}
	if err != nil {
		t.fail("check: %v", err)
	} else {
		t.out.Verdict = *v
	}
	if t.cfg.Log != nil {
		fmt.Fprintf(t.cfg.Log, "%s: %d kills, %d runs, %d records, %d letters, %d anomalies, %d failures\n", filepath.Base(t.dir),
			t.out.Kills, t.out.Runs, t.out.Verdict.Records, t.out.Verdict.Letters, t.out.Verdict.Anomalies(), len(t.out.Failures))
	}
	if !t.out.Wrong() && !t.cfg.Keep {
		_ = os.RemoveAll(t.dir)
	}
	return &t.out
}

// rng is the generator of a named part, so that parts don't depend on each other's order.
func (c *Config) rng(part string) *rand.Rand {
	h := c.Seed
	for _, b := range []byte(part) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(c.Seed, h))
}
