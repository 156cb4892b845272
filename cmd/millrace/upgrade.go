package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators/spec"
)

func upgradeCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "upgrade",
		Usage:     "put other modules into a running pipeline, at a barrier, while it goes on",
		ArgsUsage: "pipeline.yaml",
		Description: "Reads the pipeline file and its modules as they are now, checks them against the state of the running\n" +
			"pipeline, and changes the modules that differ at the barrier of a checkpoint. If the new code fails before\n" +
			"the next checkpoint, the old one goes on from the barrier by itself. Exit codes: 0 in force, 1 failed: the\n" +
			"old code runs, 2 refused: nothing was changed, 3 another change is under way.",
		Flags: []cli.Flag{
			stateDirFlag(), jsonFlag(),
			&cli.Float64Flag{Name: "errors", Usage: "`SHARE` of the records that may fail on trial (default: 0.01, or twice that of the old code)"},
			probationFlag(),
			&cli.DurationFlag{Name: "wait", Value: time.Minute, Usage: "how long to wait for the end of the trial"},
		},
		Action: func(c *cli.Context) error { return upgrade(c, s) },
	}
}

func probationFlag() cli.Flag {
	return &cli.IntFlag{Name: "probation", Usage: "hold the new code's output back for `K` checkpoints, and discard it if the code fails in that time (default: checkpoint.probation of the file; -1: do not)"}
}

// printProbation says what a probation costs.
func printProbation(w io.Writer, out control.Changed) {
	if out.Probation > 0 {
		fmt.Fprintf(w, "%-14s  output for %d checkpoints: it comes up to %v later\n", "holds", out.Probation, time.Duration(out.DelayMS)*time.Millisecond)
	}
}

// changing is a connection to the pipeline that a command's file names.
type changing struct {
	*control.Client
	file string
}

// connectTo finds the running pipeline of a file, absolute paths and all.
func connectTo(c *cli.Context, path string) (*changing, error) {
	g, err := spec.Load(path, spec.Options{})
	if err != nil {
		return nil, loadError(err)
	}
	file, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	cl, err := dial(stateDir(c, path, g.Name))
	if err != nil {
		return nil, err
	}
	return &changing{cl, file}, nil
}

func upgrade(c *cli.Context, s streams) error {
	path, err := pipelineArg(c)
	if err != nil {
		return err
	}
	cl, err := connectTo(c, path)
	if err != nil {
		return err
	}
	defer cl.Close()
	r := control.ChangeRequest{File: cl.file, ModulesOnly: true, Errors: c.Float64("errors"), Probation: c.Int("probation")}
	plan, err := cl.plan(c.Context, r)
	if err != nil {
		return err
	}
	if plan.Kind == "" {
		return show(c, s, plan, func(w io.Writer) { fmt.Fprintln(w, "nothing to change: it runs this file with these modules") })
	}
	r.Plan = plan.Plan
	out, err := cl.change(c, s, r)
	if err != nil {
		return err
	}
	return cl.onTrial(c, s, out)
}

// plan asks what a change would do.
func (cl *changing) plan(ctx context.Context, r control.ChangeRequest) (control.Changed, error) {
	r.DryRun = true
	p, err := cl.Change(ctx, r)
	if err != nil {
		return p, asked(err)
	}
	return p, nil
}

// change does it, telling the steps.
func (cl *changing) change(c *cli.Context, s streams, r control.ChangeRequest) (control.Changed, error) {
	out, err := cl.Change(c.Context, r)
	if err != nil {
		return out, asked(err)
	}
	if !c.Bool("json") {
		printSteps(s.out, out.Steps)
		printProbation(s.out, out)
		for _, m := range out.Migrated {
			fmt.Fprintf(s.out, "migrated        %s: %d entries of state %s, version %d to %d\n", m.Operator, m.Entries, m.State, m.From, m.To)
		}
		fmt.Fprintf(s.out, "in force at the barrier of checkpoint %d%s\n", out.Checkpoint, gap(out.Millis))
	}
	return out, nil
}

// gap says how long nothing moved.
func gap(ms int64) string {
	if ms == 0 {
		return ", sources never stopped"
	}
	return fmt.Sprintf(", the tasks started anew in %d ms", ms)
}

func printSteps(w io.Writer, steps []control.Step) {
	for _, st := range steps {
		what := st.What
		if st.Operator != "" {
			what = st.Operator + ": " + what
		}
		if st.Drop {
			what += " (--drop " + st.Operator + ")"
		}
		if len(st.Migrate) > 0 {
			what += " (migrates " + strings.Join(st.Migrate, ", ") + ")"
		}
		fmt.Fprintf(w, "%-14s  %s\n", st.Kind, what)
	}
}

// onTrial waits until the new code has come through its first checkpoint.
func (cl *changing) onTrial(c *cli.Context, s streams, out control.Changed) error {
	for end := time.Now().Add(c.Duration("wait")); ; time.Sleep(20 * time.Millisecond) {
		in, err := cl.Info(c.Context)
		if err != nil {
			return asked(err)
		}
		u := in.Upgrade
		switch {
		case u == nil || u.State == string(job.UpgradeDone):
			return show(c, s, out, func(w io.Writer) {
				if out.Probation > 0 {
					fmt.Fprintln(w, "done: what was held is published")
					return
				}
				fmt.Fprintln(w, "done: the next checkpoint is complete")
			})
		case u.State == string(job.UpgradeRolledBack), u.State == string(job.UpgradeFailed):
			return &exitError{code: exitFailed, kind: "rolled_back", data: out,
				err: fmt.Errorf("taken back to checkpoint %d, the old code runs: %s", u.Checkpoint, u.Reason)}
		case time.Now().After(end):
			return show(c, s, out, func(w io.Writer) {
				if u.Held > 0 {
					fmt.Fprintf(w, "on probation, output is held for %d more checkpoints: millrace status tells\n", u.Held)
					return
				}
				fmt.Fprintln(w, "on trial until the next checkpoint: millrace status tells")
			})
		}
	}
}

// renames reads old=new words.
func renames(words []string) (map[string]string, error) {
	out := map[string]string{}
	for _, w := range words {
		from, to, ok := strings.Cut(w, "=")
		if !ok || from == "" || to == "" || out[from] != "" {
			return nil, refused(fmt.Errorf("--rename %s: expected old=new, each old id once", w))
		}
		out[from] = to
	}
	return out, nil
}

var errNoPlan = errors.New("--plan wants the hash that millrace diff prints")
