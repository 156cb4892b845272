package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

func verifySnapshotsCommand(s streams) *cli.Command {
	return snapshotVerb("verify", "check every byte of snapshots", "[ID ...]",
		"Without an ID of all. Damage is named with its file and, in a state file, its offset; then the exit code is 2.\n"+refWords,
		func(c *cli.Context) error { return verifySnapshots(c, s) },
		&cli.BoolFlag{Name: "quick", Usage: "only that all files are there with their sizes"}, remoteFlag())
}

// verified is the outcome for one snapshot.
type verified struct {
	ID       checkpoint.ID `json:"id"`
	OK       bool          `json:"ok"`
	Problems []string      `json:"problems,omitempty"`
}

func verifySnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 0, 1000)
	if err != nil {
		return err
	}
	if c.Bool("remote") {
		return verifyRemote(c, s, t)
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	ids, err := idsOf(store, t.words)
	if err != nil {
		return err
	}
	out := make([]verified, 0, len(ids))
	bad := 0
	for _, id := range ids {
		err := store.Verify(c.Context, id, !c.Bool("quick"))
		if !c.Bool("quick") && store.HasInput(id) {
			err = errors.Join(err, verifyInput(store, id))
		}
		if cerr := c.Context.Err(); cerr != nil {
			return cerr
		}
		v := verified{ID: id, OK: err == nil}
		if err != nil {
			bad++
			v.Problems = strings.Split(err.Error(), "\n")
		}
		out = append(out, v)
	}
	if bad > 0 {
		var lines []string
		for _, v := range out {
			lines = append(lines, v.Problems...)
		}
		return &exitError{code: exitRefused, kind: "damaged", data: out, err: fmt.Errorf("%d of %d snapshots are damaged:\n%s", bad, len(out), strings.Join(lines, "\n"))}
	}
	return show(c, s, out, func(w io.Writer) { fmt.Fprintf(w, "%d snapshots are as they were written\n", len(out)) })
}

// idsOf resolves words; without any it lists all snapshots.
func idsOf(store *snapstore.Store, words []string) (ids []checkpoint.ID, err error) {
	if len(words) == 0 {
		infos, err := store.List()
		for _, i := range infos {
			ids = append(ids, i.ID)
		}
		return ids, storeError(err)
	}
	var problems []error
	for _, word := range words {
		id, err := resolve(store, word)
		if err != nil {
			problems = append(problems, err)
		}
		ids = append(ids, id)
	}
	if len(problems) > 0 {
		return nil, refused(errors.Join(problems...))
	}
	return ids, nil
}
