package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
)

func pushSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("push", "copy snapshots into the pipeline's store", "[ID ...]",
		"Without an ID what the next run starts from. What the store has of it is not sent again. A run does this by\n"+
			"itself, behind its checkpoints; this is for what is made while it does not run. "+remoteWords+"\n"+refWords,
		func(c *cli.Context) error { return pushSnapshots(c, s) })
}

// pushed is what became of one snapshot.
type pushed struct {
	ID      checkpoint.ID `json:"id"`
	Already bool          `json:"already"` // it was there
	Objects int           `json:"objects"` // stored
	Bytes   int64         `json:"bytes"`   // of them, as stored
	Reused  int           `json:"reused"`  // objects that the store had
	Millis  int64         `json:"ms"`
}

func pushSnapshots(c *cli.Context, s streams) error {
	t, err := targetOf(c, 0, 1000)
	if err != nil {
		return err
	}
	r, err := t.remote()
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	words := t.words
	if len(words) == 0 {
		words = []string{"latest"}
	}
	ids, err := idsOf(store, words)
	if err != nil {
		return err
	}
	out := make([]pushed, 0, len(ids))
	for _, id := range ids {
		began := nowMS()
		var p mirror.Pushed
		if p, err = r.Mirror.Push(c.Context, store, id); err != nil {
			err = remoteError(r, err)
			break
		}
		out = append(out, pushed{ID: id, Already: p.Already, Objects: p.Objects, Bytes: p.Bytes, Reused: p.Reused, Millis: nowMS() - began})
	}
	if err != nil {
		printPushed(s.err, out, r.URL)
		return err
	}
	return show(c, s, out, func(w io.Writer) { printPushed(w, out, r.URL) })
}

func printPushed(w io.Writer, out []pushed, url string) {
	for _, p := range out {
		if p.Already {
			fmt.Fprintf(w, "snapshot %d was in %s\n", p.ID, url)
			continue
		}
		fmt.Fprintf(w, "snapshot %d is in %s: %d objects of %s bytes sent, %d were there, in %d ms\n", p.ID, url, p.Objects, thousands(p.Bytes), p.Reused, p.Millis)
	}
}
