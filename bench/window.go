package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
)

// Windows over the records of every figure, up to 50 ms out of order, with a watermark each 100 ms. At one
// record per ms and 100,000 keys nearly every record opens a window, and every window gives a result.

// Bounds, records/s/core, and of the sliding window's cost per record and result, in that of a tumbling one.
const (
	tumblingRate = 1.5e6
	guestRate    = 1e6 // tumbling, with an aggregate in Rust
	sessionRate  = 0.7e6
	slidingCost  = 4
)

const anchorTumbling = 1.4e6

func init() {
	Register("window.tumbling_10s_100k", func() error {
		return measureWindow("window.tumbling_10s_100k", operators.WindowShape{Type: operators.WindowTumbling, Size: 10_000}, counting(nil), tumblingRate)
	})
	Register("window.tumbling_10s_100k.rust", func() error {
		e, err := theEngine()
		if err != nil {
			return err
		}
		m, err := e.Compile(context.Background(), cases.Module("windows"), nil)
		if err != nil {
			return err
		}
		return errors.Join(measureWindow("window.tumbling_10s_100k.rust", operators.WindowShape{Type: operators.WindowTumbling, Size: 10_000}, counting(m), guestRate),
			m.(*engine.Module).Close())
	})
	Register("window.session_5s_100k", func() error {
		return measureWindow("window.session_5s_100k", operators.WindowShape{Type: operators.WindowSession, Gap: 5000}, counting(nil), sessionRate)
	})
	Register("window.sliding_60s_1s_1k", measureSliding)
}

// outOfOrder is batches whose times lag up to 50 ms, with the watermarks for that.
func outOfOrder(n, keys int) []*abi.Batch {
	rng := rand.New(rand.NewPCG(benchSeed, 50))
	in := makeBatches(n, abi.DefaultBatchRecords, keys)
	out := make([]*abi.Batch, n)
	ms := int64(0)
	for i, b := range in {
		out[i] = &abi.Batch{}
		for j := range b.Off {
			r := b.Frame(j).Record()
			r.Time = max(0, ms-rng.Int64N(50))
			out[i].Append(&r)
			if ms++; ms%100 == 0 {
				out[i].Mark(ms - 101)
			}
		}
	}
	return hashed(out)
}

// countedResults takes results and counts them.
type countedResults struct{ n int }

func (c *countedResults) Emit(_ int, b *abi.Batch) error {
	c.n += b.Len()
	return nil
}

// counted is a count of records, and the module it is of; nil: it is built in.
type counted struct {
	agg    operators.WindowAggregate
	module guestop.Module
}

func counting(m guestop.Module) counted {
	if m == nil {
		return counted{agg: operators.WindowAggregate{Name: "n", Kind: operators.AggCount}}
	}
	g := &operators.GuestNode{Module: "windows.wasm", Function: "count"}
	for i, f := range m.Descriptor().Functions {
		if f.Name == g.Function {
			g.Fn, g.Index = &f, i
		}
	}
	return counted{operators.WindowAggregate{Name: "n", Kind: operators.AggGuest, Guest: g}, m}
}

// windowPass is one pass of a count over windows, on new state, and how many results it gives.
func windowPass(s operators.WindowShape, c counted, in []*abi.Batch, failed *error) (pass func() int, results *int) {
	out := &countedResults{}
	w := &operators.WindowNode{Window: s, Time: operators.TimeEvent, Trigger: operators.DefaultTrigger(s), Accumulation: operators.Accumulating,
		Aggregates: []operators.WindowAggregate{c.agg}}
	return func() int {
		out.n = 0
		if err := runWindow(w, c.module, in, out); err != nil {
			*failed = err
			return 1
		}
		return countRecords(in)
	}, &out.n
}

