// Package replay runs a job again from a snapshot, in a fork that leaves nothing behind: with the code that the snapshot
// holds, or with that and other code beside it, record by record, to see what differs. Sources are read again, or give
// what was recorded; nothing is published.
package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state/coldpebble"
)

var quiet = slog.New(slog.DiscardHandler)

// run is one replay.
type run struct {
	o       Options
	dir     string
	from    *checkpoint.Manifest
	graph   *operators.Graph
	ends    *ends
	job     *job.Job
	second  *second // nil: nothing is compared
	tallies map[string][]*tally
	mu      sync.Mutex
	sinks   map[string]int64
	notes   []string
	tell    sync.Mutex // of Options.Differs
	// recorded: a source gives what was recorded.
	recorded bool
	began    int64 // Mono of the machine
}

// Result is a replay that ended.
type Result struct {
	Report *Report
	// Store and Last are the fork's snapshots, and the one at the end: what Code left. They are gone after Close.
	Store *snapstore.Store
	Last  checkpoint.ID
	dir   string
}

// Close removes the fork.
func (r *Result) Close() error {
	var err error
	if r.Store != nil {
		err = r.Store.Close()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// Run replays. The result has to be closed. Cancelling ctx ends it with ctx's error; End.Stop ends it with what there
// is. Without a log of the clock, processing time is that of Clock, from the snapshot's own time on: see Report.Notes.
// Errors: ErrUnreadable, ErrIncomparable and job.ErrUnfit, when nothing ran; those of sources and of Code.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	o.defaults()
	r := &run{o: o, tallies: map[string][]*tally{}, sinks: map[string]int64{}, began: clock.Wall{}.Mono()}
	if r.dir, err = NewScratch(o.Scratch); err != nil {
		return nil, err
	}
	res, err := r.run(ctx)
	if err != nil {
		return nil, errors.Join(cleaned(err, r.dir), os.RemoveAll(r.dir))
	}
	return res, nil
}

func (r *run) run(ctx context.Context) (_ *Result, err error) {
	if r.from, err = r.o.Store.Load(r.o.From); err != nil {
		return nil, err
	}
	r.graph = r.prepared(r.o.Code.Graph)
	if err := r.readable(); err != nil {
		return nil, err
	}
	if _, err := fork(ctx, r.o.Store, r.o.From, r.dir, r.graph); err != nil {
		return nil, err
	}
	if r.o.Clock == nil {
		r.o.Clock = &forkClock{at: r.from.CreatedMS}
	}
	if r.o.Candidate != nil {
		if r.second, err = r.prepare(ctx); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.second.close()) }()
	}
	r.ends = &ends{end: r.o.End, left: r.o.End.Records}
	jo := job.Options{Graph: r.graph, StateDir: r.dir, Module: r.o.Code.Module, Source: r.source, Operator: r.operator, Guest: r.guest, Window: r.window,
		Clock: r.o.Clock, Log: r.o.Log, Restarts: -1, RetryRefused: true, Event: r.event}
	if jo.Clocks, err = r.clocks(ctx); err != nil {
		return nil, err
	}
	if r.job, err = job.New(ctx, jo); err != nil {
		return nil, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, r.job.Close())
		}
	}()
	r.ends.all = r.job.Stop
	out, err := r.wait(ctx)
	if err != nil {
		return nil, err
	}
	closed = true
	if err := r.job.Close(); err != nil {
		return nil, err
	}
	res := &Result{Report: r.report(), Last: out.Checkpoint, dir: r.dir}
	res.Store, err = openStore(r.dir)
	return res, err
}

// prepared is a graph as a replay runs it: no checkpoint but the last, sources without a pace.
func (r *run) prepared(g *operators.Graph) *operators.Graph {
	c := *g
	c.Checkpoint.Interval, c.Checkpoint.Timeout = 0, 24*time.Hour
	c.Nodes = slices.Clone(g.Nodes)
	for i, n := range c.Nodes {
		if n.Source == nil || n.Source.Generator == nil || n.Source.Generator.Rate == 0 || r.o.End.Live {
			continue
		}
		node, s, gen := *n, *n.Source, *n.Source.Generator
		gen.Rate, s.Generator = 0, &gen
		node.Source = &s
		c.Nodes[i] = &node
	}
	return &c
}

