package job

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
)

// attempt is one start of the job: its tasks from the checkpoint (or nothing) to the end or a failure.
type attempt struct {
	job     *Job
	from    *checkpoint.Manifest // nil: a fresh start
	restore *checkpoint.Restore  // nil with from
	canary  *checkpoint.Canary   // that from has on; nil: none
	seed    uint64
	tasks   []*task.Task
	sources []*task.Task
	guests  []*guestop.Op
	windows []*window.Op
	taskOf  map[*guestop.Op]*task.Task
	up      chan struct{}                  // closed when all tasks run
	over    chan struct{}                  // closed when the attempt has ended
	readers map[string][]operators.Source  // by operator
	counted map[string][]operators.Counted // by operator
	nodes   map[string]*operators.Node
	groups  map[string]*operators.SourceGroup // by source
	events  chan task.Event
	cold    *coldpebble.Env // one database of this process for ordered state beyond its budget
}

// build makes all tasks and the exchanges between them.
func (a *attempt) build() error {
	p := a.job.plan
	if err := a.repeatable(); err != nil {
		return err
	}
	a.groups = map[string]*operators.SourceGroup{}
	for _, n := range p.nodes {
		if n.Kind == operators.NodeSource {
			a.groups[n.ID] = operators.NewSourceGroup(n.Parallelism)
		}
	}
	inboxes := map[string][]*task.Inbox{}
	for _, v := range p.Vertices {
		for i := 0; i < v.Parallelism && v.Nodes[0].Source == nil; i++ {
			inboxes[v.ID] = append(inboxes[v.ID], task.NewInbox())
		}
	}
	writers := a.exchanges(inboxes)
	for _, v := range p.Vertices {
		for i := 0; i < v.Parallelism; i++ {
			t, err := a.task(v, i, inboxes[v.ID], writers)
			if err != nil {
				return err
			}
			a.tasks = append(a.tasks, t)
			if v.Nodes[0].Source != nil {
				a.sources = append(a.sources, t)
			}
		}
	}
	return nil
}

// edgeTask names the sending end of an exchange.
type edgeTask struct {
	edge operators.Edge
	to   string
	task int
}

// exchanges opens every channel, receiving vertices in plan order, then inputs, then sending tasks: the
// order in which a task's channels are numbered.
func (a *attempt) exchanges(inboxes map[string][]*task.Inbox) map[edgeTask]*task.Writer {
	ws := map[edgeTask]*task.Writer{}
	for _, v := range a.job.plan.Vertices {
		for _, h := range v.In {
			for i := 0; i < h.From.Parallelism; i++ {
				var chans []*task.Channel
				if h.Mode == task.Forward {
					chans = append(chans, inboxes[v.ID][i].Channel(h.Input))
				} else {
					for _, x := range inboxes[v.ID] {
						chans = append(chans, x.Channel(h.Input))
					}
				}
				ws[edgeTask{h.Edge, v.ID, i}] = task.NewWriter(h.Mode, chans, state.Hasher{Seed: a.seed}, a.job.opts.Graph.BatchMax)
			}
		}
	}
	return ws
}

// task makes task i of a vertex.
func (a *attempt) task(v *Vertex, i int, inboxes []*task.Inbox, writers map[edgeTask]*task.Writer) (*task.Task, error) {
	cfg := task.Config{ID: task.ID{Vertex: v.ID, Index: i}, Parallelism: v.Parallelism, Batch: a.job.opts.Graph.BatchMax,
		Linger: a.job.opts.Graph.Linger, Clock: a.job.opts.Clock, Report: a.report, Keep: a.job.store.Put}
	if a.from != nil {
		cfg.Restored = a.from.ID
	}
	if clocks := a.job.opts.Clocks; clocks != nil {
		cfg.Repeat = clocks(cfg.ID)
	}
	if inboxes != nil {
		cfg.Inbox = inboxes[i]
		if a.restore != nil {
			n := cfg.Inbox.Channels()
			cfg.Watermarks = a.restore.Watermarks(v.ID, i, v.Parallelism, n)
			cfg.Idle, cfg.Ahead = a.restore.Idle(v.ID, i, v.Parallelism, n)
		}
	}
	stages := map[string]*task.Stage{}
	for _, n := range v.Nodes {
		s := &task.Stage{Node: n, Context: a.context(n, i)}
		if err := a.operator(n, s, &cfg); err != nil {
			return nil, err
		}
		stages[n.ID] = s
		cfg.Stages = append(cfg.Stages, s)
		if len(cfg.Stages) > 1 {
			e := n.Inputs[0]
			stages[e.From].Chain(e.Output, s, 0)
		}
	}
	for _, to := range a.job.plan.Vertices {
		for _, h := range to.In {
			if s := stages[h.Edge.From]; s != nil {
				s.Exchange(h.Edge.Output, writers[edgeTask{h.Edge, to.ID, i}])
			}
		}
	}
	t := task.New(cfg)
	for _, s := range cfg.Stages {
		if op, ok := s.Op.(*guestop.Op); ok {
			a.taskOf[op] = t
		}
	}
	return t, nil
}

