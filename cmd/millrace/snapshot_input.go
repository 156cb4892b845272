package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/record"
	"github.com/millrace-io/millrace/host/worker"
)

// inputFlags are those of export that only the input has.
var inputFlags = []string{"records", "to", "keys"}

// followed is what writes the input that followed a snapshot, nil without --with-input; done frees what it needs.
// Once it has run, out has what it wrote.
func (t *target) followed(c *cli.Context, store *snapstore.Store, id checkpoint.ID, out *exported) (input archive.Input, done func(), err error) {
	given := ""
	for _, f := range inputFlags {
		if c.IsSet(f) {
			given = f
		}
	}
	switch {
	case !c.Bool("with-input") && given != "":
		return nil, nil, refused(fmt.Errorf("--%s is about the input: it wants --with-input", given))
	case !c.Bool("with-input"):
		return nil, func() {}, nil
	case store.HasInput(id) && given != "":
		return nil, nil, refused(fmt.Errorf("snapshot %d came with its input, which is exported as it is: --%s can't choose from it", id, given))
	case store.HasInput(id):
		return func(_ context.Context, w io.Writer) error { return copyInput(store, id, w, out) }, func() {}, nil
	case c.Int64("records") < 0:
		return nil, nil, refused(fmt.Errorf("--records %d: expected a number of records", c.Int64("records")))
	}
	o := record.Options{Records: c.Int64("records"), Keys: c.StringSlice("keys"), Clock: clock.Wall{}}
	if o.From, err = store.Load(id); err != nil {
		return nil, nil, storeError(err)
	}
	if to := c.String("to"); to != "" {
		last, err := resolve(store, to)
		if err != nil {
			return nil, nil, err
		}
		if o.To, err = store.Load(last); err != nil {
			return nil, nil, storeError(err)
		}
	}
	code, err := t.codeOf(c, store, o.From)
	if err != nil {
		return nil, nil, inputError(err)
	}
	o.Graph, o.Module = code.Graph, code.Module
	return func(ctx context.Context, w io.Writer) error {
		out.Input, err = record.Write(ctx, w, o)
		return err
	}, func() { code.Close() }, nil
}

// codeOf is the code in force behind a snapshot, from the store; its paths are relative to the pipeline file.
func (t *target) codeOf(c *cli.Context, store *snapstore.Store, m *checkpoint.Manifest) (*worker.Stored, error) {
	g, err := t.graphOf(c, store, m)
	if err != nil {
		return nil, err
	}
	file := t.file
	if file == "" {
		for _, n := range g.Nodes {
			if n.Source != nil && n.Source.File != nil {
				file = filepath.Join(n.Source.File.Dir, "pipeline.yaml")
			}
		}
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	return worker.OpenStored(c.Context, store, m, file, cacheDir())
}

// copyInput exports an input as it came.
func copyInput(store *snapstore.Store, id checkpoint.ID, w io.Writer, out *exported) error {
	r, err := store.OpenInput(id)
	if err != nil {
		return err
	}
	defer r.Close()
	_, end, err := record.Copy(w, r)
	out.Input = end
	return err
}

func verifyInput(store *snapstore.Store, id checkpoint.ID) error {
	r, err := store.OpenInput(id)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, _, err := record.Check(r); err != nil {
		return fmt.Errorf("%s: %w", store.InputPath(id), err)
	}
	return nil
}

// inputEnds says why there is no more of an input.
func inputEnds(e *record.End) string {
	switch {
	case e.Over():
		return ", to the end of its input"
	case e.Dropped > 0:
		return fmt.Sprintf(" with these keys; %s others are left out", thousands(e.Dropped))
	}
	return ""
}

// inputError gives an error of a recorded input its exit code.
func inputError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrDamaged):
		return &exitError{code: exitRefused, kind: "damaged", err: err}
	case errors.Is(err, record.ErrUnreadable), errors.Is(err, record.ErrNotRecording), errors.Is(err, record.ErrOther), errors.Is(err, job.ErrUnfit):
		return refused(err)
	}
	return storeError(err)
}
