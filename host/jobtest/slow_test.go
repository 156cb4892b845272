package jobtest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

// fast is a clock on which a sink's waits pass: each wait moves it, and takes a sliver of real time.
type fast struct{ now atomic.Int64 } // ns

func (c *fast) NowMS() int64 { return 1_700_000_000_000 + c.now.Load()/1e6 }
func (c *fast) Mono() int64  { return c.now.Load() }

func (c *fast) wait(d time.Duration) {
	c.now.Add(int64(d))
	time.Sleep(d / 100)
}

// slowSink takes its time for each record.
type slowSink struct {
	Native
	clock *fast
	each  time.Duration
	queue func() int64
	most  *atomic.Int64
}

func (s *slowSink) Batch(input int, b *abi.Batch, out operators.Collector) error {
	for range b.Len() {
		s.clock.wait(s.each)
		s.most.Store(max(s.most.Load(), s.queue()))
	}
	return s.Native.Batch(input, b, out)
}

// TestC052SlowSink: 50 ms for each of 400 records, while the source offers all it can: what waits is bounded,
// checkpoints complete within their time-out, nothing is lost.
func TestC052SlowSink(t *testing.T) {
	t.Parallel()
	w := New(t, `name: slow
batch: 8
checkpoint: {interval: 0s, timeout: 60s}
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: logic
    process: {module: "@effects", function: effects}
    parallelism: 2
  - {id: out, sink: file, path: out/, envelope: true, parallelism: 1}
`)
	const n = 400
	big := bytes.Repeat([]byte("x"), 20_000) // 8 MB offered
	var rs []abi.Record
	for i := range n {
		rs = append(rs, Text(fmt.Sprint("key", i%17), int64(i), "out "+string(big[:len(big)-i])))
	}
	w.Sources["in"] = [][]abi.Record{rs}
	clk := &fast{}
	var run atomic.Pointer[Run]
	var most atomic.Int64
	var mu sync.Mutex
	var events []job.Event
	w.Wrap = func(_ *operators.Node, op Native) operators.Operator {
		return &slowSink{op, clk, 50 * time.Millisecond, func() int64 {
			if r := run.Load(); r != nil {
				return r.Stats().QueuedBytes
			}
			return 0
		}, &most}
	}
	w.Options = func(o *job.Options) {
		o.Clock = clk
		o.Event = func(e job.Event) {
			mu.Lock()
			events = append(events, e)
			mu.Unlock()
		}
	}
	r := w.Start()
	run.Store(r)
	go func() { // the driver sleeps by the machine's clock, so they are asked for
		for {
			if _, err := r.Job.Checkpoint(context.Background()); err != nil {
				return
			}
		}
	}()
	res := w.Finish(r)
	if got := len(w.Lines("out/")); got != n {
		t.Errorf("%d lines, expected %d", got, n)
	}
	if res.Stats.Failed != 0 || res.Restarts != 0 || res.Stats.Checkpoints < 3 {
		t.Errorf("%d checkpoints, %d failed, %d restarts: %+v", res.Stats.Checkpoints, res.Stats.Failed, res.Restarts, events)
	}
	for _, e := range events {
		if e.Kind == job.EventCheckpoint && e.Millis > 10_000 {
			t.Errorf("checkpoint %d took %d ms on the clock", e.Checkpoint, e.Millis)
		}
	}
	if q := most.Load(); q > 5<<20 || q == 0 {
		t.Errorf("%d bytes waited in exchanges, expected some and at most 5 MiB", q)
	}
	t.Logf("%d checkpoints, at most %d bytes waited, %v on the clock", res.Stats.Checkpoints, most.Load(), time.Duration(clk.Mono()))
}

// stuckSink refuses to take anything for a while.
type stuckSink struct {
	Native
	stuck *sync.Once
	wait  func()
}

func (s *stuckSink) Batch(input int, b *abi.Batch, out operators.Collector) error {
	s.stuck.Do(s.wait)
	return s.Native.Batch(input, b, out)
}

// TestC052SinkThatRefuses: checkpoints time out meanwhile, more of them than messages fit a task's mailbox;
// the job neither restarts nor hangs, and goes on where it was.
func TestC052SinkThatRefuses(t *testing.T) {
	t.Parallel()
	w := New(t, `name: stuck
batch: 8
linger: 0ms
checkpoint: {interval: 2ms, timeout: 3ms}
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: logic
    process: {module: "@effects", function: effects}
  - {id: out, sink: file, path: out/, envelope: true}
`)
	f := w.Feed("in")
	var once sync.Once
	free := make(chan struct{})
	w.Wrap = func(_ *operators.Node, op Native) operators.Operator {
		return &stuckSink{op, &once, func() { <-free }}
	}
	r := w.Start()
	f.Push(Text("k", 1, "out a"))
	deadline := time.Now().Add(30 * time.Second)
	for r.Stats().Failed < 100 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if n := r.Stats().Failed; n < 100 {
		t.Errorf("only %d checkpoints were given up: the job hangs on its slow task", n)
	}
	close(free)
	f.Push(Text("k", 2, "out b"))
	f.End()
	res := w.Finish(r)
	if res.Restarts != 0 {
		t.Errorf("%d restarts", res.Restarts)
	}
	w.expectValues("k", "a", "b")
}

// TestCheckpointOnRequest: ids rise, a request before the start waits, one after the end is refused.
func TestCheckpointOnRequest(t *testing.T) {
	t.Parallel()
	w := New(t, effectsText)
	f := w.Feed("in")
	r := w.Start()
	ctx := context.Background()
	var last checkpoint.ID
	for range 5 {
		id, err := r.Job.Checkpoint(ctx)
		if err != nil || id <= last {
			t.Fatalf("checkpoint %d after %d: %v", id, last, err)
		}
		last = id
	}
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if _, err := r.Job.Checkpoint(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	f.End()
	w.Finish(r)
	if _, err := r.Job.Checkpoint(ctx); err == nil {
		t.Error("a job that has ended made a checkpoint")
	}
}