// readable refuses sources that give what they have only once.
func (r *run) readable() error {
	var problems []error
	for _, n := range r.graph.Nodes {
		if n.Source == nil {
			continue
		}
		src, err := r.o.Source(n)
		if err != nil {
			return err
		}
		if _, ok := src.(Recorded); ok {
			r.recorded = true
		} else if connect.Promise(n) == operators.PromiseLossy {
			problems = append(problems, fmt.Errorf("%w: source %s: what is taken from a %s is gone; only files and generators can be read again", ErrUnreadable, n.ID, n.Source.Connector))
		}
		problems = append(problems, src.Close())
	}
	for _, n := range r.graph.Nodes {
		e := &r.o.End
		if r.o.connected && n.Source != nil && n.Source.Generator != nil && n.Source.Generator.Records == 0 && e.To == nil && e.Records == 0 && e.TimeMS == 0 && e.For == 0 && !e.Live {
			problems = append(problems, fmt.Errorf("%w: source %s has no end: say up to which snapshot, or how many records", ErrUnreadable, n.ID))
		}
	}
	return errors.Join(problems...)
}

// wait runs the job to the end of the replay.
func (r *run) wait(ctx context.Context) (job.Result, error) {
	ended := make(chan struct{})
	var watch sync.WaitGroup
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch.Go(func() {
		if err := r.watch(ctx, ended); err != nil {
			failed <- err
			cancel()
		}
	})
	out, err := r.job.Run(ctx)
	close(ended)
	watch.Wait()
	select {
	case e := <-failed:
		return out, e
	default:
	}
	return out, err
}

// watch stops the job when it is time to, and tells how far it is.
func (r *run) watch(ctx context.Context, ended <-chan struct{}) error {
	var over <-chan time.Time
	if r.o.End.For > 0 {
		t := time.NewTimer(r.o.End.For)
		defer t.Stop()
		over = t.C
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	stop := r.o.End.Stop
	for {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return nil
		case <-over:
			r.job.Stop()
		case <-stop:
			stop = nil
			r.job.Stop()
		case <-tick.C:
			if r.o.Progress != nil {
				if err := r.o.Progress(r.report()); err != nil {
					return err
				}
			}
		}
	}
}

func (r *run) event(e job.Event) {
	if e.Kind == job.EventNote {
		r.note("%s", e.Message)
	}
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := fmt.Sprintf(format, args...); !slices.Contains(r.notes, s) {
		r.notes = append(r.notes, s)
	}
}

// source makes a source's reader.
func (r *run) source(n *operators.Node) (operators.Source, error) {
	in, err := r.o.Source(n)
	if err != nil {
		return nil, err
	}
	return newSource(in, n, r.ends), nil
}

// operator makes a native operator; what goes to sinks stays here.
func (r *run) operator(n *operators.Node) (operators.Operator, error) {
	if n.Sink != nil {
		return &collector{run: r, node: n}, nil
	}
	return connect.Operator(n, r.o.Connect)
}

// filter is for operators with keys, nil if all keys are wanted.
func (r *run) filter(keyed bool) *keyFilter {
	if !keyed || len(r.o.Keys) == 0 {
		return nil
	}
	return &keyFilter{wanted: r.o.chosen}
}

// guest makes what runs a guest node in one task.
func (r *run) guest(n *operators.Node, cfg guestop.Config) (operators.Operator, *guestop.Op) {
	t := &twin{single: r.o.Batch == 1, keys: r.filter(n.Guest.Keyed)}
	if c := r.second.of(n.ID); c != nil {
		t.tally = r.tallyOf(n.ID, n.Guest.Function, c)
		cfg.Observe = &t.old
		t.second = r.second.context
		t.cand = guestop.New(guestop.Config{Node: c.node, Module: c.module, OpenKeyed: r.second.openKeyed, Observe: &t.now})
	} else if r.o.Observe == nil {
		t.single = false
	}
	if r.o.Observe != nil {
		first := &observers{own: cfg.Observe, trace: r.o.Trace}
		cfg.Observe, cfg.Trace = first, r.o.Trace
		t.opened = func(ctx *operators.Context) { first.other = r.o.Observe(n, ctx.Task, ctx.Describe) }
	}
	t.base = guestop.New(cfg)
	return t, t.base
}

