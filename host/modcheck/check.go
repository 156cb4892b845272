// Package modcheck tries a module's functions before they are let in: the same records, one by one and together, on
// instances that are kept and on fresh ones, have to give the same outputs, timers and state. What a function keeps in
// its own variables would be lost at a restart. With another engine's build of the module it compares the two engines.
//
// It works through operators/guestop, over state of its own; nothing is published.
package modcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Version of the check; what an older one let in is checked again.
const Version = 1

// Options say how much is tried. The zero value is what the commands use.
type Options struct {
	// Budget bounds each of the runs of a function, the first one by four times as much; 0: DefaultBudget, negative: none.
	// Where it ends a run early, the report says how far it came.
	Budget time.Duration
	Mono   func() int64 // ns; nil: the machine's
	Seed   uint64       // of synthetic samples
	// Other is the same module compiled by another engine, which has to give the same, fuel included; nil: none.
	Other      guestop.Module
	OtherName  string
	ScratchDir string // for folders of state; empty: the system's
}

// DefaultBudget bounds a run of a function. There are six, of which only those on fresh instances may need it all.
const DefaultBudget = 60 * time.Millisecond

// The least and the most that a run does, whatever it costs.
const (
	leastEntries = 16
	timerLimit   = 2 // times the records: timers may set timers for ever
)

// fuelSlack is how many units a record may cost more or less in another call before that is worth a note.
const fuelSlack = 16

// firstBudget is how many budgets the run has that the others are held against.
const firstBudget = 4

// ways are how a function is called. The first one is what the others are held against.
var ways = []way{{batch: 1}, {batch: 1, fresh: true}, {batch: 7, fresh: true}, {batch: 256, fresh: true}, {batch: 7}, {batch: 256}}

func (o *Options) defaults() {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	if o.Mono == nil {
		o.Mono = clock.Wall{}.Mono
	}
}

// Module checks every function of a module with synthetic samples. err is the host's; differences are in the report.
func Module(ctx context.Context, m guestop.Module, o Options) (*Report, error) {
	d := m.Descriptor()
	r := &Report{Digest: m.Digest()}
	if d.Snapshot == abi.SnapshotMemory {
		r.Exempt = "its memory is state (snapshot: memory)"
		return r, nil
	}
	for i := range d.Functions {
		f, err := One(ctx, m, nodeOf(d, i), nil, o)
		if err != nil {
			return r, err
		}
		r.Functions = append(r.Functions, f)
	}
	return r, nil
}

// nodeOf is a function of a module as a node of no pipeline.
func nodeOf(d *abi.Descriptor, i int) *operators.GuestNode {
	fn := &d.Functions[i]
	return &operators.GuestNode{Function: fn.Name, Kind: fn.Kind, Keyed: fn.Keyed, Outputs: fn.Outputs, Memory: abi.DefaultMemoryBytes,
		Fuel: abi.FuelPerRecord, Input: fn.Input, Fn: fn, Clock: operators.TimeEvent, Index: i}
}

// subject is a function with the records it is tried with.
type subject struct {
	ctx    context.Context
	dir    string
	o      Options
	m      guestop.Module
	node   *operators.GuestNode
	sample *Sample
}

func (s *subject) name() string { return s.node.Fn.Name }

