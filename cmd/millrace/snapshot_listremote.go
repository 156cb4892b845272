package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
)

// remoteRow is one snapshot of a store as printed.
type remoteRow struct {
	ID      checkpoint.ID `json:"id"`
	Kind    string        `json:"kind"`
	Parent  checkpoint.ID `json:"parent,omitempty"`
	Created time.Time     `json:"created"`
	Objects int           `json:"objects"`
	Bytes   int64         `json:"bytes"`       // as stored, each object once
	Added   int64         `json:"added_bytes"` // of them, stored for it
	SHA256  string        `json:"sha256"`      // of its manifest
	Code    string        `json:"code"`
}

func listRemote(c *cli.Context, s streams, t *target) error {
	r, err := t.remote()
	if err != nil {
		return err
	}
	all, err := r.Mirror.Contents(c.Context)
	if err != nil {
		return remoteError(r, err)
	}
	rows := make([]remoteRow, 0, len(all))
	for _, e := range all {
		rows = append(rows, remoteRow{ID: e.ID, Kind: e.Kind.String(), Parent: e.Parent, Created: time.UnixMilli(e.CreatedMS).UTC(),
			Objects: e.Objects, Bytes: e.Bytes, Added: e.Added, SHA256: e.Manifest, Code: codeOf(e.File)})
	}
	return show(c, s, rows, func(w io.Writer) {
		if len(rows) == 0 {
			fmt.Fprintf(w, "no snapshot in %s\n", r.URL)
			return
		}
		now := time.Now()
		tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tab, "ID\tKIND\tPARENT\tCREATED (UTC)\tAGE\tSTORED\tADDED\tCODE")
		for _, e := range rows {
			parent := "-"
			if e.Parent != 0 {
				parent = fmt.Sprint(e.Parent)
			}
			fmt.Fprintf(tab, "%d\t%s\t%s\t%s\t%s\t%d\t%d\t%.8s\n", e.ID, e.Kind, parent, e.Created.Format(time.DateTime), ageText(now.Sub(e.Created)), e.Bytes, e.Added, e.Code)
		}
		tab.Flush()
	})
}

func verifyRemote(c *cli.Context, s streams, t *target) error {
	r, err := t.remote()
	if err != nil {
		return err
	}
	if c.Bool("quick") {
		return refused(errors.New("--quick is for the state folder: of a store every byte is read, or nothing is known"))
	}
	ids, err := resolveAllRemote(c.Context, r, t.words)
	if err != nil {
		return err
	}
	if err := r.Mirror.Check(c.Context, ids...); err != nil {
		return remoteError(r, err)
	}
	all, err := r.Mirror.Catalog(c.Context)
	if err != nil {
		return remoteError(r, err)
	}
	if len(ids) == 0 {
		for _, e := range all.Snapshots {
			ids = append(ids, e.ID)
		}
	}
	out := make([]verified, 0, len(ids))
	for _, id := range ids {
		out = append(out, verified{ID: id, OK: true})
	}
	return show(c, s, out, func(w io.Writer) { fmt.Fprintf(w, "%d snapshots in %s are as they were stored\n", len(out), r.URL) })
}

// removedRemote says what went from a store.
type removedRemote struct {
	Removed []checkpoint.ID `json:"removed"`
	Files   int             `json:"files"`
	Bytes   int64           `json:"bytes"`
}

func pruneRemote(c *cli.Context, s streams, t *target, p mirror.Policy) error {
	r, err := t.remote()
	if err != nil {
		return err
	}
	dry := c.Bool("dry-run")
	gone, err := r.Mirror.Prune(c.Context, p, dry)
	if err != nil {
		return remoteError(r, err)
	}
	out := removedRemote{Removed: append([]checkpoint.ID{}, gone...)}
	if !dry {
		got, err := r.Mirror.GC(c.Context)
		if err != nil {
			return remoteError(r, fmt.Errorf("%d snapshots are removed, their files not all: %w", len(gone), err))
		}
		out.Files, out.Bytes = got.Files, got.Bytes
	}
	return show(c, s, out, func(w io.Writer) { out.print(w, r.URL, dry) })
}

func deleteRemote(c *cli.Context, s streams, t *target) error {
	r, err := t.remote()
	if err != nil {
		return err
	}
	ids, err := resolveAllRemote(c.Context, r, t.words)
	if err != nil {
		return err
	}
	if err := r.Mirror.Delete(c.Context, ids...); err != nil {
		return remoteError(r, err)
	}
	got, err := r.Mirror.GC(c.Context)
	if err != nil {
		return remoteError(r, fmt.Errorf("%d snapshots are removed, their files not all: %w", len(ids), err))
	}
	out := removedRemote{Removed: ids, Files: got.Files, Bytes: got.Bytes}
	return show(c, s, out, func(w io.Writer) { out.print(w, r.URL, false) })
}

func (o *removedRemote) print(w io.Writer, url string, dry bool) {
	var ids []string
	for _, id := range o.Removed {
		ids = append(ids, fmt.Sprint(id))
	}
	names := strings.Join(ids, ", ")
	if names == "" {
		names = "none"
	}
	if dry {
		fmt.Fprintf(w, "would be removed from %s: snapshots %s\n", url, names)
		return
	}
	fmt.Fprintf(w, "removed from %s: snapshots %s, and %d files of %s bytes that none needs\n", url, names, o.Files, thousands(o.Bytes))
}
