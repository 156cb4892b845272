package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/record"
)

func exportSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("export", "write a snapshot into one file", "ID FILE",
		"The file has the code too, and can be imported anywhere. It is there whole or not at all. With --with-input it also\n"+
			"has the input that followed the snapshot, read again from the sources, for millrace ci. "+refWords,
		func(c *cli.Context) error { return exportSnapshot(c, s) },
		&cli.BoolFlag{Name: "with-input", Usage: "add the input that followed, as far as it is there now"},
		&cli.Int64Flag{Name: "records", Usage: "at most `N` records of it"},
		&cli.StringFlag{Name: "to", Usage: "only up to snapshot `ID`"},
		&cli.StringSliceFlag{Name: "keys", Usage: "only records with one of these `KEYS`"})
}

// exported is a snapshot in a file.
type exported struct {
	ID    checkpoint.ID `json:"id"`
	File  string        `json:"file"`
	Bytes int64         `json:"bytes"`
	Input *record.End   `json:"input,omitempty"` // what followed, with --with-input
}

func exportSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 2, 2)
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	id, err := resolve(store, t.words[0])
	if err != nil {
		return err
	}
	out := exported{ID: id, File: t.words[1]}
	input, done, err := t.followed(c, store, id, &out)
	if err != nil {
		return err
	}
	defer done()
	if err := archive.ExportInputFile(c.Context, snapstore.Disk{}, out.File, store, id, archive.Sealing{}, input); err != nil {
		return inputError(err)
	}
	st, err := os.Stat(out.File)
	if err != nil {
		return storeError(err)
	}
	out.Bytes = st.Size()
	return show(c, s, out, func(w io.Writer) {
		fmt.Fprintf(w, "snapshot %d is in %s, %s bytes\n", out.ID, out.File, thousands(out.Bytes))
		if in := out.Input; in != nil {
			fmt.Fprintf(w, "with the %s records that followed it%s\n", thousands(in.Records), inputEnds(in))
		}
	})
}

func importSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("import", "add a snapshot from a file that export wrote", "FILE",
		"It is kept like a savepoint, beside the line that the next run goes on with; where there is no state yet the\n"+
			"next run starts from it.",
		func(c *cli.Context) error { return importSnapshot(c, s) },
		&cli.BoolFlag{Name: "renumber", Usage: "give it a new id if its own is taken"})
}

func importSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 1, 1)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(t.words[0])
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return refused(err)
	}
	out, err := t.change(c, storechange.Change{Import: &storechange.Import{Path: path, Renumber: c.Bool("renumber")}})
	if err != nil {
		return err
	}
	store, err := t.read()
	if err != nil {
		return err
	}
	defer store.Close()
	m, err := store.Load(out.ID)
	if err != nil {
		return storeError(err)
	}
	if t.graph != nil && t.graph.Name != m.Job {
		fmt.Fprintf(s.err, "note: the snapshot is of pipeline %s, this one is %s: it can be looked at and forked, not restored\n", m.Job, t.graph.Name)
	}
	return show(c, s, out, func(w io.Writer) {
		with := ""
		if store.HasInput(out.ID) {
			with = ", with the input that followed it"
		}
		fmt.Fprintf(w, "snapshot %d of %s is imported%s\n", out.ID, m.Job, with)
	})
}
