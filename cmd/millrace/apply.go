package main

import (
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
)

func renameFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "rename", Usage: "`OLD=NEW`: operator NEW takes over the state of OLD"}
}

func diffCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "say what a pipeline file changes in the pipeline that runs",
		ArgsUsage: "pipeline.yaml",
		Description: "Each difference is a swap (at a barrier, while everything goes on), a restart (the tasks start anew from\n" +
			"a checkpoint, in the same process) or state-breaking (has to be allowed by --drop, or can't be). The hash\n" +
			"at the end is what apply wants.",
		Flags:  []cli.Flag{stateDirFlag(), jsonFlag(), renameFlag(), probationFlag()},
		Action: func(c *cli.Context) error { return diffPipeline(c, s) },
	}
}

func applyCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "apply",
		Usage:     "put a changed pipeline file into the pipeline that runs",
		ArgsUsage: "pipeline.yaml --plan HASH",
		Description: "Everything that can be checked is checked first; then the running tasks make a last checkpoint and those of\n" +
			"the changed pipeline start from it, in the same process. If they fail before their first checkpoint, the\n" +
			"old ones go on from there. Exit codes as for upgrade.",
		Flags: []cli.Flag{
			stateDirFlag(), jsonFlag(), renameFlag(),
			&cli.StringFlag{Name: "plan", Usage: "`HASH` that diff printed"},
			probationFlag(),
			&cli.StringSliceFlag{Name: "drop", Usage: "`OPERATOR` whose state may be dropped"},
			&cli.DurationFlag{Name: "wait", Value: time.Minute, Usage: "how long to wait for the first checkpoint of the changed pipeline"},
		},
		Action: func(c *cli.Context) error { return apply(c, s) },
	}
}

func diffPipeline(c *cli.Context, s streams) error {
	path, err := pipelineArg(c)
	if err != nil {
		return err
	}
	renamed, err := renames(c.StringSlice("rename"))
	if err != nil {
		return err
	}
	cl, err := connectTo(c, path)
	if err != nil {
		return err
	}
	defer cl.Close()
	plan, err := cl.plan(c.Context, control.ChangeRequest{File: cl.file, Renamed: renamed, Probation: c.Int("probation")})
	if err != nil {
		return err
	}
	return show(c, s, plan, func(w io.Writer) {
		if plan.Kind == "" {
			fmt.Fprintln(w, "no difference")
			return
		}
		printSteps(w, plan.Steps)
		printProbation(w, plan)
		verb := "apply"
		if plan.Kind == string(job.ChangeSwap) {
			verb = "upgrade or apply"
		}
		fmt.Fprintf(w, "plan %s, for millrace %s\n", plan.Plan, verb)
	})
}

func apply(c *cli.Context, s streams) error {
	path, err := pipelineArg(c)
	if err != nil {
		return err
	}
	if c.String("plan") == "" {
		return refused(errNoPlan)
	}
	renamed, err := renames(c.StringSlice("rename"))
	if err != nil {
		return err
	}
	cl, err := connectTo(c, path)
	if err != nil {
		return err
	}
	defer cl.Close()
	out, err := cl.change(c, s, control.ChangeRequest{File: cl.file, Renamed: renamed, Drop: c.StringSlice("drop"), Plan: c.String("plan"), Probation: c.Int("probation")})
	if err != nil {
		return err
	}
	return cl.onTrial(c, s, out)
}
