// Package memory holds a source over slices and a sink into one, for tests and for graphs built in code.
package memory

import (
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Source gives records that are there already: each slice is a split. The records' positions are set
// by the source. Splits go round robin to the tasks.
type Source struct {
	node   *operators.Node
	data   [][]abi.Record
	in     *operators.Intake
	splits []checkpoint.SplitPosition
	nums   []int
	cur    int
}

// NewSource makes the source of node n over data.
func NewSource(n *operators.Node, data ...[]abi.Record) *Source { return &Source{node: n, data: data} }

// Open implements operators.Source.
func (s *Source) Open(ctx *operators.Context) error {
	s.in = operators.NewIntake(s.node, ctx, s.Describe)
	was := map[uint32]checkpoint.SplitPosition{}
	for _, r := range ctx.Restored {
		for _, p := range r.Splits {
			was[p.Index] = p
		}
	}
	for i := ctx.Task; i < len(s.data); i += ctx.Parallelism {
		p, ok := was[uint32(i)]
		if !ok {
			p = checkpoint.SplitPosition{Split: fmt.Sprintf("slice %d", i), Index: uint32(i), MaxTime: abi.NoTime, Mark: abi.MinWatermark}
		}
		s.splits = append(s.splits, p)
		s.nums = append(s.nums, s.in.AddSplit(p))
	}
	return nil
}

// Poll implements operators.Source: one record of each split in turn.
func (s *Source) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	s.in.Begin()
	for idle := 0; idle < len(s.splits) && !b.Full(max); s.cur++ {
		i := s.cur % len(s.splits)
		p := &s.splits[i]
		if p.Finished || s.in.Held(s.nums[i]) {
			idle++
			continue
		}
		idle = 0
		data := s.data[p.Index]
		if p.Offset == int64(len(data)) {
			p.Finished = true
			s.in.Finish(b, s.nums[i])
			continue
		}
		r := data[p.Offset]
		r.Pos = abi.Position{Split: p.Index, Offset: uint64(p.Offset)}
		p.Offset++
		if err := s.in.Decoded(b, s.nums[i], &r, nil, nil); err != nil {
			return operators.PollMore, err
		}
	}
	status := operators.PollEnd
	for i, p := range s.splits {
		switch {
		case p.Finished:
		case !s.in.Held(s.nums[i]) || !b.Empty():
			return operators.PollMore, nil
		default:
			status = operators.PollIdle
		}
	}
	return status, nil
}

// Intake implements operators.Timed.
func (s *Source) Intake() *operators.Intake { return s.in }

// Rejected implements operators.Rejecter.
func (s *Source) Rejected() *abi.Batch { return s.in.Rejected() }

// Counters implements operators.Counted.
func (s *Source) Counters() map[string]int64 { return s.in.Counters() }

// Ready implements operators.Source: it never waits for its data.
func (s *Source) Ready() <-chan struct{} { return nil }

// Positions implements operators.Source.
func (s *Source) Positions() []checkpoint.SplitPosition {
	ps := append([]checkpoint.SplitPosition(nil), s.splits...)
	for i := range ps {
		s.in.Put(s.nums[i], &ps[i])
	}
	return ps
}

// Describe implements operators.Source.
func (s *Source) Describe(p abi.Position) string {
	return fmt.Sprintf("slice %d, record %d", p.Split, p.Offset)
}

// Close implements operators.Source.
func (s *Source) Close() error { return nil }

// Store takes what sinks of several tasks collect.
type Store struct {
	mu      sync.Mutex
	records []abi.Record
	marks   map[int][]int64
}

// Records is a copy of what has been collected, in the order of arrival.
func (st *Store) Records() []abi.Record {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]abi.Record(nil), st.records...)
}

// Watermarks is what task t's sink saw.
func (st *Store) Watermarks(t int) []int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return append([]int64(nil), st.marks[t]...)
}

// Sink collects into a Store.
type Sink struct {
	store *Store
	task  int
}

// NewSink makes a sink into st.
func NewSink(st *Store) *Sink { return &Sink{store: st} }

// Open implements operators.Operator.
func (s *Sink) Open(ctx *operators.Context) error {
	s.task = ctx.Task
	return nil
}

// Batch implements operators.Operator.
func (s *Sink) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for i := range b.Off {
		s.store.records = append(s.store.records, abi.Frame(append([]byte(nil), b.Frame(i)...)).Record())
	}
	for _, m := range b.Marks {
		if s.store.marks == nil {
			s.store.marks = map[int][]int64{}
		}
		s.store.marks[s.task] = append(s.store.marks[s.task], m.Watermark)
	}
	return nil
}

// Close implements operators.Operator.
func (s *Sink) Close() error { return nil }
