package ci

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/record"
	"github.com/millrace-io/millrace/host/replay"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
)

// ErrRefused: the slice or the change is not what can be compared; nothing ran.
var ErrRefused = errors.New("not compared")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...))
}

// Options say what is compared.
type Options struct {
	Slice   string // path of an archive with input
	Modules []Module
	// File and Text are a changed pipeline file, its path absolute; empty: the slice's.
	File     string
	Text     []byte
	WorkDir  string // an empty folder, for the slice's snapshot and state
	CacheDir string // of compiled modules
	Log      *slog.Logger
}

// slice is an opened archive.
type slice struct {
	store    *snapstore.Store
	manifest *checkpoint.Manifest
	input    *record.Recording
	old      *worker.Stored
	file     string
}

// Run compares. The report is not judged yet. Errors: ErrRefused; those of archive.ImportFile and record, with the
// damaged block.
func Run(ctx context.Context, o Options) (*Report, error) {
	s, err := open(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	now, err := s.revise(&o)
	if err != nil {
		return nil, err
	}
	r := &Report{Slice: s.describe(), Change: job.Compare(side(s.old.Graph, s.old.Modules), job.Side{Graph: now.Graph, Digests: now.Digests}, nil)}
	if slices.ContainsFunc(r.Change, func(d job.Difference) bool { return d.Kind == job.ChangeBreaking }) {
		return r, nil // that has no common state to go on from
	}
	if r.Findings, err = s.check(ctx, &o, now, r.Change); err != nil {
		return nil, err
	}
	return r, s.compare(ctx, &o, now, r)
}

// open imports a slice into the work folder.
func open(ctx context.Context, o *Options) (_ *slice, err error) {
	s := &slice{file: o.File}
	if s.file == "" {
		s.file = filepath.Join(filepath.Dir(o.Slice), "pipeline.yaml")
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.store, err = snapstore.Open(filepath.Join(o.WorkDir, "snapshots"), snapstore.Options{}); err != nil {
		return nil, err
	}
	var id checkpoint.ID
	id, err = archive.ImportFile(ctx, snapstore.Disk{}, o.Slice, s.store, archive.ImportOptions{CheckInput: record.CheckAll})
	if err != nil {
		return nil, err
	}
	if s.manifest, err = s.store.Load(id); err != nil {
		return nil, err
	}
	if !s.store.HasInput(id) {
		return nil, refuse("%s has no input; it comes with millrace snapshot export --with-input", o.Slice)
	}
	if s.input, err = record.Open(s.store.InputPath(id)); err != nil {
		return nil, err
	}
	s.old, err = worker.OpenStored(ctx, s.store, s.manifest, s.file, o.CacheDir)
	return s, err
}

func (s *slice) close() error {
	var errs []error
	if s.old != nil {
		errs = append(errs, s.old.Close())
	}
	if s.input != nil {
		errs = append(errs, s.input.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// revise makes the new version.
func (s *slice) revise(o *Options) (*worker.Revised, error) {
	text := o.Text
	if o.File == "" {
		text = s.old.Graph.Text
	}
	text, err := ReplaceModules(text, o.Modules)
	if err != nil {
		return nil, refuse("%w", err)
	}
	own, with := map[string]bool{}, "the changed pipeline"
	for _, m := range o.Modules {
		own[m.Path] = true
		with += ", " + m.Path
	}
	now, err := s.old.Revise(s.file, text, own, o.File != "")
	if err != nil {
		return nil, refuse("%s: %w", with, err)
	}
	if err := s.input.Fits(now.Graph); err != nil {
		return nil, err
	}
	return now, nil
}

func (s *slice) describe() Slice {
	e := s.input.End
	d := Slice{Job: s.manifest.Job, Snapshot: s.manifest.ID, Records: e.Records, FromMS: e.Times[0], ToMS: e.Times[1], Over: e.Over()}
	for _, src := range s.input.Header.Sources {
		d.Sources = append(d.Sources, src.Operator)
	}
	return d
}

// describer names positions by the sources that a node's records come from.
func (s *slice) describer(g *operators.Graph, n *operators.Node) func(abi.Position) string {
	var sources []string
	seen := map[string]bool{}
	var above func(n *operators.Node)
	above = func(n *operators.Node) {
		if seen[n.ID] {
			return
		}
		seen[n.ID] = true
		if n.Source != nil {
			sources = append(sources, n.ID)
		}
		for _, e := range n.Inputs {
			for _, x := range g.Nodes {
				if x.ID == e.From {
					above(x)
				}
			}
		}
	}
	above(n)
	return func(p abi.Position) string {
		for _, id := range sources {
			if text := s.input.Describe(id, p); text != "" && p != abi.NoPosition {
				return text
			}
		}
		return "a window or timer"
	}
}

// side is a pipeline with the modules that a snapshot names.
func side(g *operators.Graph, refs []checkpoint.ModuleRef) job.Side {
	s := job.Side{Graph: g, Digests: map[string]string{}}
	for _, ref := range refs {
		s.Digests[ref.Operator] = ref.Digest
	}
	return s
}

// compare plays the input to both versions.
func (s *slice) compare(ctx context.Context, o *Options, now *worker.Revised, r *Report) error {
	found := map[string]*Operator{}
	played, err := replay.Run(ctx, replay.Options{Store: s.store, From: s.manifest.ID,
		Code:      replay.Code{Graph: s.old.Graph, Module: s.old.Module},
		Candidate: &replay.Code{Graph: now.Graph, Module: now.Module},
		Source:    func(n *operators.Node) (operators.Source, error) { return s.input.Source(n), nil },
		Batch:     1, Scratch: filepath.Join(o.WorkDir, "replay"), Log: o.Log,
		Differs: func(d *replay.Difference) {
			op := found[d.Operator]
			if op == nil {
				op = &Operator{}
				found[d.Operator] = op
			}
			op.add(d)
		}})
	if errors.Is(err, replay.ErrIncomparable) {
		return refuse("%w", err)
	}
	if err != nil {
		return err
	}
	if err := played.Close(); err != nil {
		return err
	}
	out := played.Report
	for _, n := range out.Notes {
		if !strings.Contains(n, ": module changed from ") { // Change says so
			r.Notes = append(r.Notes, n)
		}
	}
	slices.Sort(r.Notes)
	for _, n := range now.Graph.Nodes {
		for _, x := range out.Operators {
			if x.ID != n.ID {
				continue
			}
			op := found[n.ID]
			if op == nil {
				op = &Operator{}
			}
			op.name(s.describer(now.Graph, n))
			op.ID, op.Function, op.Old, op.New = x.ID, x.Function, x.Old, x.New
			op.Records, op.Timers, op.OldFuel, op.NewFuel = x.Records, x.Timers, x.OldFuel.Total, x.NewFuel.Total
			op.Stopped, op.NotCompared = x.Stopped, x.NotCompared
			r.Operators = append(r.Operators, op)
		}
	}
	return nil
}
