package why

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
)

// run is the job run once more, until the output comes.
type run struct {
	x       *explainer
	job     *job.Job
	cancel  context.CancelFunc
	records atomic.Int64 // that sources gave
	watches map[string]*watch
	over    atomic.Bool // the output has come: nothing is noted any more

	mu  sync.Mutex
	hit *hit
	err error
}

// hit is what gave the output.
type hit struct {
	node  *operators.Node
	key   []byte
	keyed bool
}

// watch is what is noted of an operator, and how.
type watch struct {
	node  *operators.Node
	giver *giver // nil: it does not give the output
	// wanted: the steps that are told. by: only records of this key go in; nil: all do.
	wanted func(f abi.Frame, timer bool) bool
	by     []byte
	notes  []noter // by task, as they are made
}

// noter has noted steps.
type noter interface{ told() ([]*Step, int) }

// run prepares one; what it needs of the snapshot is in a fork of its own.
func (x *explainer) run(ctx context.Context) (*run, error) {
	x.runs++
	dir := filepath.Join(x.Scratch, fmt.Sprint(x.runs))
	r := &run{x: x, watches: map[string]*watch{}}
	if x.From != nil {
		store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
		if err != nil {
			return nil, err
		}
		_, err = store.Fork(ctx, x.Store, x.From.ID, "")
		if err = errors.Join(err, store.Close()); err != nil {
			return nil, err
		}
	}
	g := *x.Graph
	g.Checkpoint.Interval, g.Linger = 0, 0
	j, err := job.New(ctx, job.Options{Graph: &g, StateDir: dir, Module: x.Module, Connect: x.Connect, Clock: x.Clock, Log: x.Log, Restarts: -1,
		Source: r.source, Operator: r.native, Guest: r.guest, Window: r.window})
	if err != nil {
		return nil, err
	}
	r.job = j
	return r, nil
}

func (r *run) close() { _ = r.job.Close() } // its folder is removed

// do runs until the output comes, or the input ends.
func (r *run) do(ctx context.Context) error {
	ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	_, err := r.job.Run(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if r.hit != nil {
		return nil
	}
	return err
}

// watch notes the steps of an operator that wanted says yes to.
func (r *run) watch(n *operators.Node, wanted func(abi.Frame, bool) bool, g *giver) {
	r.watches[n.ID] = &watch{node: n, wanted: wanted, giver: g}
}

// find looks among the outputs of an operator. by: the steps of this key are told; nil: none but the one that
// gives the output.
func (r *run) find(g giver, by []byte) {
	pos := r.x.Target.Pos
	r.watch(g.node, func(f abi.Frame, timer bool) bool {
		switch {
		case by != nil && bytes.Equal(f.Key(), by):
			return true
		case pos == nil:
			return by == nil
		case *pos == abi.NoPosition:
			return by == nil && timer
		}
		return !timer && f.Pos() == *pos
	}, &g)
	r.watches[g.node.ID].by = by
}

// fate is what becomes of a record on its way into a watched guest operator.
func (w *watch) fate(f abi.Frame) fate {
	switch {
	case w.wanted(f, false):
		return alone
	case w.by != nil && w.node.Guest.Keyed:
		return left
	}
	return along
}

// steps of an operator, of all its tasks: a key is in one.
func (r *run) steps(operator string) (steps []*Step, left int) {
	for _, n := range r.watches[operator].notes {
		s, l := n.told()
		steps, left = append(steps, s...), left+l
	}
	if steps == nil {
		steps = []*Step{}
	}
	return steps, left
}

// came notes that the output is there, given by f's operator out of cause.
func (r *run) came(n *operators.Node, key []byte, keyed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hit == nil {
		r.hit = &hit{n, bytes.Clone(key), keyed}
	}
}

// end lets the run end, since the output has come.
func (r *run) end() {
	r.over.Store(true)
	r.cancel()
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	r.cancel()
}

// match says whether an output of a giver is the one.
func (r *run) match(g *giver, f abi.Frame) bool {
	if g == nil || int(f.Output()) != g.output || r.over.Load() {
		return false
	}
	is, err := r.x.Target.is(f, g.rekeys)
	if err != nil {
		r.fail(err)
	}
	return is
}

func (r *run) source(n *operators.Node) (operators.Source, error) {
	if n.Source.Generator != nil && n.Source.Generator.Rate > 0 { // as fast as it goes
		c, s, g := *n, *n.Source, *n.Source.Generator
		g.Rate = 0
		c.Source, s.Generator = &s, &g
		n = &c
	}
	src, err := connect.Source(n, r.x.Connect)
	if err != nil {
		return nil, err
	}
	rep := &replayed{Source: src, count: func(n int) { r.records.Add(int64(n)) }}
	if w := r.watches[n.ID]; w != nil {
		rep.look = func(b *abi.Batch) { r.look(w, src, b) }
	}
	return rep, nil
}

func (r *run) native(n *operators.Node) (operators.Operator, error) {
	if n.Kind == operators.NodeSink {
		return &drain{}, nil
	}
	return connect.Operator(n, r.x.Connect)
}

func (r *run) guest(n *operators.Node, cfg guestop.Config) (operators.Operator, *guestop.Op) {
	w := r.watches[n.ID]
	if w == nil {
		op := guestop.New(cfg)
		return op, op
	}
	rec, err := newRecorder(n, r.x.Steps)
	if err != nil {
		r.fail(err)
	} else {
		rec.wanted = func(f abi.Frame, timer bool) bool { return !r.over.Load() && w.wanted(f, timer) }
		rec.found = func(f abi.Frame) bool { return r.match(w.giver, f) }
		rec.came = func(cause abi.Frame) { r.came(n, cause.Key(), n.Guest.Keyed) }
		rec.end = r.end
		w.notes = append(w.notes, rec)
		cfg.Observe = rec
	}
	op := guestop.New(cfg)
	return &slicer{inner: op, fate: w.fate, opened: func(ctx *operators.Context) { rec.describe = ctx.Describe }}, op
}

func (r *run) window(n *operators.Node, op *window.Op) operators.Operator {
	w := r.watches[n.ID]
	if w == nil {
		return op
	}
	t := newTap(n, op, r.x.Steps)
	t.match = func(f abi.Frame) bool { return r.match(w.giver, f) }
	t.by, t.over = w.by, r.over.Load
	t.came = func(f abi.Frame) {
		r.came(n, f.Key(), !n.Window.Unkeyed)
		r.end()
	}
	w.notes = append(w.notes, t)
	return t
}
