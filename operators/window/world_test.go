package window

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/operators/window/windowtest"
	"github.com/millrace-io/millrace/state"
)

// world runs a window node in one or more tasks.
type world struct {
	t     testing.TB
	w     *operators.WindowNode
	kind  string
	store state.Objects
	ids   checkpoint.ID
	tasks []*operatortest.Harness
	now   int64
	gone  []*operatortest.Harness // of before restores, with what they emitted
}

func newWorld(t testing.TB, w *operators.WindowNode, kind string, tasks int) *world {
	t.Helper()
	if err := Validate(w); err != nil {
		t.Fatal(err)
	}
	x := &world{t: t, w: w, kind: kind, store: operatortest.Objects(t)}
	x.start(tasks, nil)
	return x
}

func (x *world) start(tasks int, restored []checkpoint.OperatorSnapshot) {
	x.tasks = nil
	for i := range tasks {
		ctx := operatortest.Context(x.t, "w", "")
		ctx.Task, ctx.Parallelism, ctx.Range = i, tasks, state.TaskRange(i, tasks)
		ctx.StateKind, ctx.Objects, ctx.Restored = x.kind, x.store, restored
		if x.kind == "disk" {
			ctx.Budget = 1 << 20
		}
		ctx.Clock.(*operatortest.Clock).Set(x.now)
		op := New(Config{Node: &operators.Node{ID: "w", Window: x.w}, OpenKeyed: operatortest.OpenKeyed})
		x.tasks = append(x.tasks, operatortest.New(x.t, op, ctx))
	}
}

// restore takes a snapshot, drops everything, and goes on from it in so many tasks.
func (x *world) restore(tasks int) {
	x.t.Helper()
	x.ids++
	var all []checkpoint.OperatorSnapshot
	for _, h := range x.tasks {
		all = append(all, h.Barrier(x.ids))
		h.Close()
	}
	x.gone = append(x.gone, x.tasks...)
	x.start(tasks, all)
}

// push hands a batch over, split by key.
func (x *world) push(b *abi.Batch) {
	x.t.Helper()
	if len(x.tasks) == 1 {
		c := *b // the operator may change it
		c.Hash, c.Marks = slices.Clone(b.Hash), slices.Clone(b.Marks)
		if err := x.tasks[0].Batch(0, &c); err != nil {
			x.t.Fatal(err)
		}
		return
	}
	for i, h := range x.tasks {
		var own abi.Batch
		marks := b.Marks
		for j := range b.Off {
			for len(marks) > 0 && int(marks[0].Index) <= j {
				own.Mark(marks[0].Watermark)
				marks = marks[1:]
			}
			if state.TaskOf(b.Hash[j], len(x.tasks)) == i {
				own.AppendFrame(b.Frame(j))
				own.Hash = append(own.Hash, b.Hash[j])
			}
		}
		for _, m := range marks {
			own.Mark(m.Watermark)
		}
		if err := h.Batch(0, &own); err != nil {
			x.t.Fatal(err)
		}
	}
}

// clock sets the clock, and fires what is due.
func (x *world) clock(ms int64) {
	x.t.Helper()
	x.now = ms
	for _, h := range x.tasks {
		h.Ctx.Clock.(*operatortest.Clock).Set(ms)
		if err := h.Op.(*Op).OnProcessingTime(ms, h); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *world) close() {
	for _, h := range x.tasks {
		h.Close()
	}
}

// results are what came out of an output, in order; of several tasks one task after the other.
func (x *world) results(output int) (rs []abi.Record) {
	for _, h := range append(slices.Clone(x.gone), x.tasks...) {
		rs = append(rs, h.Output(output).Records...)
	}
	return rs
}

// late is the late counter.
func (x *world) late() (n int64) {
	for _, h := range x.tasks {
		n += h.Op.(*Op).Counters()["late"]
	}
	return n
}

// Schema of test inputs.
var testFields = []abi.Field{{Name: "v", Type: abi.TypeInt64}, {Name: "f", Type: abi.TypeFloat64}, {Name: "s", Type: abi.TypeString}}

// record makes a test record: v, a float of it, and a text of it.
func record(r windowtest.Rec) abi.Record {
	var b abi.RowBuilder
	b.Reset(len(testFields))
	b.SetInt64(0, r.V)
	b.SetFloat64(1, float64(r.V)/2)
	b.SetString(2, fmt.Sprintf("text %d", r.V))
	return abi.Record{Time: r.Time, Key: []byte(r.Key), Value: slices.Clone(b.Bytes())}
}

// step is a record, or a watermark or clock behind it.
type step struct {
	rec   *windowtest.Rec
	wm    int64
	clock int64
	kind  byte // 'r', 'w', 'c'
}

// run feeds steps in batches of size, with restores before some of them into as many tasks.
func (x *world) run(steps []step, size int, restores map[int]int) {
	x.t.Helper()
	var b abi.Batch
	hasher := state.Hasher{Seed: 42}
	flush := func() {
		if !b.Empty() {
			x.push(&b)
			b.Reset()
		}
	}
	for i, s := range steps {
		if n := restores[i]; n > 0 {
			flush()
			x.restore(n)
		}
		switch s.kind {
		case 'r':
			r := record(*s.rec)
			b.Append(&r)
			b.Hash = append(b.Hash, hasher.Hash(r.Key))
		case 'w':
			b.Mark(s.wm)
		case 'c':
			flush()
			x.clock(s.clock)
		}
		if b.Len() >= size {
			flush()
		}
	}
	b.Mark(abi.MaxWatermark)
	flush()
}

// statsOf are the aggregates of windowtest.Stats.
func statsOf() []operators.WindowAggregate {
	return []operators.WindowAggregate{{Name: "n", Kind: operators.AggCount}, {Name: "sum", Kind: operators.AggSum, Field: "v"},
		{Name: "min", Kind: operators.AggMin, Field: "v"}, {Name: "max", Kind: operators.AggMax, Field: "v"}}
}

// node is a window by event time.
func node(s operators.WindowShape, as ...operators.WindowAggregate) *operators.WindowNode {
	return &operators.WindowNode{Window: s, Time: operators.TimeEvent, Trigger: operators.DefaultTrigger(s), Late: true,
		Accumulation: operators.Accumulating, Input: testFields, Aggregates: as}
}

// result is a row of a window with statsOf.
type result struct {
	windowtest.Window
	windowtest.Stats
	op       abi.Op
	revision int64
}

func resultOf(t testing.TB, w *operators.WindowNode, r abi.Record) (x result) {
	t.Helper()
	fs := Schema(w)
	row, err := abi.CheckRow(r.Value, fs)
	if err != nil {
		t.Fatal(err)
	}
	x.Key, x.op = string(r.Key), r.Op
	for i, f := range fs {
		v, _ := row.Int64(i)
		switch f.Name {
		case ColumnStart:
			x.Start = v
		case ColumnEnd:
			x.End = v
		case ColumnRevision:
			x.revision = v
		case "n":
			x.Count = v
		case "sum":
			x.Sum = v
		case "min":
			x.Min = v
		case "max":
			x.Max = v
		}
	}
	if x.End != 0 && r.Time != x.End-1 && hasBounds(w) {
		t.Errorf("result of [%d, %d) has the time %d", x.Start, x.End, r.Time)
	}
	return x
}
