package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/ci"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/replay"
	"github.com/millrace-io/millrace/host/worker"
)

func replayCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "run a pipeline again from a snapshot, beside everything, and say what differs",
		ArgsUsage: stateArgs,
		Description: "Reads the sources again from the snapshot --from, in a fork: nothing is published, and the pipeline, running or not,\n" +
			"does not notice. With --module the old and the new module get every record, and what differs in outputs, state,\n" +
			"timers, faults and fuel is told. Without, what comes out is held against what the pipeline itself left in\n" +
			"the snapshot --to, and published on the way. Snapshots are named by number, tag, latest, or the beginning of a\n" +
			"digest. Exit codes: 0 the same, 1 something differs, or failed, 2 refused.",
		Flags: append(replayFlags(),
			&cli.StringFlag{Name: "from", Usage: "`SNAPSHOT` to start from; wanted"},
			&cli.StringFlag{Name: "to", Usage: "`SNAPSHOT` to end at (default: the present end of the input; without --module, latest)"},
			&cli.StringSliceFlag{Name: "key", Usage: "only records of this `KEY`, in operators with keys"},
			&cli.BoolFlag{Name: "step", Usage: "print every record that a function gets: host calls, state, timers, outputs, fuel"},
			&cli.Int64Flag{Name: "limit", Usage: "end after `N` records of the sources"}),
		Action: func(c *cli.Context) error { return replayPipeline(c, s) },
	}
}

// replayFlags are what replay and shadow have in common.
func replayFlags() []cli.Flag {
	return []cli.Flag{stateDirFlag(), jsonFlag(),
		&cli.StringSliceFlag{Name: "module", Usage: "`[OPERATOR=]FILE`: the new module, of one operator or of the only module there is"},
		&cli.StringFlag{Name: "pipeline", Usage: "changed pipeline `FILE`, with the modules it names"},
		&cli.IntFlag{Name: "batch", Value: 1, Usage: "`RECORDS` in a call: with more than 1 it is faster, and fuel is told by call, not by record"},
	}
}

// comparing is an open job whose snapshots are replayed.
type comparing struct {
	*target
	store  *snapstore.Store
	from   *checkpoint.Manifest
	stored *worker.Stored
	now    *worker.Revised // nil: there is no new version
}

