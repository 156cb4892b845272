package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/spec"
)

func restoreSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("restore", "decide that the next run starts from a snapshot", "ID",
		"Lists what that run will withdraw: later checkpoints are dropped, later savepoints stay beside the line, output\n"+
			"published later is taken back into the state folder. Nothing is changed before it runs; restore latest takes the\n"+
			"decision back. The pipeline must not be running.\n"+refWords,
		func(c *cli.Context) error { return restoreSnapshot(c, s) })
}

// restoring says what the next run withdraws.
type restoring struct {
	ID     checkpoint.ID   `json:"id"`
	Drop   []checkpoint.ID `json:"drop"`   // checkpoints after it
	Beside []checkpoint.ID `json:"beside"` // savepoints and tagged ones after it: they stay
	Output []string        `json:"output"` // published files that it takes back
}

func restoreSnapshot(c *cli.Context, s streams) error {
	t, err := targetOf(c, 1, 1)
	if err != nil {
		return err
	}
	if err := t.there(); err != nil {
		return err
	}
	cl, err := t.dial()
	if err != nil {
		return err
	}
	if cl != nil {
		cl.Close()
		return &exitError{code: exitBusy, kind: "locked", err: errors.New("the pipeline is running: stop it first, or take back what it runs with millrace rollback")}
	}
	store, err := t.write() // so that none starts meanwhile
	if err != nil {
		return err
	}
	defer store.Close()
	id, err := resolve(store, t.words[0])
	if err != nil {
		return err
	}
	if err := store.Verify(c.Context, id, true); err != nil {
		return storeError(err)
	}
	out, err := t.restoring(c, store, id)
	if err != nil {
		return storeError(err)
	}
	pending := id
	if newest, err := store.Resolve("latest"); err == nil && newest == id {
		pending = 0
	}
	if err := job.SetPendingRestore(t.dir, pending); err != nil {
		return storeError(err)
	}
	return show(c, s, out, func(w io.Writer) { out.print(w) })
}

func (t *target) restoring(c *cli.Context, store *snapstore.Store, id checkpoint.ID) (out restoring, err error) {
	out = restoring{ID: id, Drop: []checkpoint.ID{}, Beside: []checkpoint.ID{}, Output: []string{}}
	infos, err := store.List()
	if err != nil {
		return out, err
	}
	for _, i := range infos {
		switch {
		case i.ID <= id || i.Withdrawn:
		case i.Kept:
			out.Beside = append(out.Beside, i.ID)
		default:
			out.Drop = append(out.Drop, i.ID)
		}
	}
	m, err := store.Load(id)
	if err != nil {
		return out, err
	}
	g, err := t.graphOf(c, store, m)
	if err != nil {
		return out, err
	}
	for _, n := range g.Nodes {
		files, err := connect.Later(n, partsOf(m, n.ID))
		if err != nil {
			return out, err
		}
		out.Output = append(out.Output, files...)
	}
	return out, nil
}

// partsOf is what all tasks of an operator left in a snapshot.
func partsOf(m *checkpoint.Manifest, operator string) (parts []checkpoint.OperatorSnapshot) {
	for i := range m.Tasks {
		for _, o := range m.Tasks[i].Operators {
			if o.Operator == operator {
				parts = append(parts, o)
			}
		}
	}
	return parts
}

// graphOf is the pipeline of a snapshot, read as if its file were where the command's is: the file named, that
// of the folder .millrace is in, or else the working directory.
func (t *target) graphOf(c *cli.Context, store *snapstore.Store, m *checkpoint.Manifest) (*operators.Graph, error) {
	text, err := store.Read(c.Context, m.InForce().Pipeline)
	if err != nil {
		return nil, err
	}
	file := t.file
	if file == "" {
		file = "pipeline.yaml"
		if above := filepath.Dir(t.dir); filepath.Base(above) == ".millrace" {
			file = filepath.Join(filepath.Dir(above), file)
		}
	}
	if file, err = filepath.Abs(file); err != nil {
		return nil, err
	}
	return spec.Parse(file, text, spec.Options{})
}

func (r *restoring) print(w io.Writer) {
	fmt.Fprintf(w, "the next run starts from snapshot %d\n", r.ID)
	for _, id := range r.Drop {
		fmt.Fprintf(w, "  checkpoint %d is dropped by it\n", id)
	}
	for _, id := range r.Beside {
		fmt.Fprintf(w, "  snapshot %d stays, beside the line\n", id)
	}
	const most = 20
	for i, f := range r.Output {
		if i == most {
			fmt.Fprintf(w, "  and %d more files\n", len(r.Output)-most)
			break
		}
		fmt.Fprintf(w, "  %s is taken back\n", f)
	}
}
