package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint/storechange"
)

func tagSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("tag", "give a snapshot a name; a tagged one does not expire", "ID TAG", refWords,
		func(c *cli.Context) error { return tagSnapshot(c, s) },
		&cli.BoolFlag{Name: "move", Usage: "take the tag from the snapshot that has it"})
}

func tagSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 2, 2)
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	id, err := resolve(store, t.words[0])
	store.Close()
	if err != nil {
		return err
	}
	out, err := t.change(c, storechange.Change{Tag: &storechange.Tag{ID: id, Tag: t.words[1], Move: c.Bool("move")}})
	if err != nil {
		return err
	}
	return show(c, s, out, func(w io.Writer) { fmt.Fprintf(w, "snapshot %d is %s\n", out.ID, t.words[1]) })
}

func untagSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("untag", "take a name away; a checkpoint without one expires again", "TAG", "",
		func(c *cli.Context) error {
			t, err := targetOf(c, 1, 1)
			if err != nil {
				return err
			}
			if err := t.tagged(t.words[0]); err != nil {
				return err
			}
			out, err := t.change(c, storechange.Change{Untag: t.words[0]})
			if err != nil {
				return err
			}
			return show(c, s, out, func(w io.Writer) { fmt.Fprintf(w, "snapshot %d is no longer %s\n", out.ID, t.words[0]) })
		})
}

// tagged says that a snapshot has the tag, or which ones there are.
func (t *target) tagged(tag string) error {
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	infos, err := store.List()
	if err != nil {
		return storeError(err)
	}
	for _, i := range infos {
		if slices.Contains(i.Tags, tag) {
			return nil
		}
	}
	return refused(fmt.Errorf("no snapshot in %s has the tag %q%s", store.Dir(), tag, nearest(tag, infos)))
}
