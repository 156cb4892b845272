package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators/spec"
)

func snapshotCommand(s streams) *cli.Command {
	return &cli.Command{
		Name:  "snapshot",
		Usage: "look at a pipeline's checkpoints",
		Subcommands: []*cli.Command{{
			Name:      "list",
			Usage:     "list the checkpoints in a state folder, oldest first",
			ArgsUsage: "[pipeline.yaml or state folder]",
			Flags:     []cli.Flag{stateDirFlag(), jsonFlag()},
			Action:    func(c *cli.Context) error { return listSnapshots(c, s) },
		}},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return refused(fmt.Errorf("no command %q%s", "snapshot "+c.Args().First(), didYouMean(c.Args().First(), []string{"list"})))
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// snapshotRow is one checkpoint as printed.
type snapshotRow struct {
	ID       checkpoint.ID `json:"id"`
	Created  time.Time     `json:"created"`
	Finished bool          `json:"finished"`
	Tasks    int           `json:"tasks"`
	Objects  int           `json:"objects"`
	Bytes    int64         `json:"bytes"`
	Added    int64         `json:"added_bytes"`
	Problem  string        `json:"problem,omitempty"`
}

func listSnapshots(c *cli.Context, s streams) error {
	dir, err := snapshotDir(c)
	if err != nil {
		return refused(err)
	}
	store, err := snapstore.Open(dir, snapstore.Options{ReadOnly: true})
	if err != nil {
		return refused(err)
	}
	defer store.Close()
	infos, err := store.List()
	if err != nil {
		return err
	}
	rows := make([]snapshotRow, 0, len(infos))
	for _, i := range infos {
		r := snapshotRow{ID: i.ID, Created: time.UnixMilli(i.CreatedMS).UTC(), Finished: i.Finished, Tasks: i.Tasks,
			Objects: i.Objects, Bytes: i.Bytes, Added: i.StoredBytes}
		if i.Err != nil {
			r.Problem = i.Err.Error()
		}
		rows = append(rows, r)
	}
	return show(c, s, rows, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintf(w, "no complete checkpoint in %s\n", dir)
			return
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "ID\tCREATED (UTC)\tBYTES\tADDED\tOBJECTS\tTASKS\t")
		for _, r := range rows {
			note := r.Problem
			if r.Finished {
				note = "complete: the input ended"
			}
			fmt.Fprintf(t, "%d\t%s\t%d\t%d\t%d\t%d\t%s\n", r.ID, r.Created.Format(time.DateTime), r.Bytes, r.Added, r.Objects, r.Tasks, note)
		}
		t.Flush()
	})
}

// snapshotDir finds the store: of a pipeline file, of a state folder, or the only one below the working
// directory.
func snapshotDir(c *cli.Context) (string, error) {
	base := c.String("state-dir")
	if base == "" && c.NArg() > 0 {
		base = c.Args().First()
		if st, err := os.Stat(base); err == nil && st.Mode().IsRegular() {
			g, err := spec.Load(base, spec.Options{})
			if err != nil {
				return "", err
			}
			base = stateDir(c, base, g.Name)
		}
	}
	if base == "" {
		all, err := filepath.Glob(filepath.Join(".millrace", "*", "snapshots"))
		if err != nil {
			return "", err
		}
		if len(all) != 1 {
			return "", fmt.Errorf("%d pipelines have state in .millrace here; name a pipeline file or a state folder", len(all))
		}
		return all[0], nil
	}
	dir := filepath.Join(base, "snapshots")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("there is no state in %s", base)
	}
	return dir, nil
}
