package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/control"
)

func createSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("create", "make a savepoint", "",
		"Of a running pipeline: at a barrier, which stops nothing. Of one that does not run: of what its next run would\n"+
			"start from. A savepoint does not expire.",
		func(c *cli.Context) error { return createSnapshot(c, s) },
		&cli.StringFlag{Name: "tag", Usage: "`NAME` of the savepoint"},
		&cli.StringFlag{Name: "note", Usage: "`TEXT` to keep with it"})
}

func createSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 0, 0)
	if err != nil {
		return err
	}
	if err := t.there(); err != nil {
		return err
	}
	cl, store, err := t.reach(c.Context)
	if err != nil {
		return err
	}
	var sp control.Savepoint
	if cl != nil {
		defer cl.Close()
		sp, err = cl.Savepoint(c.Context, control.SavepointRequest{Tag: c.String("tag"), Note: c.String("note")})
		if err != nil {
			return asked(err)
		}
	} else {
		defer store.Close()
		if sp, err = promote(c, store); err != nil {
			return err
		}
	}
	return show(c, s, sp, func(w io.Writer) {
		fmt.Fprintf(w, "savepoint %d", sp.ID)
		if sp.Tag != "" {
			fmt.Fprintf(w, ", %s", sp.Tag)
		}
		fmt.Fprintf(w, ": %s bytes, %s of them new, in %d ms\n", thousands(sp.Bytes), thousands(sp.StoredBytes), sp.Millis)
	})
}

// promote makes a savepoint of a pipeline that does not run.
func promote(c *cli.Context, store *snapstore.Store) (sp control.Savepoint, err error) {
	sp.Tag = c.String("tag")
	if sp.Tag != "" {
		if err := store.TagFree(sp.Tag); err != nil {
			return sp, storeError(err)
		}
	}
	began := nowMS()
	if sp.ID, err = store.Promote(c.Context, began); err != nil {
		return sp, storeError(err)
	}
	if err := label(c, store, sp); err != nil {
		return sp, storeError(fmt.Errorf("savepoint %d is made, but its tag or note is not: %w", sp.ID, err))
	}
	m, err := store.Load(sp.ID)
	if err != nil {
		return sp, storeError(err)
	}
	sp.CreatedMS, sp.Bytes, sp.StoredBytes, sp.Millis = m.CreatedMS, m.TotalBytes(), m.StoredBytes, nowMS()-began
	return sp, nil
}

func label(c *cli.Context, store *snapstore.Store, sp control.Savepoint) error {
	if sp.Tag != "" {
		if _, err := storechange.Apply(c.Context, store, storechange.Change{Tag: &storechange.Tag{ID: sp.ID, Tag: sp.Tag}}); err != nil {
			return err
		}
	}
	if note := c.String("note"); note != "" {
		_, err := storechange.Apply(c.Context, store, storechange.Change{Note: &storechange.Note{ID: sp.ID, Text: note}})
		return err
	}
	return nil
}
