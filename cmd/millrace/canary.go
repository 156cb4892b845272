package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/control"
)

func canaryCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "canary",
		Usage:     "give part of the keys of a running pipeline to other modules, over the same state",
		ArgsUsage: "pipeline.yaml",
		Description: "The candidate is what the pipeline file names now, as for upgrade. From the barrier of a checkpoint on it gets\n" +
			"the records and timers of the keys in some slots; sources never stop, no state is copied. Without a flag: says\n" +
			"what is on. A candidate that fails as no trial allows is taken out by itself. Exit codes as for upgrade.",
		Flags: []cli.Flag{
			stateDirFlag(), jsonFlag(),
			&cli.StringFlag{Name: "share", Usage: "`PERCENT` of the slots for the candidate, such as 5%; more than it has widens"},
			&cli.StringFlag{Name: "slots", Usage: "the same as a `RANGE` that begins with 0, such as 0-3276 of 0-65535"},
			&cli.BoolFlag{Name: "promote", Usage: "put the candidate in force for all keys, as upgrade does"},
			&cli.BoolFlag{Name: "revert", Usage: "give all keys back to the modules in force"},
			&cli.Float64Flag{Name: "errors", Usage: "`SHARE` of the candidate's records that may fail (default: 0.01, or twice that of the others)"},
			&cli.DurationFlag{Name: "wait", Value: time.Minute, Usage: "with --promote, how long to wait for the end of the trial"},
		},
		Action: func(c *cli.Context) error { return canary(c, s) },
	}
}

func canary(c *cli.Context, s streams) error {
	path, err := pipelineArg(c)
	if err != nil {
		return err
	}
	r, err := canaryRequest(c)
	if err != nil {
		return refused(err)
	}
	cl, err := connectTo(c, path)
	if err != nil {
		return err
	}
	defer cl.Close()
	r.File = cl.file
	in, err := cl.Info(c.Context)
	if err != nil {
		return asked(err)
	}
	if r.Action == "" {
		return show(c, s, in.Canary, func(w io.Writer) { printCanary(w, in.Canary) })
	}
	out, err := cl.Client.Canary(c.Context, r)
	if err != nil {
		return asked(err)
	}
	if r.Action != control.CanaryPromote {
		return show(c, s, out, func(w io.Writer) { printCanaryStep(w, in.Canary, &out) })
	}
	if !c.Bool("json") {
		printCanaryStep(s.out, in.Canary, &out)
	}
	return cl.onTrial(c, s, control.Changed{Checkpoint: out.Checkpoint})
}

// canaryRequest reads the flags, of which at most one says what to do.
func canaryRequest(c *cli.Context) (r control.CanaryRequest, err error) {
	var said []string
	for flag, action := range map[string]string{"share": control.CanaryShare, "slots": control.CanaryShare, "promote": control.CanaryPromote, "revert": control.CanaryRevert} {
		if c.IsSet(flag) {
			said, r.Action = append(said, "--"+flag), action
		}
	}
	if len(said) > 1 {
		return r, errors.New("canary takes one of --share, --slots, --promote and --revert")
	}
	r.Errors = c.Float64("errors")
	switch {
	case c.IsSet("share"):
		r.Hi, err = slotsOf(c.String("share"))
	case c.IsSet("slots"):
		var lo, hi uint32
		if n, serr := fmt.Sscanf(c.String("slots")+"\n", "%d-%d\n", &lo, &hi); n != 2 || serr != nil || hi >= checkpoint.AllSlots || lo > hi {
			return r, fmt.Errorf("--slots %s: expected 0-N, N at most %d", c.String("slots"), checkpoint.AllSlots-1)
		}
		r.Lo, r.Hi = lo, hi+1
	}
	return r, err
}

// slotsOf is how many slots a share is: at least the share, and one.
func slotsOf(share string) (uint32, error) {
	text, ok := strings.CutSuffix(share, "%")
	p, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil || !(p > 0 && p <= 100) {
		return 0, fmt.Errorf("--share %s: expected a percentage over 0%% and up to 100%%, such as 5%%", share)
	}
	return uint32(math.Ceil(checkpoint.AllSlots * p / 100)), nil
}

func printCanaryStep(w io.Writer, was *control.Canary, out *control.CanaryStep) {
	now := out.Canary
	switch {
	case now != nil:
		for _, o := range now.Operators {
			fmt.Fprintf(w, "canary          %s: module %.12s has %s, %.12s the others\n", o.Operator, o.Candidate.Module, slotsText(now), o.InForce.Module)
		}
	case was != nil:
		for _, o := range was.Operators {
			fmt.Fprintf(w, "canary          %s: that of module %.12s has ended\n", o.Operator, o.Candidate.Module)
		}
	}
	fmt.Fprintf(w, "in force at the barrier of checkpoint %d%s\n", out.Checkpoint, gap(0))
}

func slotsText(c *control.Canary) string {
	return checkpoint.SlotsText(c.Lo, c.Hi)
}

func printCanary(w io.Writer, c *control.Canary) {
	if c == nil {
		fmt.Fprintln(w, "no canary is on")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range canaryRows(c) {
		fmt.Fprintf(t, "%s\t%s\n", row[0], row[1])
	}
	t.Flush()
}

// canaryRows say what is on, and how both codes of each operator do.
func canaryRows(c *control.Canary) (rows [][2]string) {
	if c == nil {
		return nil
	}
	for _, o := range c.Operators {
		rows = append(rows, [2]string{"canary", fmt.Sprintf("%s: module %.12s has %s, %.12s the others", o.Operator, o.Candidate.Module, slotsText(c), o.InForce.Module)})
		for i, side := range []control.CanarySide{o.Candidate, o.InForce} {
			rows = append(rows, [2]string{[]string{"  candidate", "  in force"}[i], fmt.Sprintf("%s records, %s timers, %s faults, %s skipped, %s dead letters, %s fuel per record",
				thousands(side.Records), thousands(side.Timers), thousands(side.Faults), thousands(side.Skipped), thousands(side.DeadLetters), thousands(side.FuelPerRecord))})
		}
	}
	return rows
}