// keyed says that the records that a node gets have keys.
func (r *run) keyed(n *operators.Node) bool {
	return slices.ContainsFunc(n.Inputs, func(e operators.Edge) bool {
		return slices.ContainsFunc(r.graph.Nodes, func(o *operators.Node) bool { return o.ID == e.From && o.Keyed })
	})
}

// window makes what runs a window node in one task.
func (r *run) window(n *operators.Node, op *window.Op) operators.Operator {
	c := r.second.of(n.ID)
	keys := r.filter(r.keyed(n))
	if c == nil && keys == nil {
		return op
	}
	t := &windowTwin{Op: op, keys: keys, single: r.o.Batch == 1}
	if c != nil {
		t.tally = r.tallyOf(n.ID, "", c)
		t.tally.window = true
		t.second = r.second.context
		t.cand = window.New(window.Config{Node: c.node, OpenKeyed: r.second.openKeyed, Module: func(id string) guestop.Module { return r.second.modules[id] }})
	}
	return t
}

func (r *run) tallyOf(id, function string, c *counterpart) *tally {
	t := newTally(id, function, c.oldDigest, c.newDigest, c.show, &r.o)
	if r.o.Differs != nil {
		t.tell = func(d *Difference) error {
			r.tell.Lock()
			defer r.tell.Unlock()
			r.o.Differs(d)
			return nil
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tallies[id] = append(r.tallies[id], t)
	return t
}

// report is what there is to say so far.
func (r *run) report() *Report {
	rep := &Report{Job: r.from.Job, From: r.o.From, Records: r.ends.records.Load(), Over: r.ends.isOver(), Exact: r.o.Batch == 1, Millis: (clock.Wall{}.Mono() - r.began) / 1e6}
	if r.o.End.To != nil {
		rep.To = r.o.End.To.ID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rep.Notes = slices.Clone(r.notes)
	for _, n := range r.graph.Nodes {
		if ts := r.tallies[n.ID]; len(ts) > 0 {
			rep.Operators = append(rep.Operators, sum(ts, r.o.Samples))
		}
		if n.Sink != nil {
			rep.Sinks = append(rep.Sinks, SinkCount{n.ID, r.sinks[n.ID]})
		}
	}
	return rep
}

// observers are the comparison's and the caller's.
type observers struct {
	own, other guestop.Observer // nil: none
	trace      bool
}

// Call implements guestop.Observer.
func (o *observers) Call(c *guestop.Call) error {
	var err error
	if o.own != nil {
		err = o.own.Call(c)
	}
	if o.other != nil && err == nil {
		err = o.other.Call(c)
	}
	return err
}

// Failed implements guestop.Observer.
func (o *observers) Failed(kind uint32, f abi.Frame, fault *guestop.Fault) {
	if o.own != nil {
		o.own.Failed(kind, f, fault)
	}
	if o.other != nil {
		o.other.Failed(kind, f, fault)
	}
}

// Host implements guestop.Observer.
func (o *observers) Host(h *guestop.HostCall) {
	if o.other != nil {
		o.other.Host(h)
	}
}

// forkClock is a clock that goes on from the time of the snapshot.
type forkClock struct {
	at    int64
	wall  clock.Wall
	once  sync.Once
	start int64
}

// NowMS implements clock.Clock.
func (c *forkClock) NowMS() int64 {
	c.once.Do(func() { c.start = c.wall.Mono() })
	return c.at + (c.wall.Mono()-c.start)/1e6
}

// Mono implements clock.Clock.
func (c *forkClock) Mono() int64 { return c.wall.Mono() }

// newCold is the process's one database for ordered state of new versions beyond its budget.
func newCold(dir string) *coldpebble.Env {
	return coldpebble.New(filepath.Join(dir, "pebble"), coldpebble.Options{Log: quiet})
}
