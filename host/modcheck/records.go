package modcheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
)

// still is a clock that moves only when it is told.
type still struct{ ms int64 }

// NowMS implements operators.Clock.
func (s *still) NowMS() int64 { return s.ms }

// contextOf is the place of an operator that is tried: no job, no snapshot store.
func contextOf(ctx context.Context, id, dir string, clock operators.Clock) *operators.Context {
	return &operators.Context{Context: ctx, Job: "check", Operator: id, Parallelism: 1, Range: state.TaskRange(0, 1),
		Hasher: state.Hasher{Seed: 42}, Clock: clock, Log: slog.New(slog.DiscardHandler), WorkDir: filepath.Join(dir, "work"),
		StageDir: filepath.Join(dir, "stage"), Objects: noObjects{}, Budget: 1 << 20, StateKind: backend.Memory,
		Batch: abi.DefaultBatchRecords, Describe: func(abi.Position) string { return "" }, Crash: func(string) {}}
}

// noObjects is a snapshot store that is never asked: nothing is cut.
type noObjects struct{}

// AddFile implements state.Objects.
func (noObjects) AddFile(context.Context, string) (string, int64, error) {
	return "", 0, errors.ErrUnsupported
}

// Path implements state.Objects.
func (noObjects) Path(context.Context, string) (string, error) { return "", errors.ErrUnsupported }

func openKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Log: ctx.Log,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
}

// observer writes a trace of the calls of an operator. It implements guestop.Observer.
type observer struct {
	t    *trace
	next int // record
}

// entry is a new entry for record i of a call, or a timer.
func (o *observer) entry(kind uint32, f abi.Frame) *entry {
	e := entry{record: -1}
	if kind == abi.KindRecords {
		e.record = o.next
		o.next++
	} else {
		e.timer = fmt.Sprintf("timer %q of key %q at %d", f.Value(), f.Key(), f.Time())
		if kind == abi.KindProcessingTimers {
			e.timer = "processing " + e.timer
		}
		o.t.timers++
	}
	o.t.entries = append(o.t.entries, e)
	return &o.t.entries[len(o.t.entries)-1]
}

// Call implements guestop.Observer.
func (o *observer) Call(c *guestop.Call) error {
	t := o.t
	if t.enough() {
		return errEnough
	}
	t.fuel += c.Fuel
	t.billed += c.Billed
	first := len(t.entries)
	for i := range c.Len() {
		o.entry(c.Kind, c.Record(i))
	}
	add := func(record int, it item) { e := &t.entries[first+record]; e.items = append(e.items, it) }
	for i, f := range c.Outputs {
		add(i, output(f))
	}
	for x := range c.Timers {
		it := item{kind: itemTimerSet, number: int(x.Domain), data: string(x.Name), at: x.At}
		if x.Delete {
			it.kind = itemTimerDeleted
		}
		add(x.Record, it)
	}
	for i, text := range c.Failures {
		t.failed++
		add(i, item{kind: itemFailed, data: string(guestop.FaultReturned) + ": " + text})
	}
	err := c.Changes(func(ch guestop.Change) error {
		name := append([]byte{byte(ch.State)}, binary.AppendUvarint(nil, uint64(len(ch.Key.Bytes)))...)
		name = append(append(name, ch.Key.Bytes...), ch.UKey...)
		t.set(string(name), ch.New)
		return nil
	})
	t.endCall()
	return err
}

// Failed implements guestop.Observer: what the guest said of itself is in its call.
func (o *observer) Failed(kind uint32, f abi.Frame, fault *guestop.Fault) {
	if fault.Kind == guestop.FaultReturned {
		return
	}
	e := o.entry(kind, f)
	e.items = append(e.items, failure(fault))
	o.t.failed++
	o.t.endCall()
}

// Host implements guestop.Observer.
func (o *observer) Host(*guestop.HostCall) {}

// gather collects the main output, for what comes after.
type gather struct{ main abi.Batch }

// Emit implements operators.Collector.
func (g *gather) Emit(out int, b *abi.Batch) error {
	if out == operators.OutputMain {
		base := uint32(g.main.Len())
		for i := range b.Off {
			g.main.AppendFrame(b.Frame(i))
		}
		for _, m := range b.Marks {
			g.main.Marks = append(g.main.Marks, abi.Mark{Index: base + m.Index, Watermark: m.Watermark})
		}
	}
	return nil
}

// processingSpan is how far the clock is moved behind each segment: timers of processing time fire.
const processingSpan = 24 * 3600_000

// records runs a function over records: map, flat_map, filter, process.
func (s *subject) records(t *trace, m guestop.Module, out operators.Collector) error {
	node := *s.node
	node.OnError.Policy, node.Instances = operators.PolicySkip, 0
	clock := &still{sampleStart}
	ctx := contextOf(s.ctx, s.name(), s.dir, clock)
	op := guestop.New(guestop.Config{Node: &operators.Node{ID: s.name(), Kind: operators.NodeGuest, Guest: &node}, Module: m,
		OpenKeyed: openKeyed, Observe: &observer{t: t}})
	err := op.Open(ctx)
	if err == nil {
		err = s.sample.batches(t.way.batch, ctx.Hasher.Hash, func(b *abi.Batch) error { return op.Batch(0, b, out) }, func() error {
			clock.ms += processingSpan
			return op.OnProcessingTime(clock.ms, out)
		})
	}
	if err == nil {
		var last abi.Batch
		last.Mark(abi.MaxWatermark)
		err = op.Batch(0, &last, out)
	}
	return errors.Join(err, op.Close())
}