// One checks one function. sample nil: synthetic records of the node's input. A function that refuses all of a sample is
// not checked, and the report says so.
func One(ctx context.Context, m guestop.Module, n *operators.GuestNode, sample *Sample, o Options) (Function, error) {
	o.defaults()
	out := Function{Name: n.Fn.Name, Kind: string(n.Fn.Kind)}
	dir, err := os.MkdirTemp(o.ScratchDir, "millrace-check-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	s := &subject{ctx: ctx, dir: dir, o: o, m: m, node: n, sample: sample}
	if sample == nil {
		s.choose()
	}
	out.Sample = s.sample.From
	s.o.Budget *= firstBudget
	base := s.run(ways[0], m)
	s.o.Budget /= firstBudget
	if base.err != nil {
		out.NotChecked, _, _ = strings.Cut(base.err.Error(), "\n")
		return out, ctx.Err()
	}
	out.Records, out.Timers, out.Failed = len(base.entries)-base.timers, base.timers, base.failed
	if base.failed == len(base.entries) {
		out.NotChecked = "there is no record to try it with"
		if len(base.entries) > 0 {
			out.NotChecked = "every sample record was refused: " + base.entries[0].items[0].data
		}
		return out, nil
	}
	s.against(&out, base)
	return out, ctx.Err()
}

// against runs the function in all other ways and notes the first difference.
func (s *subject) against(out *Function, base *trace) {
	traces := []*trace{base}
	for _, w := range ways[1:] {
		t := s.run(w, s.m)
		traces = append(traces, t)
		switch {
		case w.fresh && w.batch == 1:
			out.Fresh = min(len(t.entries), len(base.entries))
		case w.fresh && w.batch == 7:
			out.Covered = min(len(t.entries), len(base.entries))
		}
		if out.Difference = s.difference(t, base); out.Difference != nil {
			return
		}
	}
	if note := fuelNote(traces); note != "" {
		out.Notes = append(out.Notes, note)
	}
	if s.o.Other != nil {
		s.engines(out, base, traces)
	}
}

// engines holds the other engine's results against this one's.
func (s *subject) engines(out *Function, base *trace, traces []*trace) {
	for _, same := range traces {
		if same.way.fresh || same.way.batch == 1 {
			continue
		}
		w := same.way
		w.engine = s.o.OtherName
		t := s.run(w, s.o.Other)
		if out.Difference = s.difference(t, base); out.Difference != nil {
			return
		}
		if !t.cut && !same.cut && t.fuel != same.fuel {
			out.Difference = &Difference{What: "costs something else on " + s.o.OtherName, At: fmt.Sprintf("the end of %d %s", out.Records, unit(out.Kind)),
				Got: fmt.Sprintf("%d units of fuel on %v", t.fuel, t.way), Want: fmt.Sprintf("%d on %v", same.fuel, same.way)}
			return
		}
	}
}

// choose makes a synthetic sample of the shapes that the function takes.
func (s *subject) choose() {
	const probe = 16
	var good, all []int
	for shape := range shapes {
		all = append(all, shape)
		s.sample = synthetic(s.node.Fn, s.node.Input, []int{shape}, probe, s.o.Seed+uint64(shape))
		if t := s.run(way{batch: 1}, s.m); t.err == nil && 2*t.failed < len(t.entries) {
			good = append(good, shape)
		}
	}
	if good == nil {
		good = all
	}
	s.sample = synthetic(s.node.Fn, s.node.Input, good, SampleRecords, s.o.Seed)
}

// run is one run over the sample.
func (s *subject) run(w way, m guestop.Module) *trace {
	t := newTrace(w, len(s.sample.Records), s.o)
	if w.fresh {
		m = fresh{m}
	}
	var err error
	switch s.node.Fn.Kind {
	case abi.FunctionAggregate:
		err = s.aggregate(t, m)
	case abi.FunctionWindow:
		err = s.windows(t, m)
	case abi.FunctionWatermark:
		err = s.watermarks(t, m)
	default:
		err = s.records(t, m, &gather{})
	}
	if err != nil && !errors.Is(err, errEnough) {
		t.err = err
	}
	return t
}

// fuelNote says that what records cost hangs on how many are in a call; "": it does not, or it can't be told. What the
// SDKs do at the first and last record of a call and at a key's first is far below this.
func fuelNote(traces []*trace) string {
	base := traces[0]
	for _, t := range traces[1:] {
		off := max(t.billed-base.billed, base.billed-t.billed)
		if t.way.fresh || t.cut || base.cut || base.failed > 0 || off*100 <= base.billed || off <= fuelSlack*int64(len(base.entries)) {
			continue
		}
		return fmt.Sprintf("what it costs hangs on how much is in a call: %d units of fuel on %v, %d on %v", t.billed, t.way, base.billed, base.way)
	}
	return ""
}
