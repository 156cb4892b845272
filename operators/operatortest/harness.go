// Package operatortest runs one operator or source without a task: push records, watermarks and
// barriers, read what comes out.
package operatortest

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// Clock is a wall clock that stands still until it is set.
type Clock struct{ ms atomic.Int64 }

// NowMS implements operators.Clock.
func (c *Clock) NowMS() int64 { return c.ms.Load() }

// Set sets the time in ms.
func (c *Clock) Set(ms int64) { c.ms.Store(ms) }

// Context is the context of task 0 of 1 of operator id, with folders below dir ("": new ones) and a
// Clock that stands at 0. Change what the test needs before Open.
func Context(t testing.TB, id, dir string) *operators.Context {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	return &operators.Context{Context: ctx, Job: "test", Operator: id, Parallelism: 1, Range: state.TaskRange(0, 1),
		Hasher: state.Hasher{Seed: 42}, Clock: &Clock{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		WorkDir: filepath.Join(dir, "work"), StageDir: filepath.Join(dir, "stage"), Budget: 64 << 20, StateKind: "memory",
		Batch: abi.DefaultBatchRecords, Describe: func(p abi.Position) string { return "a test record" }, Crash: func(string) {}}
}

// Collected is what an operator emitted on one output.
type Collected struct {
	Records []abi.Record
	Hashes  []uint64
	Marks   []Mark
}

// Mark is a watermark and how many records came before it.
type Mark struct {
	Records   int
	Watermark int64
}

// Harness drives one operator.
type Harness struct {
	t       testing.TB
	Op      operators.Operator
	Ctx     *operators.Context
	outputs map[int]*Collected
}

// New opens op under ctx; an error ends the test.
func New(t testing.TB, op operators.Operator, ctx *operators.Context) *Harness {
	t.Helper()
	h := &Harness{t: t, Op: op, Ctx: ctx, outputs: map[int]*Collected{}}
	if err := op.Open(ctx); err != nil {
		t.Fatalf("open %s: %v", ctx.Operator, err)
	}
	return h
}

// Emit implements operators.Collector. It checks every batch.
func (h *Harness) Emit(output int, b *abi.Batch) error {
	if err := b.Check(); err != nil {
		h.t.Errorf("output %d: %v", output, err)
	}
	h.Output(output).Add(b)
	return nil
}

// Add appends a copy of b.
func (c *Collected) Add(b *abi.Batch) {
	before := len(c.Records)
	for i := range b.Off {
		c.Records = append(c.Records, abi.Frame(append([]byte(nil), b.Frame(i)...)).Record())
	}
	c.Hashes = append(c.Hashes, b.Hash...)
	for _, m := range b.Marks {
		c.Marks = append(c.Marks, Mark{before + int(m.Index), m.Watermark})
	}
}

// Output is what came out of an output so far.
func (h *Harness) Output(n int) *Collected {
	if h.outputs[n] == nil {
		h.outputs[n] = &Collected{}
	}
	return h.outputs[n]
}

// Batch hands a batch to an input; an error is the operator's.
func (h *Harness) Batch(input int, b *abi.Batch) error { return h.Op.Batch(input, b, h) }

// Push hands records to input 0 as one batch; an error ends the test.
func (h *Harness) Push(rs ...abi.Record) {
	h.t.Helper()
	if err := h.TryPush(rs...); err != nil {
		h.t.Fatalf("push: %v", err)
	}
}

// TryPush is Push that returns the operator's error.
func (h *Harness) TryPush(rs ...abi.Record) error {
	var b abi.Batch
	for i := range rs {
		b.Append(&rs[i])
		if rs[i].Key != nil {
			b.Hash = append(b.Hash, h.Ctx.Hasher.Hash(rs[i].Key))
		}
	}
	if len(b.Hash) != len(rs) {
		b.Hash = nil
	}
	return h.Op.Batch(0, &b, h)
}

// Watermark hands on a watermark; abi.MaxWatermark is the end of input.
func (h *Harness) Watermark(w int64) {
	h.t.Helper()
	var b abi.Batch
	b.Mark(w)
	if err := h.Op.Batch(0, &b, h); err != nil {
		h.t.Fatalf("watermark %d: %v", w, err)
	}
}

// Barrier cuts and waits for the snapshot; an error ends the test.
func (h *Harness) Barrier(id checkpoint.ID) checkpoint.OperatorSnapshot {
	h.t.Helper()
	s, err := h.TryBarrier(id)
	if err != nil {
		h.t.Fatalf("barrier %d: %v", id, err)
	}
	return s
}

// TryBarrier is Barrier that returns the operator's error.
func (h *Harness) TryBarrier(id checkpoint.ID) (s checkpoint.OperatorSnapshot, err error) {
	op, ok := h.Op.(operators.Snapshotter)
	if !ok {
		return s, nil
	}
	p, err := op.Barrier(checkpoint.Barrier{ID: id})
	if err != nil {
		return s, err
	}
	for deadline := time.Now().Add(time.Minute); ; {
		busy, err := op.Step()
		if err != nil {
			return s, err
		}
		if !busy {
			<-p.Done()
			return p.Result()
		}
		if time.Now().After(deadline) {
			h.t.Fatal("a cut was not done after a minute")
		}
	}
}

// Complete says that a checkpoint is durable; an error ends the test.
func (h *Harness) Complete(id checkpoint.ID) {
	h.t.Helper()
	if op, ok := h.Op.(operators.Snapshotter); ok {
		if err := op.Complete(id); err != nil {
			h.t.Fatalf("complete %d: %v", id, err)
		}
	}
}

// Close closes the operator; an error ends the test.
func (h *Harness) Close() {
	h.t.Helper()
	if err := h.Op.Close(); err != nil {
		h.t.Fatalf("close: %v", err)
	}
}

// SourceRun drives one source.
type SourceRun struct {
	t        testing.TB
	Source   operators.Source
	Out      Collected
	Rejected Collected
	Status   operators.PollStatus
}

// OpenSource opens s under ctx; an error ends the test.
func OpenSource(t testing.TB, s operators.Source, ctx *operators.Context) *SourceRun {
	t.Helper()
	if err := s.Open(ctx); err != nil {
		t.Fatalf("open %s: %v", ctx.Operator, err)
	}
	return &SourceRun{t: t, Source: s}
}

// Poll polls once with a new batch.
func (r *SourceRun) Poll(max int) error {
	var b abi.Batch
	st, err := r.Source.Poll(&b, max)
	if err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		r.t.Errorf("poll: %v", err)
	}
	if b.Len() > max {
		r.t.Errorf("poll gave %d records, at most %d were asked for", b.Len(), max)
	}
	r.Status = st
	r.Out.Add(&b)
	if rj, ok := r.Source.(operators.Rejecter); ok {
		r.Rejected.Add(rj.Rejected())
	}
	return nil
}

// Drain polls until the source is idle or at its end; an error ends the test.
func (r *SourceRun) Drain(max int) *SourceRun {
	r.t.Helper()
	for {
		if err := r.Poll(max); err != nil {
			r.t.Fatalf("poll: %v", err)
		}
		if r.Status != operators.PollMore {
			return r
		}
	}
}

// Await polls until at least n records are there, waiting for Ready; after a minute the test ends.
func (r *SourceRun) Await(n, max int) *SourceRun {
	r.t.Helper()
	for len(r.Out.Records) < n {
		r.Drain(max)
		if r.Status == operators.PollEnd {
			break
		}
		if len(r.Out.Records) >= n {
			break
		}
		select {
		case <-r.Source.Ready():
		case <-time.After(time.Minute):
			r.t.Fatalf("only %d records, expected %d", len(r.Out.Records), n)
		}
	}
	return r
}

// Values is the records' values as text.
func (c *Collected) Values() []string {
	vs := make([]string, len(c.Records))
	for i, r := range c.Records {
		vs[i] = string(r.Value)
	}
	return vs
}
