package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// Options say what is recorded.
type Options struct {
	// Graph is the pipeline in force behind the snapshot.
	Graph *operators.Graph
	From  *checkpoint.Manifest
	// To ends the recording at the positions of a later snapshot; nil: at Records, or where the input ends now.
	To      *checkpoint.Manifest
	Records int64    // at most so many; 0: any number
	Keys    []string // only records with one of these keys; empty: all
	Clock   operators.Clock
	Connect connect.Env
	Log     *slog.Logger // nil: none
	// Module compiles the module of a guest node, for sources whose watermarks a function says; nil: those are refused.
	Module func(ctx context.Context, n *operators.Node) (guestop.Module, error)
	// Source makes a node's source; nil: by its connector, with Connect.
	Source func(n *operators.Node) (operators.Source, error)
}

// Write reads every source of a graph again from the positions in a snapshot, as many tasks of it as the job would
// have, and writes what they give to w: one Write per block, memory for a block per task. Operators do not run. The
// task that is furthest behind in event time is read first. Errors: ErrUnreadable, with all sources that can't
// be read again; those of the sources; those of w.
func Write(ctx context.Context, w io.Writer, o Options) (*End, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Source == nil {
		o.Source = func(n *operators.Node) (operators.Source, error) { return connect.Source(n, o.Connect) }
	}
	g := job.Clamp(o.Graph, func(id string) int { return len(splitsOf(o.From, id)) })
	if err := readable(g, &o); err != nil {
		return nil, err
	}
	r := &recorder{o: o, graph: g, end: End{Times: [2]int64{abi.NoTime, abi.NoTime}}}
	return r.write(ctx, w)
}

// splitsOf are the positions of a source in a snapshot.
func splitsOf(m *checkpoint.Manifest, source string) (all []checkpoint.SplitPosition) {
	for _, s := range snapshotsOf(m, source) {
		all = append(all, s.Splits...)
	}
	slices.SortFunc(all, func(a, b checkpoint.SplitPosition) int { return int(a.Index) - int(b.Index) })
	return all
}

// snapshotsOf is what all tasks of a source left, in their order.
func snapshotsOf(m *checkpoint.Manifest, source string) (all []checkpoint.OperatorSnapshot) {
	tasks := slices.SortedStableFunc(slices.Values(m.Tasks), func(a, b checkpoint.TaskSnapshot) int { return a.Task - b.Task })
	for _, t := range tasks {
		for _, s := range t.Operators {
			if s.Operator == source {
				all = append(all, s)
			}
		}
	}
	return all
}

// readable says which sources can't be read again, and why.
func readable(g *operators.Graph, o *Options) error {
	var problems []error
	bad := func(n *operators.Node, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: source %s: %s", ErrUnreadable, n.ID, fmt.Sprintf(format, args...)))
	}
	for _, n := range g.Nodes {
		switch {
		case n.Source == nil:
			continue
		case connect.Promise(n) == operators.PromiseLossy:
			bad(n, "what is taken from a %s is gone; only files and generators can be read again", n.Source.Connector)
		case n.Source.Time != nil && n.Source.Time.Watermarks == operators.WatermarksPunctuated && o.Module == nil:
			bad(n, "its watermarks are said by a function, whose module is not at hand")
		case n.Source.Generator != nil && n.Source.Generator.Records == 0 && o.Records == 0 && o.To == nil:
			bad(n, "it has no end; say how many records, or up to which snapshot")
		case len(o.Keys) > 0 && n.Source.Key == nil && !n.Source.NaturalKey:
			bad(n, "its records have no key yet, so that none can be chosen by key")
		}
		if o.To != nil {
			for _, p := range splitsOf(o.From, n.ID) {
				if !later(p, splitsOf(o.To, n.ID)) {
					bad(n, "snapshot %d is not behind snapshot %d in %s", o.To.ID, o.From.ID, p.Split)
				}
			}
		}
	}
	return errors.Join(problems...)
}

