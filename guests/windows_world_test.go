package guests_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
)

var windowFields = []abi.Field{{Name: "v", Type: abi.TypeInt64}, {Name: "f", Type: abi.TypeFloat64}, {Name: "gap", Type: abi.TypeInt64}}

// windowNode makes nodes whose functions are of one module.
type windowNode struct {
	m guestop.Module
}

// fn is a function of the module.
func (n windowNode) fn(name string) *operators.GuestNode {
	for i, f := range n.m.Descriptor().Functions {
		if f.Name == name {
			return &operators.GuestNode{Module: "windows.wasm", Function: name, Kind: f.Kind, Fn: &f, Index: i, Outputs: f.Outputs, Clock: "event"}
		}
	}
	panic("no function " + name)
}

func (n windowNode) aggregate(name, function string) operators.WindowAggregate {
	return operators.WindowAggregate{Name: name, Kind: operators.AggGuest, Guest: n.fn(function)}
}

func (n windowNode) node(s operators.WindowShape, as ...operators.WindowAggregate) *operators.WindowNode {
	return &operators.WindowNode{Window: s, Time: operators.TimeEvent, Trigger: operators.DefaultTrigger(s), Late: true,
		Accumulation: operators.Accumulating, Input: windowFields, Aggregates: as}
}

// windowWorld runs a window node in one task.
type windowWorld struct {
	t      testing.TB
	w      *operators.WindowNode
	m      guestop.Module
	kind   string
	store  state.Objects
	ids    checkpoint.ID
	now    int64
	h      *operatortest.Harness
	gone   []*operatortest.Harness
	counts map[string]int64
}

func newWindowWorld(t testing.TB, m guestop.Module, w *operators.WindowNode, kind string) *windowWorld {
	t.Helper()
	if err := window.Validate(w); err != nil {
		t.Fatal(err)
	}
	x := &windowWorld{t: t, w: w, m: m, kind: kind, store: operatortest.Objects(t), counts: map[string]int64{}}
	x.start(nil)
	return x
}

func (x *windowWorld) start(restored []checkpoint.OperatorSnapshot) {
	ctx := operatortest.Context(x.t, "w", "")
	ctx.StateKind, ctx.Objects, ctx.Restored = x.kind, x.store, restored
	if x.kind == "disk" {
		ctx.Budget = 1 << 20
	}
	ctx.Clock.(*operatortest.Clock).Set(x.now)
	ctx.Describe = func(p abi.Position) string { return fmt.Sprintf("record %d", p.Offset) }
	op := window.New(window.Config{Node: &operators.Node{ID: "w", Window: x.w}, OpenKeyed: operatortest.OpenKeyed,
		Module: func(string) guestop.Module { return x.m }})
	x.h = operatortest.New(x.t, op, ctx)
}

func (x *windowWorld) restore() {
	x.ids++
	s := x.h.Barrier(x.ids)
	x.close()
	x.start([]checkpoint.OperatorSnapshot{s})
}

// close ends the task; what it gave stays.
func (x *windowWorld) close() {
	for name, n := range x.h.Op.(*window.Op).Counters() {
		x.counts[name] += n
	}
	x.h.Close()
	x.gone = append(x.gone, x.h)
}

// output is what came out, results and watermarks in order.
func (x *windowWorld) output(n int) (rs []string) {
	for _, h := range x.gone {
		c := h.Output(n)
		marks := c.Marks
		for i, r := range c.Records {
			for ; len(marks) > 0 && marks[0].Records <= i; marks = marks[1:] {
				rs = append(rs, fmt.Sprint("watermark ", marks[0].Watermark))
			}
			rs = append(rs, fmt.Sprintf("%q %d op %d %x %q", r.Key, r.Time, r.Op, r.Value, r.Headers))
		}
		for _, m := range marks {
			rs = append(rs, fmt.Sprint("watermark ", m.Watermark))
		}
	}
	return rs
}

// windowStep is a record, a watermark, or the clock.
type windowStep struct {
	key   string
	t     int64
	v     int64
	wm    int64
	clock int64
	kind  byte // r, w, c
}

func windowRow(v int64) []byte {
	var b abi.RowBuilder
	b.Reset(len(windowFields))
	b.SetInt64(0, v)
	b.SetFloat64(1, float64(v)/2)
	b.SetInt64(2, 1+(v%13+13)%13)
	return slices.Clone(b.Bytes())
}

// windowSteps are records of a few keys, some late, with watermarks and the clock.
func windowSteps(rng *rand.Rand, n int) (steps []windowStep) {
	now, wm, clock := int64(0), int64(-40), int64(0)
	for range n {
		now += rng.Int64N(4)
		steps = append(steps, windowStep{kind: 'r', key: string(rune('a' + rng.IntN(4))), t: now - rng.Int64N(30), v: rng.Int64N(1000) - 500})
		if rng.IntN(6) == 0 {
			if next := now - 12 + rng.Int64N(6); next > wm {
				wm = next
				steps = append(steps, windowStep{kind: 'w', wm: wm})
			}
		}
		if rng.IntN(9) == 0 {
			clock += rng.Int64N(9)
			steps = append(steps, windowStep{kind: 'c', clock: clock})
		}
	}
	return steps
}

// run feeds steps in batches of a size, with restores before some of them, to the end of input.
func (x *windowWorld) run(steps []windowStep, size int, restores ...int) error {
	var b abi.Batch
	flush := func() error {
		if b.Empty() {
			return nil
		}
		c := abi.Batch{Data: slices.Clone(b.Data), Off: slices.Clone(b.Off), Hash: slices.Clone(b.Hash), Marks: slices.Clone(b.Marks)}
		b.Reset()
		return x.h.Op.Batch(0, &c, x.h)
	}
	for i, s := range steps {
		if slices.Contains(restores, i) {
			if err := flush(); err != nil {
				return err
			}
			x.restore()
		}
		switch s.kind {
		case 'r':
			b.Append(&abi.Record{Time: s.t, Key: []byte(s.key), Value: windowRow(s.v), Pos: abi.Position{Offset: uint64(i)}})
			b.Hash = append(b.Hash, state.Hasher{Seed: 42}.Hash([]byte(s.key)))
		case 'w':
			b.Mark(s.wm)
		case 'c':
			if err := flush(); err != nil {
				return err
			}
			x.now = s.clock
			x.h.Ctx.Clock.(*operatortest.Clock).Set(s.clock)
			if err := x.h.Op.(*window.Op).OnProcessingTime(s.clock, x.h); err != nil {
				return err
			}
		}
		if b.Len() >= size {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	b.Mark(abi.MaxWatermark)
	return flush()
}

// windowModules are the module of a language for the compiler and for the interpreter.
func windowModules(t testing.TB, path string) (compiled, interpreted guestop.Module) {
	t.Helper()
	compiled = compile(t, newEngine(t), path)
	if onWasmtime {
		return compiled, compiled
	}
	e, err := engine.New(context.Background(), engine.Options{Interpreter: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return compiled, compile(t, e, path)
}
