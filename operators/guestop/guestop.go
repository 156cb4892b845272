package guestop

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// Config is what New needs: the node, its compiled module, and how to open keyed state.
type Config struct {
	Node      *operators.Node // Kind NodeGuest, Guest.Fn resolved
	Module    Module
	OpenKeyed func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error)
	FS        state.FS // of memory images; nil: the system's
	Trial     *Trial   // of code that starts from a checkpoint of other code; nil: none
	Canary    *Canary  // that is on in the checkpoint; nil: none
	Observe   Observer // sees every call; nil: nobody
	Trace     bool     // Observe sees host calls too
}

// Op runs one guest function in one task.
type Op struct {
	side           // the code in force; for the time of a call that of a canary
	canary *canary // nil: none is on
	id     string
	cfg    Config
	ctx    *operators.Context
	live   atomic.Pointer[Guest]  // of the code in force, for Stop
	rival  atomic.Pointer[Guest]  // of the canary; nil: none
	seen   atomic.Pointer[canary] // canary, for CanaryStats
	keyed  state.Keyed
	timers state.Timers // nil: the function uses none
	whole  *abi.Batch   // what came in, before the projection: for dead letters

	memory  *memory // nil: the instance's memory is no state
	skips   []operators.Skip
	expiry  *expiry // nil: no state has a TTL
	first   int64   // the first watermark ever, as restored; abi.MinWatermark: not known
	out     outputs
	due     []state.Timer
	timerB  abi.Batch
	wm      int64
	cuts    map[checkpoint.ID]*pending // not yet committed
	now     int64                      // processing time of the current callback
	held    state.Stats                // what the state held when it was closed
	logRate logRate
	metrics map[string]int64
}

// Stats are the counters of one task's guest operator, since it started.
type Stats struct {
	In, Out, Skipped, Dead, Timers int64 // records; Timers: fired
	Calls, Faults, Resets          int64
	Fuel                           int64
}

// stateRef is one declared state.
type stateRef struct {
	desc   abi.StateDescriptor
	store        // as the guest sees it
	raw    store // as changes are taken back: with a TTL entries have their stamps
	number int   // in keyed
	renews bool  // reading an entry renews it
}

// store is where a state's entries are: exactly one of the two is set, none if it is prefetched.
type store struct {
	value   state.Value
	ordered state.Ordered
}

// prefetched is a value state that travels with the block.
type prefetched struct {
	value    state.Value
	maxBytes int
	stride   int
	pos      []state.Pos
	base     int // of its cells in the block
}

// New makes the operator; nothing runs before Open.
func New(cfg Config) *Op {
	return &Op{id: cfg.Node.ID, cfg: cfg, side: side{node: cfg.Node.Guest, fn: cfg.Node.Guest.Fn, module: cfg.Module, env: &env{}},
		wm: abi.MinWatermark, first: abi.MinWatermark, cuts: map[checkpoint.ID]*pending{}}
}

// Open opens the state and makes the instance.
func (o *Op) Open(ctx *operators.Context) error {
	o.ctx = ctx
	o.env.op = o
	o.out.init(len(o.fn.Outputs))
	o.restoreNumbers(ctx.Restored)
	o.try(o.cfg.Trial)
	if err := o.openState(); err != nil {
		return err
	}
	proj, err := newProjection(o.node.Input, o.fn.Input)
	if err != nil {
		return fmt.Errorf("operator %s: %w", ctx.Operator, err)
	}
	o.proj = proj
	o.blk.init(o.pre)
	o.now = ctx.Clock.NowMS()
	g, err := o.module.New(o.hostCalls(), InstanceOptions{MemoryBytes: o.node.Memory, FuelPerRecord: o.node.Fuel})
	if err != nil {
		return fmt.Errorf("operator %s: make an instance of module %s: %w", ctx.Operator, o.node.Module, err)
	}
	o.guest = g
	o.live.Store(&g)
	o.skips = slices.Clone(ctx.Skips)
	if err := o.openMemory(); err != nil {
		return err
	}
	return o.openCanary()
}

func (o *Op) openState() error {
	uses := len(o.fn.States) > 0 || len(o.fn.Timers) > 0
	if !uses {
		return nil
	}
	ds := make([]state.Descriptor, len(o.fn.States))
	for i, d := range o.fn.States {
		ds[i] = state.Descriptor{Name: d.Name, Kind: d.Kind, Version: d.Version, MaxBytes: d.MaxBytes, TTL: ttlOf(d)}
	}
	k, err := o.openExpiring(ds)
	if err != nil {
		return fmt.Errorf("operator %s: open state: %w", o.ctx.Operator, err)
	}
	o.keyed = k
	o.states, o.numbers = make([]stateRef, len(ds)), make([]int, len(ds))
	for i, d := range o.fn.States {
		r := stateRef{desc: d}
		o.numbers[i] = i
		switch {
		case d.Prefetched():
			o.pre = append(o.pre, prefetched{value: k.Value(i), maxBytes: d.MaxBytes, stride: abi.CellStride(d.MaxBytes)})
		case d.Kind == abi.StateValue:
			r.value = k.Value(i)
		default:
			r.ordered = k.Ordered(i)
		}
		o.states[i] = r
	}
	o.bindRaw()
	if len(o.fn.Timers) > 0 {
		o.timers = k.Timers()
	}
	return nil
}