// operator makes a node's operator or source.
func (a *attempt) operator(n *operators.Node, s *task.Stage, cfg *task.Config) error {
	if n.Kind == operators.NodeSource {
		src, err := a.job.opts.Source(n)
		if err != nil {
			return err
		}
		cfg.Source = src
		a.readers[n.ID] = append(a.readers[n.ID], src)
		a.count(n.ID, src)
		return nil
	}
	if n.Kind == operators.NodeGuest {
		run, op := a.job.opts.Guest(n, guestop.Config{Node: n, Module: a.job.modules[n.ID], OpenKeyed: a.openKeyed, FS: a.job.opts.StateFS, Trial: a.job.guestTrial(n), Canary: a.job.canaryOf(n)})
		a.guests = append(a.guests, op)
		s.Op, s.ClockUser = run, op
		return nil
	}
	if n.Kind == operators.NodeWindow {
		op := window.New(window.Config{Node: n, OpenKeyed: a.openKeyed, Module: func(id string) guestop.Module { return a.job.modules[id] }})
		a.windows = append(a.windows, op)
		s.Op, s.ClockUser = a.job.opts.Window(n, op), op
		a.count(n.ID, op)
		return nil
	}
	op, err := a.job.opts.Operator(n)
	if err != nil {
		return err
	}
	s.Op = op
	a.count(n.ID, op)
	return nil
}

func (a *attempt) count(id string, x any) {
	if c, ok := x.(operators.Counted); ok {
		a.counted[id] = append(a.counted[id], c)
	}
}

func (a *attempt) log() *slog.Logger {
	if l := a.job.opts.Log; l != nil {
		return l
	}
	return slog.New(slog.DiscardHandler)
}

// context is what task i's operator of a node gets.
func (a *attempt) context(n *operators.Node, i int) *operators.Context {
	g := a.job.opts.Graph
	dir := a.job.opts.StateDir
	return &operators.Context{Job: g.Name, Operator: n.ID, Task: i, Parallelism: n.Parallelism,
		Range: state.TaskRange(i, n.Parallelism), Hasher: state.Hasher{Seed: a.seed}, Clock: a.job.opts.Clock, Log: a.log(),
		WorkDir: filepath.Join(dir, "work", n.ID, fmt.Sprint(i)), StageDir: filepath.Join(dir, "stage", n.ID),
		Objects: a.job.store, Budget: a.job.budget(n), StateKind: g.StateKind, Batch: g.BatchMax,
		Restored: a.restoredOf(n.ID), Snapshot: a.startedAt(), Withdraw: a.from != nil && a.from.ID == a.job.restore, Held: a.heldSince(), Group: a.groups[n.ID],
		Skips: a.job.skipsOf(n.ID), Describe: a.describer(n), Crash: crashpoint.Hit, Punctuator: a.punctuator(n)}
}

// startedAt is the snapshot the attempt starts from, 0: none.
func (a *attempt) startedAt() checkpoint.ID {
	if a.from == nil {
		return 0
	}
	return a.from.ID
}

// restoredSplits is how many splits the checkpoint has of a source, 0: none.
func (a *attempt) restoredSplits(source string) int {
	n := 0
	for _, s := range a.restoredOf(source) {
		n += len(s.Splits)
	}
	return n
}

func (a *attempt) restoredOf(operator string) []checkpoint.OperatorSnapshot {
	if a.restore == nil {
		return nil
	}
	return a.restore.Operator(operator)
}

func (a *attempt) openKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	var restore []state.Snapshot
	for _, s := range ctx.Restored {
		if s.Keyed != nil {
			restore = append(restore, *s.Keyed)
		}
	}
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Restore: restore, FS: a.job.opts.StateFS, Log: ctx.Log,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, a.cold) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, a.cold) }})
}

// describer names positions by the source that a node's records come from, where that is one source.
func (a *attempt) describer(n *operators.Node) func(abi.Position) string {
	names := a.sourcesOf(n, map[string]bool{})
	return func(p abi.Position) string {
		for _, id := range names {
			for _, src := range a.readers[id] {
				if d := src.Describe(p); d != "" {
					return d
				}
			}
		}
		return fmt.Sprintf("split %d, offset %d", p.Split, p.Offset)
	}
}

func (a *attempt) sourcesOf(n *operators.Node, seen map[string]bool) []string {
	if seen[n.ID] {
		return nil
	}
	seen[n.ID] = true
	if n.Kind == operators.NodeSource {
		return []string{n.ID}
	}
	var ids []string
	for _, e := range n.Inputs {
		ids = append(ids, a.sourcesOf(a.job.plan.nodes[e.From], seen)...)
	}
	return ids
}

func (a *attempt) report(e task.Event) { a.events <- e }

// start runs every task; the returned function waits for all of them.
func (a *attempt) start(ctx context.Context) (wait func()) {
	done := make(chan struct{}, len(a.tasks))
	for _, t := range a.tasks {
		go func() {
			t.Run(ctx)
			done <- struct{}{}
		}()
	}
	return func() {
		for range a.tasks {
			<-done
		}
	}
}
