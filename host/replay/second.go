package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
)

// second is the new version: which operators it has other code of, and a fork of its own with the snapshot as its code
// takes it over.
type second struct {
	store   *snapstore.Store
	from    *checkpoint.Manifest
	parts   map[string]*counterpart
	modules map[string]guestop.Module
	cold    *coldpebble.Env
}

// counterpart is the new version of an operator.
type counterpart struct {
	node                 *operators.Node
	module               guestop.Module // of a guest operator
	oldDigest, newDigest string
	show                 *shower
}

func (s *second) of(id string) *counterpart {
	if s == nil {
		return nil
	}
	return s.parts[id]
}

// prepare finds the operators that are other ones, and lets the new code take over the snapshot, in a fork: what does not
// fit is refused by the job as in an upgrade, and migrations are done.
func (r *run) prepare(ctx context.Context) (s *second, err error) {
	now := r.prepared(r.o.Candidate.Graph)
	s = &second{parts: map[string]*counterpart{}, modules: map[string]guestop.Module{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	digests := map[string]string{}
	for _, n := range now.GuestNodes() {
		m, err := r.o.Candidate.Module(ctx, n)
		if err != nil {
			return nil, err
		}
		s.modules[n.ID] = m
		digests[n.ID] = m.Digest()
	}
	was := map[string]string{}
	for _, ref := range r.from.InForce().Modules {
		was[ref.Operator] = ref.Digest
	}
	if err := s.pair(r.graph, now, was, digests); err != nil {
		return nil, err
	}
	dir := filepath.Join(r.dir, "new")
	if _, err := fork(ctx, r.o.Store, r.o.From, dir, now); err != nil {
		return nil, err
	}
	if err := r.takeOver(ctx, now, dir); err != nil {
		return nil, err
	}
	if s.store, err = openStore(dir); err != nil {
		return nil, err
	}
	if s.from, err = s.store.Latest(ctx); err != nil {
		return nil, err
	}
	s.cold = newCold(dir)
	return s, nil
}

// takeOver starts a job of the new code from the snapshot, whose sources give nothing, and stops it.
func (r *run) takeOver(ctx context.Context, g *operators.Graph, dir string) (err error) {
	// Long before the snapshot: no timer is due that is still there.
	frozen := &frozenClock{r.from.CreatedMS - 24*time.Hour.Milliseconds()}
	j, err := job.New(ctx, job.Options{Graph: g, StateDir: dir, Module: r.o.Candidate.Module, Clock: frozen, Log: quiet, Restarts: -1, RetryRefused: true, Event: r.tookOver,
		Source: func(n *operators.Node) (operators.Source, error) {
			in, err := r.o.Source(n)
			return &silent{Source: in}, err
		},
		Operator: func(n *operators.Node) (operators.Operator, error) {
			if n.Sink != nil {
				return nothing{}, nil
			}
			return r.operator(n)
		}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	go func() {
		select {
		case <-j.Ready():
			j.Stop()
		case <-ctx.Done():
		}
	}()
	_, err = j.Run(ctx)
	return err
}

// tookOver notes what happened to the snapshot's state; that modules changed is known.
func (r *run) tookOver(e job.Event) {
	if e.Kind == job.EventNote && !strings.Contains(e.Message, ": module changed from ") {
		r.note("%s", e.Message)
	}
}

// pair finds the operators whose code is another one, and refuses what can't be compared by record.
func (s *second) pair(old, now *operators.Graph, was, is map[string]string) error {
	var problems []error
	bad := func(id, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%w: operator %s %s", ErrIncomparable, id, fmt.Sprintf(format, args...)))
	}
	for _, o := range old.Nodes {
		at := slices.IndexFunc(now.Nodes, func(n *operators.Node) bool { return n.ID == o.ID })
		if at < 0 {
			bad(o.ID, "is not in the new pipeline")
			continue
		}
		n := now.Nodes[at]
		switch {
		case n.Kind != o.Kind:
			bad(o.ID, "is a %s, in the new pipeline a %s", o.Kind, n.Kind)
		case n.Parallelism != o.Parallelism:
			bad(o.ID, "has parallelism %d, in the new pipeline %d", o.Parallelism, n.Parallelism)
		case !reflect.DeepEqual(n.Inputs, o.Inputs):
			bad(o.ID, "has other inputs in the new pipeline")
		case n.Guest != nil:
			if err := s.guest(old, o, n, was, is); err != nil {
				problems = append(problems, err)
			}
		case n.Window != nil:
			if err := s.window(old, o, n, was, is); err != nil {
				problems = append(problems, err)
			}
		case n.Source != nil && !reflect.DeepEqual(n.Source.Key, o.Source.Key):
			bad(o.ID, "makes other keys in the new pipeline")
		case n.KeyBy != nil && !reflect.DeepEqual(n.KeyBy, o.KeyBy):
			bad(o.ID, "makes other keys in the new pipeline")
		}
	}
	for _, n := range now.Nodes {
		if !slices.ContainsFunc(old.Nodes, func(o *operators.Node) bool { return o.ID == n.ID }) && n.Sink == nil {
			bad(n.ID, "is not in the old pipeline")
		}
	}
	return errors.Join(problems...)
}

// guest pairs a guest operator, if it is another one.
func (s *second) guest(g *operators.Graph, o, n *operators.Node, was, is map[string]string) error {
	a, b := *o.Guest, *n.Guest
	a.Module, b.Module, a.Digest, b.Digest = "", "", "", ""
	if was[o.ID] == is[n.ID] && reflect.DeepEqual(a, b) {
		return nil
	}
	if n.Guest.Instances > 0 || o.Guest.Instances > 0 {
		return fmt.Errorf("%w: operator %s keeps its state in the variables of its instances", ErrIncomparable, o.ID)
	}
	if n.Guest.Keyed != o.Guest.Keyed || !reflect.DeepEqual(a.Input, b.Input) {
		return fmt.Errorf("%w: operator %s gets other records than before", ErrIncomparable, o.ID)
	}
	node := *n
	b = *n.Guest
	if b.OnError.Policy == "" || b.OnError.Policy == operators.PolicyStop {
		b.OnError.Policy = operators.PolicyDeadLetter // a fault is a difference, not the end
	}
	node.Guest = &b
	show, err := newShower(g, n, o.Guest.Fn, n.Guest.Fn)
	s.parts[n.ID] = &counterpart{node: &node, module: s.modules[n.ID], oldDigest: was[o.ID], newDigest: is[n.ID], show: show}
	return err
}

// window pairs a window operator, if it, or one of its functions, is another one.
func (s *second) window(g *operators.Graph, o, n *operators.Node, was, is map[string]string) error {
	same := reflect.DeepEqual(plainWindow(o.Window), plainWindow(n.Window))
	c := &counterpart{node: n}
	for _, f := range n.Window.GuestNodes(n.ID) {
		if was[f.ID] != is[f.ID] {
			same, c.oldDigest, c.newDigest = false, was[f.ID], is[f.ID]
		}
	}
	if same {
		return nil
	}
	var err error
	fn := (*abi.Function)(nil)
	if n.Window.Process != nil {
		fn = n.Window.Process.Fn
	}
	if fn == nil {
		fn = &abi.Function{Output: n.Schema}
	}
	c.show, err = newShower(g, n, fn, fn)
	s.parts[n.ID] = c
	return err
}

// plainWindow is a window node without the paths of modules.
func plainWindow(w *operators.WindowNode) any {
	c := *w
	c.Aggregates = slices.Clone(w.Aggregates)
	for i := range c.Aggregates {
		if f := c.Aggregates[i].Guest; f != nil {
			x := *f
			x.Module, x.Digest = "", ""
			c.Aggregates[i].Guest = &x
		}
	}
	if f := w.Process; f != nil {
		x := *f
		x.Module, x.Digest = "", ""
		c.Process = &x
	}
	return &c
}

// context is that of the new version's operator in a task.
func (s *second) context(ctx *operators.Context) *operators.Context {
	c := *ctx
	c.WorkDir, c.Log, c.Objects = ctx.WorkDir+"-new", quiet, s.store
	c.Restored = nil
	for task := range s.from.Tasks {
		for _, o := range s.from.Tasks[task].Operators {
			if o.Operator == ctx.Operator {
				c.Restored = append(c.Restored, o)
			}
		}
	}
	return &c
}

// openKeyed opens keyed state as a job does.
func (s *second) openKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	var restore []state.Snapshot
	for _, o := range ctx.Restored {
		if o.Keyed != nil {
			restore = append(restore, *o.Keyed)
		}
	}
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Restore: restore, Log: quiet,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, s.cold) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, s.cold) }})
}

// close frees the new version's modules and its fork.
func (s *second) close() error {
	var errs []error
	for _, m := range s.modules {
		if c, ok := m.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	if s.cold != nil {
		errs = append(errs, s.cold.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}

// silent is a source that stands where it is.
type silent struct{ operators.Source }

// Poll implements operators.Source.
func (*silent) Poll(*abi.Batch, int) (operators.PollStatus, error) { return operators.PollIdle, nil }

// frozenClock stands still for those who ask for the time of day.
type frozenClock struct{ ms int64 }

// NowMS implements clock.Clock.
func (c *frozenClock) NowMS() int64 { return c.ms }

// Mono implements clock.Clock.
func (*frozenClock) Mono() int64 { return clock.Wall{}.Mono() }

// nothing is a sink that gets nothing.
type nothing struct{}

// Open implements operators.Operator.
func (nothing) Open(*operators.Context) error { return nil }

// Batch implements operators.Operator.
func (nothing) Batch(int, *abi.Batch, operators.Collector) error { return nil }

// Close implements operators.Operator.
func (nothing) Close() error { return nil }