// later says that a split stands at p or behind it.
func later(p checkpoint.SplitPosition, all []checkpoint.SplitPosition) bool {
	i := slices.IndexFunc(all, func(q checkpoint.SplitPosition) bool { return q.Index == p.Index && q.Split == p.Split })
	return i >= 0 && (all[i].Offset >= p.Offset || all[i].Finished)
}

type recorder struct {
	o     Options
	graph *operators.Graph
	tasks []*sourceTask
	end   End
}

func (r *recorder) write(ctx context.Context, to io.Writer) (_ *End, err error) {
	w, err := newWriter(to)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, t := range r.tasks {
			err = errors.Join(err, t.close())
		}
	}()
	h := r.header()
	if err := r.open(ctx, w, h); err != nil {
		return nil, err
	}
	if err := w.begin(h); err != nil {
		return nil, err
	}
	for t := r.next(); t != nil; t = r.next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.poll(t); err != nil {
			return nil, err
		}
	}
	for _, t := range r.tasks {
		if err := t.out.flush(); err != nil {
			return nil, err
		}
		r.end.Tasks = append(r.end.Tasks, t.ended())
	}
	return &r.end, w.end(&r.end)
}

func (r *recorder) header() *Header {
	h := &Header{Format: FormatVersion, Job: r.graph.Name, Snapshot: r.o.From.ID, Limit: r.o.Records, Keys: r.o.Keys}
	if r.o.To != nil {
		h.To = r.o.To.ID
	}
	for _, n := range r.graph.Nodes {
		if n.Source != nil {
			h.Sources = append(h.Sources, sourceOf(n, splitsOf(r.o.From, n.ID)))
		}
	}
	return h
}

// sourceOf describes a source node for a recording.
func sourceOf(n *operators.Node, splits []checkpoint.SplitPosition) Source {
	return Source{Operator: n.ID, Parallelism: n.Parallelism, Places: placesOf(n), Schema: n.Schema, Key: n.Source.Key,
		Keyed: n.Source.Key != nil || n.Source.NaturalKey, Splits: splits}
}

// open makes the tasks of every source.
func (r *recorder) open(ctx context.Context, w *writer, h *Header) error {
	number := 0
	for _, n := range r.graph.Nodes {
		if n.Source == nil {
			continue
		}
		group := operators.NewSourceGroup(n.Parallelism)
		for i := range n.Parallelism {
			t, err := r.openTask(ctx, n, i, group)
			if err != nil {
				return err
			}
			t.out = &taskWriter{w: w, source: number, task: i, last: map[uint32]int64{}}
			r.tasks = append(r.tasks, t)
			if h.Sources[number].Places == placesLine {
				t.places = newLineCounter(n, t.src.Positions())
			}
		}
		h.Sources[number].Splits = r.known(n.ID)
		number++
	}
	return nil
}

// known are the splits of all tasks of a source as they stand; a source new in the snapshot has its first ones.
func (r *recorder) known(source string) (all []checkpoint.SplitPosition) {
	for _, t := range r.tasks {
		if t.node.ID == source {
			all = append(all, t.src.Positions()...)
		}
	}
	slices.SortFunc(all, func(a, b checkpoint.SplitPosition) int { return int(a.Index) - int(b.Index) })
	return all
}

