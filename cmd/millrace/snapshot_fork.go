package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators"
)

func forkSnapshotCommand(s streams) *cli.Command {
	return snapshotVerb("fork", "start a second job from a snapshot, beside the first", "ID",
		"The new job has the state of the snapshot, reads its sources again from there and writes elsewhere, by another\n"+
			"pipeline file or with other modules; the first goes on undisturbed. Files are shared, so that it takes no time and\n"+
			"no space. It begins when the new pipeline is run.\n"+refWords,
		func(c *cli.Context) error { return forkSnapshot(c, s) },
		&cli.StringFlag{Name: "to", Usage: "pipeline `FILE` of the new job, or its state folder; wanted"},
		&cli.StringFlag{Name: "name", Usage: "`NAME` of the new job (default: that of its pipeline file)"},
		&cli.StringSliceFlag{Name: "drop", Usage: "`OPERATOR` that the new pipeline does not have, whose state is left behind"})
}

// forked is a job that can start.
type forked struct {
	Job      string        `json:"job"`
	From     string        `json:"from"` // job of the snapshot
	ID       checkpoint.ID `json:"id"`
	StateDir string        `json:"state_dir"`
	Pipeline string        `json:"pipeline,omitempty"` // its file
	Bytes    int64         `json:"bytes"`
	Millis   int64         `json:"ms"`
	Notes    []string      `json:"notes,omitempty"`
}

func forkSnapshot(c *cli.Context, s streams) error {
	began := nowMS()
	t, err := targetOf(c, 1, 1)
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
	m, err := store.Load(id)
	if err != nil {
		return storeError(err)
	}
	to, g, err := forkTo(c)
	if err != nil {
		return err
	}
	first, err := t.graphOf(c, store, m)
	if err != nil {
		return storeError(err)
	}
	out := &forked{Job: to.name, From: m.Job, ID: id, StateDir: to.dir, Pipeline: to.file}
	if err := t.distinct(first, to, g); err != nil {
		return err
	}
	if g == nil {
		g = first
	}
	left := leftBehind(c.StringSlice("drop"), first, g)
	if out.Notes, err = startable(m, to.name, g, left); err != nil {
		return refused(err)
	}
	signer, err := (&target{file: to.file, graph: g}).signer()
	if err != nil {
		return err
	}
	if err := fork(c.Context, store, to, out, left, signer); err != nil {
		return storeError(err)
	}
	out.Millis = nowMS() - began
	return show(c, s, out, func(w io.Writer) {
		fmt.Fprintf(w, "job %s starts from snapshot %d of %s: %s bytes, shared, in %d ms\nstate in %s\n", out.Job, out.ID, out.From, thousands(out.Bytes), out.Millis, out.StateDir)
		for _, n := range out.Notes {
			fmt.Fprintf(w, "note: %s\n", n)
		}
		if out.Pipeline != "" {
			fmt.Fprintf(w, "next: millrace run %s\n", out.Pipeline)
		}
	})
}

// destination is where a fork goes.
type destination struct{ name, dir, file string }

// forkTo finds it: --to is a pipeline file, else a state folder.
func forkTo(c *cli.Context) (to destination, g *operators.Graph, err error) {
	path := c.String("to")
	if path == "" {
		return to, nil, refused(errors.New("fork wants --to: the pipeline file of the new job, or its state folder"))
	}
	to.name, to.dir = c.String("name"), path
	st, err := os.Stat(path)
	if err == nil && st.IsDir() || err != nil && filepath.Ext(path) != ".yaml" && filepath.Ext(path) != ".yml" {
		if to.name == "" {
			return to, nil, refused(errors.New("fork into a state folder wants --name"))
		}
		return to, nil, nil
	}
	if g, err = load(c.Context, path); err != nil {
		return to, nil, err
	}
	if to.name != "" && to.name != g.Name {
		return to, nil, refused(fmt.Errorf("--name is %s, %s says name: %s", to.name, path, g.Name))
	}
	to.name, to.file = g.Name, path
	to.dir = filepath.Join(filepath.Dir(path), ".millrace", g.Name)
	return to, g, nil
}

// distinct refuses a fork that would write where the first job does.
func (t *target) distinct(first *operators.Graph, to destination, g *operators.Graph) error {
	var problems []string
	if same(t.dir, to.dir) {
		problems = append(problems, fmt.Sprintf("its state folder %s is the first job's", to.dir))
	}
	if g != nil {
		for _, n := range g.Nodes {
			for _, o := range first.Nodes {
				if p := outputPath(n); p != "" && same(p, outputPath(o)) {
					problems = append(problems, fmt.Sprintf("operator %s writes to %s, as %s of the first job does", n.ID, p, o.ID))
				}
			}
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return refused(fmt.Errorf("the fork would collide with %s: %s; name other paths", first.Name, strings.Join(problems, "; ")))
}

// outputPath is where a sink writes; empty: nowhere that another could.
func outputPath(n *operators.Node) string {
	if n.Sink == nil || n.Sink.Path == "" {
		return ""
	}
	if filepath.IsAbs(n.Sink.Path) {
		return n.Sink.Path
	}
	return filepath.Join(n.Sink.Dir, n.Sink.Path)
}

// same says whether two paths, whose ends may not be there yet, are one place.
func same(a, b string) bool { return a != "" && b != "" && whole(a) == whole(b) }

// whole is a path without links as far as it is there.
func whole(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	rest := ""
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

// leftBehind are the operators whose part of a snapshot a fork does not take: sinks, which begin with nothing
// written, and those that may be dropped.
func leftBehind(drop []string, graphs ...*operators.Graph) []string {
	left := slices.Clone(drop)
	for _, g := range graphs {
		for _, n := range g.Nodes {
			if n.Sink != nil {
				left = append(left, n.ID)
			}
		}
	}
	return left
}

// startable says whether a pipeline can start from a snapshot of another job, and what is to be said of it.
func startable(m *checkpoint.Manifest, name string, g *operators.Graph, left []string) ([]string, error) {
	as := *m
	as.Job = name
	target := checkpoint.Target{Job: name, Droppable: left}
	for _, n := range g.Nodes {
		target.Operators = append(target.Operators, n.ID)
	}
	r, err := checkpoint.PlanRestore(&as, target)
	if err != nil {
		return nil, err
	}
	if c := m.InForce().Canary; c != nil {
		for _, mod := range c.Modules {
			r.Notes = append(r.Notes, fmt.Sprintf("operator %s has a canary, %.12s with %v: the fork runs what its pipeline file names for all keys", mod.Operator, mod.Digest, c))
		}
	}
	return r.Notes, nil
}

// fork makes the new job's store.
func fork(ctx context.Context, from *snapstore.Store, to destination, out *forked, left []string, signer checkpoint.Signer) error {
	s, err := snapstore.Open(filepath.Join(to.dir, "snapshots"), snapstore.Options{Crash: crashpoint.Hit, NowMS: nowMS, Signer: signer})
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := s.ForkWith(ctx, from, out.ID, func(m *checkpoint.Manifest) {
		m.Job, m.Canary = out.Job, nil
		if m.Next != nil {
			m.Next.Canary = nil
		}
		for i := range m.Tasks {
			t := &m.Tasks[i]
			t.Operators = slices.DeleteFunc(t.Operators, func(o checkpoint.OperatorSnapshot) bool { return slices.Contains(left, o.Operator) })
		}
	})
	if err != nil {
		return err
	}
	out.Bytes = m.TotalBytes()
	return nil
}
