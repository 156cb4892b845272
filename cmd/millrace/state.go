package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators/stateview"
)

func stateCommand(s streams) *cli.Command {
	subs := []*cli.Command{
		{
			Name:      "list",
			Usage:     "list the states of a snapshot",
			ArgsUsage: stateArgs,
			Flags:     []cli.Flag{stateDirFlag(), snapshotFlag(), jsonFlag()},
			Action:    func(c *cli.Context) error { return stateList(c, s) },
		},
		{
			Name:        "get",
			Usage:       "show what a key has",
			ArgsUsage:   stateArgs,
			Description: "Reads a snapshot, beside a running pipeline too; --live asks the running tasks. Exit code 1: the key has nothing.",
			Flags:       append(queryFlags(), keyFlag(true), entryFlag(), liveFlag()),
			Action:      func(c *cli.Context) error { return stateGet(c, s) },
		},
		{
			Name:        "scan",
			Usage:       "show entries, one JSON object per line, in hash order",
			ArgsUsage:   stateArgs,
			Description: "Nothing is loaded whole. With --limit the last line on stderr says how to go on.",
			Flags: append(queryFlags(), keyFlag(false), entryFlag(), prefixFlag(), liveFlag(),
				&cli.IntFlag{Name: "limit", Value: 100, Usage: "at most so many rows; 0: all"},
				&cli.StringFlag{Name: "after", Usage: "go on behind an earlier page: what that one called `NEXT`"}),
			Action: func(c *cli.Context) error { return stateScan(c, s) },
		},
		{
			Name:      "stats",
			Usage:     "sum up states: entries, bytes, sizes, largest keys, skew of slots, what has expired",
			ArgsUsage: stateArgs,
			Flags:     append(queryFlags(), prefixFlag(), &cli.IntFlag{Name: "largest", Value: 5, Usage: "show so many of the largest keys"}),
			Action:    func(c *cli.Context) error { return stateStats(c, s) },
		},
		{
			Name:        "export",
			Usage:       "write a snapshot's state as NDJSON or Parquet",
			ArgsUsage:   stateArgs,
			Description: "The same snapshot gives the same bytes.",
			Flags: append(queryFlags(), prefixFlag(),
				&cli.StringFlag{Name: "format", Usage: "ndjson or parquet (default: by the file's name, else ndjson)"},
				&cli.StringFlag{Name: "out", Usage: "`FILE` to write; it must not exist (default: stdout)"}),
			Action: func(c *cli.Context) error { return stateExport(c, s) },
		},
		{
			Name:      "patch",
			Usage:     "make a new snapshot with some entries changed",
			ArgsUsage: stateArgs,
			Description: "Lines are rows as scan prints them: each sets an entry, with \"delete\":true it removes it. The snapshot\n" +
				"it starts from stays as it is; the new one is a savepoint that run --restore starts from. Exit codes:\n" +
				"2 a line is wrong (all that are, are listed), 3 a run has the state folder.",
			Flags: []cli.Flag{stateDirFlag(), snapshotFlag(), jsonFlag(),
				&cli.StringFlag{Name: "from", Required: true, Usage: "`FILE` of rows, - for stdin"},
				&cli.BoolFlag{Name: "dry-run", Usage: "only check"},
				&cli.StringFlag{Name: "tag", Usage: "name the new snapshot"},
				&cli.StringFlag{Name: "note", Usage: "say for people why"}},
			Action: func(c *cli.Context) error { return statePatch(c, s) },
		},
	}
	var names []string
	for _, x := range subs {
		names = append(names, x.Name)
	}
	return &cli.Command{
		Name:        "state",
		Usage:       "look into a pipeline's state",
		Subcommands: subs,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return refused(fmt.Errorf("no command %q%s", "state "+c.Args().First(), didYouMean(c.Args().First(), names)))
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

func snapshotFlag() cli.Flag {
	return &cli.StringFlag{Name: "snapshot", Value: "latest", Usage: "`ID` or tag of the snapshot"}
}

func queryFlags() []cli.Flag {
	return []cli.Flag{stateDirFlag(), snapshotFlag(), jsonFlag(),
		&cli.StringFlag{Name: "operator", Usage: "only this operator's"},
		&cli.StringFlag{Name: "state", Usage: "only the state of this name; timers are called timers"},
		&cli.BoolFlag{Name: "raw", Usage: "keys and values as they are stored, in base64"},
	}
}

func keyFlag(required bool) cli.Flag {
	return &cli.StringFlag{Name: "key", Required: required, Usage: "only this key: text, or JSON as rows show it"}
}

func entryFlag() cli.Flag {
	return &cli.StringFlag{Name: "entry", Usage: "only this entry of a map"}
}

func prefixFlag() cli.Flag {
	return &cli.StringFlag{Name: "prefix", Usage: "only keys that begin with this text"}
}

func liveFlag() cli.Flag {
	return &cli.BoolFlag{Name: "live", Usage: "ask the running tasks, between two batches: not consistent across tasks"}
}

func queryOf(c *cli.Context) stateview.Query {
	q := stateview.Query{Operator: c.String("operator"), State: c.String("state"), KeyPrefix: c.String("prefix"), Limit: c.Int("limit"),
		After: c.String("after"), Raw: c.Bool("raw")}
	if c.IsSet("key") {
		k := c.String("key")
		q.Key = &k
	}
	if c.IsSet("entry") {
		e := c.String("entry")
		q.Entry = &e
	}
	return q
}

// withView opens a snapshot, under a lease: beside a running pipeline it would else be swept away.
func withView(c *cli.Context, purpose string, f func(ctx context.Context, store *snapstore.Store, v *stateview.View) error) error {
	dir, err := stateFolder(c)
	if err != nil {
		return refused(err)
	}
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return refused(err)
	}
	defer store.Close()
	v, release, err := leased(store, c.String("snapshot"), purpose)
	if err != nil {
		return refused(err)
	}
	return stateError(errors.Join(f(c.Context, store, v), release()))
}

// leased opens a snapshot by id or tag. The newest of a running pipeline may go between being found and leased:
// then there is a newer one.
func leased(store *snapstore.Store, ref, purpose string) (v *stateview.View, release func() error, err error) {
	for range 10 {
		id, rerr := store.Resolve(ref)
		if rerr != nil {
			return nil, nil, rerr
		}
		lease, lerr := store.Lease(purpose, id)
		if err = lerr; err != nil {
			if errors.Is(err, snapstore.ErrNoCheckpoint) && ref == "latest" {
				continue
			}
			return nil, nil, err
		}
		m, merr := store.Load(id)
		if merr != nil {
			return nil, nil, errors.Join(merr, lease.Release())
		}
		return stateview.Open(m, store), lease.Release, nil
	}
	return nil, nil, err
}

// stateError gives an error of reading state its exit code.
func stateError(err error) error {
	var known *exitError
	var locked *snapstore.LockedError
	var patch *stateview.PatchError
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.As(err, &locked):
		return &exitError{code: exitBusy, kind: "locked", err: err}
	case errors.As(err, &patch):
		return &exitError{code: exitRefused, kind: "patch", err: err, data: map[string]any{"problems": patch.Problems}}
	case errors.Is(err, stateview.ErrQuery), errors.Is(err, snapread.ErrNoState), errors.Is(err, snapstore.ErrNoTag):
		return refused(err)
	case errors.Is(err, snapstore.ErrDamaged):
		return &exitError{code: exitRefused, kind: "damaged", err: err}
	}
	return &exitError{code: exitFailed, kind: "failed", err: err}
}

// remarks says on stderr what a look at state should not leave unsaid.
func remarks(s streams, v *stateview.View) {
	for _, p := range v.Problems() {
		fmt.Fprintln(s.err, "note: "+p)
	}
}

func stateList(c *cli.Context, s streams) error {
	return withView(c, "state list", func(_ context.Context, _ *snapstore.Store, v *stateview.View) error {
		infos := v.States()
		return show(c, s, map[string]any{"snapshot": v.ID(), "states": infos}, func(w io.Writer) {
			t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "OPERATOR\tSTATE\tKIND\tVERSION\tSCHEMA\tTASKS\tENTRIES\tBYTES")
			for _, i := range infos {
				fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%d\t%d\n", i.Operator, i.State, i.Kind, i.Version, orDash(string(i.Schema)), i.Tasks, i.Entries, i.Bytes)
			}
			t.Flush()
		})
	})
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