func (r *recorder) openTask(ctx context.Context, node *operators.Node, i int, group *operators.SourceGroup) (*sourceTask, error) {
	n := unpaced(node)
	src, err := r.o.Source(n)
	if err != nil {
		return nil, err
	}
	t := &sourceTask{node: n, task: i, src: src, group: group, mark: abi.MinWatermark, until: map[uint32]checkpoint.SplitPosition{}}
	oc := &operators.Context{Context: ctx, Job: r.graph.Name, Operator: n.ID, Task: i, Parallelism: n.Parallelism,
		Range: state.TaskRange(i, n.Parallelism), Hasher: state.Hasher{Seed: r.o.From.Seed}, Clock: r.o.Clock, Log: r.o.Log, Batch: r.graph.BatchMax,
		Restored: snapshotsOf(r.o.From, n.ID), Snapshot: r.o.From.ID, Group: group, Describe: src.Describe, Crash: func(string) {}}
	if t := n.Source.Time; t != nil && t.Punctuate != nil {
		oc.Punctuator = r.punctuator(n.ID, t.Punctuate)
	}
	if err := src.Open(oc); err != nil {
		return nil, errors.Join(fmt.Errorf("source %s: %w", n.ID, err), src.Close())
	}
	if s, ok := src.(operators.Timed); ok {
		t.intake = s.Intake()
	}
	if r.o.To != nil {
		for _, p := range splitsOf(r.o.To, n.ID) {
			t.until[p.Index] = p
		}
		t.toOver = overIn(r.o.To, n.ID, i)
	}
	return t, nil
}

// punctuator is what makes a source's watermark function.
func (r *recorder) punctuator(source string, g *operators.GuestNode) func(*operators.Context) (operators.Punctuator, error) {
	return func(ctx *operators.Context) (operators.Punctuator, error) {
		m, err := r.o.Module(ctx, &operators.Node{ID: operators.PunctuatorID(source), Kind: operators.NodeGuest, Guest: g})
		if err != nil {
			return nil, err
		}
		return guestop.NewPunctuator(guestop.CallerConfig{Node: g, Module: m, Context: ctx})
	}
}

// overIn says that a source's task had read everything in a snapshot.
func overIn(m *checkpoint.Manifest, source string, task int) bool {
	return m.Finished || slices.ContainsFunc(m.Tasks, func(t checkpoint.TaskSnapshot) bool {
		return t.Vertex == source && t.Task == task && t.Finished
	})
}

// unpaced is a source node that gives what it has at once.
func unpaced(n *operators.Node) *operators.Node {
	if n.Source.Generator == nil || n.Source.Generator.Rate == 0 {
		return n
	}
	c, s, gen := *n, *n.Source, *n.Source.Generator
	gen.Rate = 0
	s.Generator, c.Source = &gen, &s
	return &c
}

// next is the task to read: of those that may have something the one whose watermark is least; nil: the recording
// is at its end.
func (r *recorder) next() *sourceTask {
	if r.o.Records > 0 && r.end.Records >= r.o.Records {
		return nil
	}
	var least *sourceTask
	for _, t := range r.tasks {
		if t.over || t.done || t.waits {
			continue
		}
		if least == nil || t.mark < least.mark || t.mark == least.mark && t.records < least.records {
			least = t
		}
	}
	return least
}

// poll takes one batch of a task.
func (r *recorder) poll(t *sourceTask) error {
	most := r.graph.BatchMax
	if r.o.Records > 0 {
		most = int(min(int64(most), r.o.Records-r.end.Records))
	}
	moved, err := t.poll(most)
	if err != nil {
		return fmt.Errorf("source %s: %w", t.node.ID, err)
	}
	if moved { // others may have waited for it
		for _, o := range r.tasks {
			if o != t {
				o.waits = false
			}
		}
	}
	b := &t.event.batch
	if r.o.To != nil {
		t.cutAt(b)
		t.cutAt(&t.event.rejected)
	}
	if len(r.o.Keys) > 0 {
		r.end.Dropped += int64(chosen(b, r.o.Keys))
	}
	r.end.Records += int64(b.Len())
	r.end.Rejected += int64(t.event.rejected.Len())
	t.records += int64(b.Len())
	for i := range b.Len() {
		if ms := b.Frame(i).Time(); ms != abi.NoTime {
			if r.end.Times[0] == abi.NoTime || ms < r.end.Times[0] {
				r.end.Times[0] = ms
			}
			r.end.Times[1] = max(r.end.Times[1], ms)
		}
	}
	return t.write()
}
