package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/control"
)

func rollbackCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:      "rollback",
		Usage:     "take a running pipeline back to a snapshot, with the code that made it",
		ArgsUsage: "pipeline.yaml SNAPSHOT",
		Description: "The tasks end at once and start again from the snapshot, in the same process, with the pipeline and modules\n" +
			"that it holds. What was published after it is withdrawn and made anew; later checkpoints are gone.",
		Flags:  []cli.Flag{stateDirFlag(), jsonFlag()},
		Action: func(c *cli.Context) error { return rollback(c, s) },
	}
}

func rollback(c *cli.Context, s streams) error {
	if c.NArg() != 2 {
		return refused(fmt.Errorf("rollback wants a pipeline file and a snapshot, got %d arguments", c.NArg()))
	}
	cl, err := connectTo(c, c.Args().Get(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	in, err := cl.Info(c.Context)
	if err != nil {
		return asked(err)
	}
	store, err := snapstore.Open(filepath.Join(in.StateDir, "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return refused(err)
	}
	id, err := resolve(store, c.Args().Get(1))
	if err != nil {
		return refused(err)
	}
	out, err := cl.Change(c.Context, control.ChangeRequest{Restore: id})
	if err != nil {
		return asked(err)
	}
	return show(c, s, out, func(w io.Writer) {
		printSteps(w, out.Steps)
		for _, x := range out.Withdrawn {
			fmt.Fprintf(w, "withdrawn       %s: %s, %d records of checkpoint %d\n", x.Operator, x.Path, x.Records, x.Checkpoint)
		}
		fmt.Fprintf(w, "runs from checkpoint %d%s\n", out.Checkpoint, gap(out.Millis))
	})
}
