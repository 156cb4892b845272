package jobtest

import (
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Feed is an unbounded source of one split whose records a test pushes while the job runs. It can be read
// again from any offset, over as many runs as there are.
type Feed struct {
	mu      sync.Mutex
	records []abi.Record
	ended   bool
	taken   int64 // records polled by the run that is on
	ready   chan struct{}
}

// Feed makes a feed for a source node.
func (w *World) Feed(node string) *Feed {
	f := &Feed{ready: make(chan struct{}, 1)}
	w.Feeds[node] = f
	return f
}

// Push adds records.
func (f *Feed) Push(rs ...abi.Record) {
	f.mu.Lock()
	f.records = append(f.records, rs...)
	f.mu.Unlock()
	f.wake()
}

// drained says that all records are polled.
func (f *Feed) drained() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken == int64(len(f.records))
}

// polled is how many records the run has taken.
func (f *Feed) polled() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken
}

// End ends the input.
func (f *Feed) End() {
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.wake()
}

func (f *Feed) wake() {
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

// feedSource is a Feed in one task; those but the first have no split.
type feedSource struct {
	feed *Feed
	node *operators.Node
	in   *operators.Intake
	pos  checkpoint.SplitPosition
	mine bool
}

// Open implements operators.Source.
func (s *feedSource) Open(ctx *operators.Context) error {
	s.in = operators.NewIntake(s.node, ctx, s.Describe)
	s.feed.mu.Lock()
	s.feed.taken = -1
	s.feed.mu.Unlock()
	if s.mine = ctx.Task == 0; !s.mine {
		return nil
	}
	s.pos = checkpoint.SplitPosition{Split: "feed", MaxTime: abi.NoTime, Mark: abi.MinWatermark}
	for _, r := range ctx.Restored {
		for _, p := range r.Splits {
			s.pos = p
		}
	}
	s.in.AddSplit(s.pos)
	return nil
}

// Poll implements operators.Source.
func (s *feedSource) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	s.in.Begin()
	if !s.mine {
		return operators.PollEnd, nil
	}
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	for ; s.pos.Offset < int64(len(s.feed.records)) && !b.Full(max); s.pos.Offset++ {
		r := s.feed.records[s.pos.Offset]
		r.Pos = abi.Position{Offset: uint64(s.pos.Offset)}
		if err := s.in.Decoded(b, 0, &r, nil, nil); err != nil {
			return operators.PollMore, err
		}
	}
	s.feed.taken = s.pos.Offset
	switch {
	case s.pos.Offset < int64(len(s.feed.records)):
		return operators.PollMore, nil
	case s.feed.ended:
		if !s.pos.Finished {
			s.pos.Finished = true
			s.in.Finish(b, 0)
		}
		return operators.PollEnd, nil
	}
	s.in.CaughtUp(b, 0)
	return operators.PollIdle, nil
}

// Intake implements operators.Timed.
func (s *feedSource) Intake() *operators.Intake { return s.in }

// Ready implements operators.Source.
func (s *feedSource) Ready() <-chan struct{} { return s.feed.ready }

// Positions implements operators.Source.
func (s *feedSource) Positions() []checkpoint.SplitPosition {
	if !s.mine {
		return nil
	}
	p := s.pos
	s.in.Put(0, &p)
	return []checkpoint.SplitPosition{p}
}

// Describe implements operators.Source.
func (s *feedSource) Describe(p abi.Position) string { return fmt.Sprintf("feed, record %d", p.Offset) }

// Close implements operators.Source.
func (s *feedSource) Close() error { return nil }