// openComparing opens the job of a command and the code of the snapshot that a word names.
func openComparing(c *cli.Context, word string) (_ *comparing, err error) {
	t, err := targetOf(c, 0, 0)
	if err != nil {
		return nil, err
	}
	r := &comparing{target: t}
	if r.store, err = t.read(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	id, err := resolve(r.store, word)
	if err != nil {
		return nil, err
	}
	if r.from, err = r.store.Load(id); err != nil {
		return nil, storeError(err)
	}
	if r.stored, err = t.codeOf(c, r.store, r.from); err != nil {
		return nil, replayError(err)
	}
	return r, nil
}

func (r *comparing) close() {
	if r.stored != nil {
		_ = r.stored.Close()
	}
	_ = r.store.Close()
}

// revise makes the new version that the flags name; disk: without flags it is the pipeline file as it is now.
func (r *comparing) revise(c *cli.Context, disk bool) error {
	file, text := r.stored.Graph.File, r.stored.Graph.Text
	fromDisk := false
	if p := c.String("pipeline"); p != "" || disk && len(c.StringSlice("module")) == 0 {
		if p == "" {
			p = r.file
		}
		if p == "" {
			return refused(errors.New("a state folder says nothing of a new version: name the pipeline file, or --module"))
		}
		var err error
		if file, err = filepath.Abs(p); err != nil {
			return err
		}
		if text, err = os.ReadFile(file); err != nil {
			return refused(err)
		}
		fromDisk = true
	}
	own, modules := map[string]bool{}, []ci.Module{}
	for _, word := range c.StringSlice("module") {
		m := ci.Module{Path: word}
		if id, path, ok := strings.Cut(word, "="); ok {
			m = ci.Module{Operator: id, Path: path}
		}
		path, err := filepath.Abs(m.Path)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return refused(fmt.Errorf("--module %s: %w", word, err))
		}
		m.Path, own[path] = path, true
		modules = append(modules, m)
	}
	if len(modules) == 0 && !fromDisk {
		return nil
	}
	text, err := ci.ReplaceModules(text, modules)
	if err == nil {
		r.now, err = r.stored.Revise(file, text, own, fromDisk)
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// options are those that replay and shadow have in common.
func (r *comparing) options(c *cli.Context) replay.Options {
	o := replay.Options{Store: r.store, From: r.from.ID, Code: replay.Code{Graph: r.stored.Graph, Module: r.stored.Module},
		Batch: c.Int("batch"), Scratch: filepath.Join(r.dir, "replay")}
	if r.now != nil {
		o.Candidate = &replay.Code{Graph: r.now.Graph, Module: r.now.Module}
	}
	return o
}

func replayPipeline(c *cli.Context, s streams) error {
	if c.String("from") == "" {
		return refused(errors.New("replay wants --from: the snapshot to start from; millrace snapshot list tells them"))
	}
	r, err := openComparing(c, c.String("from"))
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.revise(c, false); err != nil {
		return err
	}
	o := r.options(c)
	o.Keys, o.End.Records = c.StringSlice("key"), c.Int64("limit")
	to := c.String("to")
	if to == "" && r.now == nil && o.End.Records == 0 {
		to = "latest"
	}
	if to != "" {
		id, err := resolve(r.store, to)
		if err != nil {
			return err
		}
		if o.End.To, err = r.store.Load(id); err != nil {
			return storeError(err)
		}
		if id <= r.from.ID {
			return refused(fmt.Errorf("there is nothing between snapshots %d and %d: --to has to be a later one", r.from.ID, id))
		}
	}
	steps := &stepPrinter{c: c, out: s.out}
	if c.Bool("step") {
		o.Batch, o.Trace = 1, true
		o.Observe = replay.NewStepper(o.Code.Graph, o.Keys, steps.print)
	}
	if r.now == nil && o.End.To != nil && o.End.Records == 0 {
		return again(c, s, o, steps)
	}
	res, err := replay.Run(c.Context, o)
	if err != nil {
		return replayError(err)
	}
	defer res.Close()
	out := replayed{Report: res.Report, Steps: steps.steps}
	if !res.Report.Same() {
		return different(c, s, out, res.Report.Verdict(), func(w io.Writer) { printReplay(w, res.Report) })
	}
	return show(c, s, out, func(w io.Writer) { printReplay(w, res.Report) })
}

// replayed is what the command tells with --json.
type replayed struct {
	*replay.Report
	Steps []*replay.Step `json:"steps,omitempty"`
}

// repeated is the same without a new version.
type repeated struct {
	*replay.Repetition
	Steps []*replay.Step `json:"steps,omitempty"`
}

// again replays without a new version.
func again(c *cli.Context, s streams, o replay.Options, steps *stepPrinter) error {
	rep, err := replay.Again(c.Context, o)
	if err != nil {
		return replayError(err)
	}
	out := repeated{rep, steps.steps}
	if !rep.Same() {
		return different(c, s, out, "the replay differs from the run", func(w io.Writer) { printRepetition(w, rep) })
	}
	return show(c, s, out, func(w io.Writer) { printRepetition(w, rep) })
}

// different prints a result with the exit code of one that differs.
func different(c *cli.Context, s streams, data any, why string, text func(io.Writer)) error {
	if !c.Bool("json") {
		text(s.out)
	}
	return &exitError{code: exitFailed, kind: "different", err: errors.New(why), data: data}
}

// replayError gives an error of a replay its exit code.
func replayError(err error) error {
	var known *exitError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, replay.ErrUnreadable), errors.Is(err, replay.ErrIncomparable), errors.Is(err, job.ErrUnfit):
		return refused(err)
	}
	if k := worker.Classify(err); k == worker.KindRefused {
		return refused(err)
	}
	var x *exitError
	if e := storeError(err); errors.As(e, &x) {
		return e
	}
	return &exitError{code: exitFailed, kind: "failed", err: err}
}

// stepPrinter prints steps as they come, or gathers them for --json.
type stepPrinter struct {
	c     *cli.Context
	out   io.Writer
	mu    sync.Mutex
	steps []*replay.Step
}

func (p *stepPrinter) print(x *replay.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.c.Bool("json") {
		p.steps = append(p.steps, x)
		return
	}
	printReplayStep(p.out, x)
}
