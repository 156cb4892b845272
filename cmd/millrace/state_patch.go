package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators/stateview"
)

// patched is what a patch did.
type patched struct {
	Snapshot checkpoint.ID `json:"snapshot"` // the new one; 0: a dry run
	From     checkpoint.ID `json:"from"`
	Set      int           `json:"set"`
	Removed  int           `json:"removed"`
	Tag      string        `json:"tag,omitempty"`
}

func statePatch(c *cli.Context, s streams) error {
	dir, err := stateFolder(c)
	if err != nil {
		return refused(err)
	}
	name, in := c.String("from"), s.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return refused(err)
		}
		defer f.Close()
		in = f
	}
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{ReadOnly: c.Bool("dry-run")})
	if err != nil {
		return stateError(err)
	}
	defer store.Close()
	if tag := c.String("tag"); tag != "" && !c.Bool("dry-run") {
		if err := store.TagFree(tag); err != nil {
			return refused(err)
		}
	}
	v, release, err := leased(store, c.String("snapshot"), "state patch")
	if err != nil {
		return refused(err)
	}
	defer func() { _ = release() }() // a lease of a process that ended counts no more
	p, err := v.ReadPatch(c.Context, name, in)
	if err != nil {
		return stateError(err)
	}
	done := patched{From: v.ID(), Set: p.Set, Removed: p.Removed, Tag: c.String("tag")}
	if !c.Bool("dry-run") {
		if done.Snapshot, err = writePatch(c, store, p); err != nil {
			return stateError(err)
		}
	}
	return show(c, s, done, func(io.Writer) {
		what := fmt.Sprintf("%d entries set, %d removed", done.Set, done.Removed)
		if done.Snapshot == 0 {
			fmt.Fprintf(s.err, "snapshot %d with %s would do; nothing was written\n", done.From, what)
			return
		}
		fmt.Fprintf(s.err, "snapshot %d is %d with %s; run --restore %d starts from it\n", done.Snapshot, done.From, what, done.Snapshot)
	})
}

func writePatch(c *cli.Context, store *snapstore.Store, p *stateview.Patch) (checkpoint.ID, error) {
	tmp, err := os.MkdirTemp(filepath.Dir(store.Dir()), "patch-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(tmp)
	m, err := p.Write(c.Context, store, stateview.WriteOptions{Dir: tmp, Engine: job.Version, NowMS: time.Now().UnixMilli()})
	if err != nil {
		return 0, err
	}
	if tag := c.String("tag"); tag != "" {
		if err := store.Tag(m.ID, tag, false); err != nil {
			return m.ID, fmt.Errorf("snapshot %d is there, its tag is not: %w", m.ID, err)
		}
	}
	if note := c.String("note"); note != "" {
		if err := store.Note(m.ID, note); err != nil {
			return m.ID, fmt.Errorf("snapshot %d is there, its note is not: %w", m.ID, err)
		}
	}
	return m.ID, nil
}