// Batch runs the records in calls that end where a timer is due, fires timers between them, and hands on
// what came out.
func (o *Op) Batch(_ int, b *abi.Batch, out operators.Collector) error {
	o.now = o.ctx.Clock.NowMS()
	if o.canary != nil {
		return o.batchBySide(b, out)
	}
	o.whole = b
	if o.proj != nil {
		pb, err := o.proj.apply(b)
		if err != nil {
			return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
		}
		b = pb
	}
	o.stats.In += int64(b.Len())
	if err := o.run(abi.KindRecords, b, b.Marks, out); err != nil {
		return err
	}
	o.expiry.passed(o)
	return o.out.flush(out)
}

// advance moves the watermark to w: due timers fire in rounds until none is left, then the mark goes on.
func (o *Op) advance(w int64, out operators.Collector) error {
	if w <= o.wm {
		return nil
	}
	o.expiry.advance(o, w)
	o.wm = w
	if o.timers != nil {
		if err := o.fire(abi.DomainEvent, w, out); err != nil {
			return err
		}
	}
	o.out.mark(w)
	return nil
}

// timerRound is how many timers go into one call at most, whatever the batch size, so that the order of
// outputs does not depend on it.
const timerRound = abi.MaxBatchRecords

func (o *Op) fire(d state.Domain, upTo int64, out operators.Collector) error {
	kind := uint32(abi.KindEventTimers)
	if d == abi.DomainProcessing {
		kind = abi.KindProcessingTimers
	}
	for {
		if at, ok := o.timers.Next(d); !ok || at > upTo {
			return nil
		}
		due, err := o.timers.Due(d, upTo, timerRound, o.due[:0])
		if err != nil {
			return fmt.Errorf("operator %s: timers: %w", o.ctx.Operator, err)
		}
		if len(due) == 0 {
			return nil
		}
		o.due = due
		tb := &o.timerB
		tb.Reset()
		for i := range due {
			t := &due[i]
			tb.Append(&abi.Record{Time: t.At, Key: t.Key.Bytes, Value: t.Name, Pos: abi.NoPosition})
			tb.Hash = append(tb.Hash, t.Key.Hash)
		}
		o.stats.Timers += int64(len(due))
		crashpoint.Hit(crashpoint.TimerFired)
		if o.canary != nil {
			err = o.timersBySide(kind, tb, out)
		} else {
			err = o.run(kind, tb, nil, out)
		}
		if err != nil {
			return err
		}
	}
}

// NextProcessing implements operators.ProcessingTimer.
func (o *Op) NextProcessing() (int64, bool) {
	if o.timers == nil {
		return o.expiry.next(0, false)
	}
	return o.expiry.next(o.timers.Next(abi.DomainProcessing))
}

// OnProcessingTime implements operators.ProcessingTimer.
func (o *Op) OnProcessingTime(nowMS int64, out operators.Collector) error {
	o.now = nowMS
	if o.timers != nil {
		if err := o.fire(abi.DomainProcessing, nowMS, out); err != nil {
			return err
		}
	}
	o.expiry.passed(o)
	return o.out.flush(out)
}

// Stats returns the counters and what the state holds.
func (o *Op) Stats() (Stats, state.Stats) {
	if o.keyed != nil {
		return o.total(), o.keyed.Stats()
	}
	return o.total(), o.held
}

// Stop ends a running call soon; from any goroutine. Before the end of Open it does nothing.
func (o *Op) Stop() {
	for _, p := range []*atomic.Pointer[Guest]{&o.live, &o.rival} {
		if g := p.Load(); g != nil {
			(*g).Stop()
		}
	}
}

// Close frees instance and state.
func (o *Op) Close() error {
	var first error
	if o.guest != nil {
		first = o.guest.Close()
	}
	if o.canary != nil {
		if err := o.canary.asleep.guest.Close(); first == nil {
			first = err
		}
	}
	if o.keyed != nil {
		o.held = o.keyed.Stats()
		if err := o.keyed.Close(); first == nil {
			first = err
		}
		o.keyed = nil
	}
	return first
}

// ID is the operator's id in the pipeline file.
func (o *Op) ID() string { return o.id }
