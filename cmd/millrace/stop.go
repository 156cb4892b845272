package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/host/control"
)

func stopCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "stop",
		Usage:     "stop a running pipeline with a checkpoint",
		ArgsUsage: stateArgs,
		Description: "The same run command goes on from there. With --savepoint the last checkpoint is a savepoint of that name,\n" +
			"which does not expire. If it can't be made this says why, and the pipeline goes on from its last checkpoint.",
		Flags: []cli.Flag{
			stateDirFlag(), jsonFlag(),
			&cli.StringFlag{Name: "savepoint", Usage: "end with a savepoint and give it the name `TAG`"},
			&cli.StringFlag{Name: "note", Usage: "`TEXT` to keep with the savepoint"},
			&cli.BoolFlag{Name: "now", Usage: "stop at once, without a checkpoint"},
		},
		Action: func(c *cli.Context) error { return stop(c, s) },
	}
}

func stop(c *cli.Context, s streams) error {
	tag := c.String("savepoint")
	switch {
	case c.IsSet("savepoint") && tag == "":
		return refused(fmt.Errorf("--savepoint wants a tag"))
	case tag != "" && c.Bool("now"):
		return refused(fmt.Errorf("--savepoint and --now exclude each other: a savepoint takes its time"))
	case tag == "" && c.IsSet("note"):
		return refused(fmt.Errorf("--note goes with --savepoint"))
	}
	dir, err := stateFolder(c)
	if err != nil {
		return refused(err)
	}
	cl, err := dial(dir)
	if err != nil {
		return err
	}
	defer cl.Close()
	if tag != "" {
		sp, err := cl.Savepoint(c.Context, control.SavepointRequest{Tag: tag, Note: c.String("note"), Stop: true})
		if err != nil {
			return asked(err)
		}
		return show(c, s, sp, func(w io.Writer) { fmt.Fprintf(w, "stopped with savepoint %d, %s\n", sp.ID, sp.Tag) })
	}
	st, err := cl.Stop(c.Context, control.StopRequest{Now: c.Bool("now")})
	if err != nil {
		return asked(err)
	}
	return show(c, s, st, func(w io.Writer) {
		switch {
		case st.Complete:
			fmt.Fprintf(w, "complete: its input had ended, checkpoint %d\n", st.Checkpoint)
		case st.Checkpoint == 0:
			fmt.Fprintln(w, "stopped, without a checkpoint to go on from")
		default:
			fmt.Fprintf(w, "stopped; the same run command goes on from checkpoint %d\n", st.Checkpoint)
		}
	})
}