func runWindow(w *operators.WindowNode, m guestop.Module, in []*abi.Batch, out *countedResults) (err error) {
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	op := window.New(window.Config{Node: &operators.Node{ID: "window", Kind: operators.NodeWindow, Window: w},
		Module: func(string) guestop.Module { return m },
		OpenKeyed: func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
			return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
				Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects,
				NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
				NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
		}})
	ctx := &operators.Context{Context: context.Background(), Job: "bench", Operator: "window", Parallelism: 1,
		Range: state.TaskRange(0, 1), Hasher: hasher, Clock: clock.Wall{}, Log: slog.New(slog.DiscardHandler),
		WorkDir: filepath.Join(dir, "work"), Objects: store, Budget: 256 << 20, StateKind: backend.Memory,
		Batch: abi.DefaultBatchRecords, Describe: func(abi.Position) string { return "" }, Crash: func(string) {}}
	if err := op.Open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, op.Close()) }()
	for _, b := range in {
		if err := op.Batch(0, b, out); err != nil {
			return err
		}
		if _, err := op.Step(); err != nil {
			return err
		}
	}
	return nil
}

func measureWindow(name string, s operators.WindowShape, c counted, bound float64) error {
	var failed error
	pass, results := windowPass(s, c, outOfOrder(4096, 100_000), &failed)
	rate := result.Rate(pass)
	if failed != nil {
		return failed
	}
	if *results == 0 {
		return fmt.Errorf("%s: no results", name)
	}
	result.Note(name+".results", float64(*results)/float64(4096*abi.DefaultBatchRecords), "per_record")
	judge(nativeTumbling(), name, rate, bound)
	return nil
}

// measureSliding compares the cost of a record or result with that of the tumbling window, in turns.
func measureSliding() error {
	const name = "window.sliding_60s_1s_1k"
	var failed error
	tumbling, tr := windowPass(operators.WindowShape{Type: operators.WindowTumbling, Size: 10_000}, counting(nil), outOfOrder(2048, 100_000), &failed)
	sliding, sr := windowPass(operators.WindowShape{Type: operators.WindowSliding, Size: 60_000, Slide: 1000}, counting(nil), outOfOrder(2048, 1000), &failed)
	with := func(pass func() int, results *int) func() int { return func() int { return pass() + *results } }
	t, s, ratio := result.Pair(with(tumbling, tr), with(sliding, sr))
	if failed != nil {
		return failed
	}
	result.Note(name+".tumbling", 1e9/t, "ns_per_record_or_result")
	result.Note(name+".sliding", 1e9/s, "ns_per_record_or_result")
	result.AtMost(name+".cost", ratio, "of_tumbling", slidingCost)
	return nil
}

// nativeTumbling is the tumbling window over Go maps.
var nativeTumbling = sync.OnceValue(func() result.Baseline {
	in := outOfOrder(4096, 100_000)
	out := make([]byte, 0, 2*abi.MaxBatchBytes)
	return result.Baseline{Name: "tumbling", Anchor: anchorTumbling, Here: result.Rate(func() int {
		open := map[int64]map[string]*uint64{}
		for _, b := range in {
			marks := b.Marks
			for i := range b.Off {
				for len(marks) > 0 && int(marks[0].Index) <= i {
					out = fireNative(open, marks[0].Watermark, out)
					marks = marks[1:]
				}
				f := b.Frame(i)
				start := f.Time() / 10_000 * 10_000
				m := open[start]
				if m == nil {
					m = map[string]*uint64{}
					open[start] = m
				}
				n := m[string(f.Key())]
				if n == nil {
					n = new(uint64)
					m[string(f.Key())] = n
				}
				*n++
			}
		}
		return countRecords(in)
	})}
})

func fireNative(open map[int64]map[string]*uint64, w int64, out []byte) []byte {
	for start, m := range open {
		if start+9999 > w {
			continue
		}
		out = out[:0]
		for k, n := range m {
			var b abi.RowBuilder
			b.Reset(3)
			b.SetInt64(0, start)
			b.SetInt64(1, start+10_000)
			b.SetInt64(2, int64(*n))
			if out = abi.AppendRecord(out, &abi.Record{Time: start + 9999, Key: []byte(k), Value: b.Bytes()}); len(out) > abi.MaxBatchBytes {
				out = out[:0]
			}
		}
		delete(open, start)
	}
	return out
}
