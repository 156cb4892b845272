package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/job"
)

func pruneSnapshotsCommand(s streams) *cli.Command {
	return snapshotVerb("prune", "remove snapshots by a rule", "",
		"What the next run starts from, tagged snapshots and what another process reads stay in any case.",
		func(c *cli.Context) error { return pruneSnapshots(c, s) },
		&cli.IntFlag{Name: "keep", Value: -1, Usage: "how many of the newest checkpoints stay (default: all)"},
		&cli.IntFlag{Name: "keep-savepoints", Value: -1, Usage: "how many of the newest savepoints stay (default: all)"},
		&cli.DurationFlag{Name: "older-than", Usage: "only what is older than this"},
		&cli.BoolFlag{Name: "dry-run", Usage: "only say what would be removed"}, remoteFlag())
}

func pruneSnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 0, 0)
	if err != nil {
		return err
	}
	if err := t.there(); err != nil && !c.Bool("remote") {
		return err
	}
	p := storechange.Prune{Dry: c.Bool("dry-run"), Policy: snapstore.Policy{Checkpoints: c.Int("keep"), Savepoints: c.Int("keep-savepoints")}}
	if p.Policy.Checkpoints < 0 && p.Policy.Savepoints < 0 {
		return refused(fmt.Errorf("prune wants --keep or --keep-savepoints: without them everything stays"))
	}
	if d := c.Duration("older-than"); d != 0 {
		p.Policy.BeforeMS = time.Now().Add(-d).UnixMilli()
	}
	if c.Bool("remote") {
		return pruneRemote(c, s, t, mirror.Policy{Checkpoints: p.Policy.Checkpoints, Savepoints: p.Policy.Savepoints, BeforeMS: p.Policy.BeforeMS})
	}
	if err := t.spared(); err != nil {
		return err
	}
	out, err := t.change(c, storechange.Change{Prune: &p})
	if err != nil {
		return err
	}
	return show(c, s, out, func(w io.Writer) { printRemoved(w, out, p.Dry) })
}

// spared refuses to remove anything while a restore is pending: the next run needs what it names.
func (t *target) spared() error {
	id, err := job.PendingRestore(t.dir)
	if err != nil {
		return storeError(err)
	}
	if id != 0 {
		return refused(fmt.Errorf("the next run is to start from snapshot %d; run it, or take that back with snapshot restore latest, before anything is removed", id))
	}
	return nil
}

func printRemoved(w io.Writer, out storechange.Changed, dry bool) {
	verb := "removed"
	if dry {
		verb = "would be removed"
	}
	if len(out.Removed) == 0 {
		fmt.Fprintf(w, "nothing %s\n", verb)
		return
	}
	var ids []string
	for _, id := range out.Removed {
		ids = append(ids, fmt.Sprint(id))
	}
	fmt.Fprintf(w, "%s: snapshots %s, and %d objects of %s bytes that only they needed\n", verb, strings.Join(ids, ", "), out.Objects, thousands(out.Bytes))
}

func deleteSnapshotsCommand(s streams) *cli.Command {
	return snapshotVerb("delete", "remove snapshots, and what only they need", "ID ...",
		"Not what the next run starts from, not tagged ones (untag them first), not what another process reads.\n"+refWords,
		func(c *cli.Context) error { return deleteSnapshots(c, s) }, remoteFlag())
}

func deleteSnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 1, 1000)
	if err != nil {
		return err
	}
	if c.Bool("remote") {
		return deleteRemote(c, s, t)
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	ids, err := idsOf(store, t.words)
	store.Close()
	if err != nil {
		return err
	}
	if err := t.spared(); err != nil {
		return err
	}
	var all storechange.Changed
	for _, id := range ids {
		out, err := t.change(c, storechange.Change{Delete: id})
		if err != nil {
			if len(all.Removed) > 0 {
				fmt.Fprintf(s.err, "before that ")
				printRemoved(s.err, all, false)
			}
			return err
		}
		all.Removed = append(all.Removed, checkpoint.ID(id))
		all.Objects, all.Bytes = all.Objects+out.Objects, all.Bytes+out.Bytes
	}
	return show(c, s, all, func(w io.Writer) { printRemoved(w, all, false) })
}
