// Package generator holds the source that makes its records: record i is a function of the seed and i,
// so any part of the input can be made again.
package generator

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// Source makes records. Split s of n holds the keys with number = s modulo n, so each key comes from
// one split in order, and the records are the same at any parallelism. A split's offset is the i to go
// on at.
type Source struct {
	node   *operators.Node
	spec   operators.GeneratorSpec
	ctx    *operators.Context
	in     *operators.Intake
	make   maker
	keyer  *format.Keyer
	n      int64 // splits of all tasks
	splits []checkpoint.SplitPosition
	nums   []int
	rec    abi.Record
	fromMS int64 // wall clock and offset that the rate counts from
	fromI  int64
	ready  chan struct{}
	timer  *time.Timer
	ends   map[uint32]checkpoint.SplitPosition // where splits are held; nil: nowhere
}

// NewSource makes the source of node n.
func NewSource(n *operators.Node) *Source {
	s := &Source{node: n, spec: *n.Source.Generator, ready: make(chan struct{}, 1)}
	if s.spec.Keys <= 0 {
		s.spec.Keys = 1000
	}
	if s.spec.ValueBytes <= 0 {
		s.spec.ValueBytes = 80
	}
	return s
}

// Bound implements operators.Bounded.
func (s *Source) Bound(ends map[uint32]checkpoint.SplitPosition) { s.ends = ends }

// bound says that a split is held at its end.
func (s *Source) bound(p checkpoint.SplitPosition) bool {
	end, ok := s.ends[p.Index]
	return ok && operators.Reached(p, end)
}

// Open implements operators.Source.
func (s *Source) Open(ctx *operators.Context) error {
	s.ctx = ctx
	s.in = operators.NewIntake(s.node, ctx, s.Describe)
	switch s.spec.Kind {
	case Counter:
		s.make = &counter{spec: &s.spec}
	case Sequence:
		s.make = &sequence{spec: &s.spec}
	case Payments:
		s.make = newPayments(&s.spec, s.node.Source.Format == "ndjson")
	default:
		return fmt.Errorf("source %q: unknown kind of generator %q, expected counter, sequence or payments", s.node.ID, s.spec.Kind)
	}
	if k := s.node.Source.Key; k != nil {
		s.keyer = format.NewKeyer(k.Fields, k.Whole, s.node.Schema)
	}
	s.open()
	s.fromMS, s.fromI = ctx.Clock.NowMS(), -1
	for i, p := range s.splits {
		s.nums = append(s.nums, s.in.AddSplit(p))
		if i == 0 || p.Offset < s.fromI {
			s.fromI = p.Offset
		}
	}
	return nil
}

func (s *Source) open() {
	was := map[uint32]checkpoint.SplitPosition{}
	for _, r := range s.ctx.Restored {
		for _, p := range r.Splits {
			was[p.Index] = p
		}
	}
	if s.n = int64(len(was)); s.n == 0 {
		if s.n = int64(s.spec.Splits); s.n == 0 {
			s.n = int64(s.ctx.Parallelism)
		}
	}
	for i := int64(s.ctx.Task); i < s.n; i += int64(s.ctx.Parallelism) {
		p, ok := was[uint32(i)]
		if !ok {
			p = checkpoint.SplitPosition{Split: fmt.Sprintf("generator %d of %d", i, s.n), Index: uint32(i),
				MaxTime: abi.NoTime, Mark: abi.MinWatermark}
		}
		s.splits = append(s.splits, p)
	}
}

// Poll implements operators.Source: it takes from the split that is furthest behind.
func (s *Source) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	s.in.Begin()
	at := -1
	for i, p := range s.splits {
		if !p.Finished && !s.bound(p) && (at < 0 || p.Offset < s.splits[at].Offset) {
			at = i
		}
	}
	if at < 0 {
		return operators.PollEnd, nil
	}
	p := &s.splits[at]
	limit := s.allowed()
	if p.Offset >= limit && (s.spec.Records == 0 || p.Offset < s.spec.Records) {
		s.wakeLater(p.Offset)
		return operators.PollIdle, nil
	}
	if end, ok := s.ends[p.Index]; ok && !end.Finished {
		limit = min(limit, end.Offset)
	}
	for n := 0; n < max && p.Offset < limit && !b.Full(max); p.Offset++ {
		if s.spec.Records > 0 && p.Offset >= s.spec.Records {
			break
		}
		if s.n > 1 && s.make.key(p.Offset)%s.n != int64(p.Index) {
			continue
		}
		n++
		if err := s.one(b, p, s.nums[at]); err != nil {
			return operators.PollMore, err
		}
	}
	if s.spec.Records > 0 && p.Offset >= s.spec.Records {
		p.Finished = true
		s.in.Finish(b, s.nums[at])
	}
	return operators.PollMore, nil
}

func (s *Source) one(b *abi.Batch, p *checkpoint.SplitPosition, num int) (err error) {
	r := &s.rec
	r.Time = s.spec.StartMS + p.Offset*s.spec.StepMS
	r.Pos = abi.Position{Split: p.Index, Offset: uint64(p.Offset)}
	s.make.record(p.Offset, r)
	if s.keyer != nil {
		r.Key, err = s.keyer.Key(r.Value)
	}
	return s.in.Decoded(b, num, r, r.Value, err)
}

// allowed is the first offset that the rate does not let through yet.
func (s *Source) allowed() int64 {
	if s.spec.Rate <= 0 {
		return 1<<63 - 1
	}
	return s.fromI + 1 + int64(float64(s.ctx.Clock.NowMS()-s.fromMS)*s.spec.Rate/1000)
}

// wakeLater makes Ready fire about when offset i is let through.
func (s *Source) wakeLater(i int64) {
	ms := float64(i-s.fromI)*1000/s.spec.Rate - float64(s.ctx.Clock.NowMS()-s.fromMS)
	d := time.Duration(max(1, min(ms, 1000)) * float64(time.Millisecond))
	if s.timer != nil {
		s.timer.Reset(d)
		return
	}
	s.timer = time.AfterFunc(d, func() {
		select {
		case s.ready <- struct{}{}:
		default:
		}
	})
}

// Ready implements operators.Source.
func (s *Source) Ready() <-chan struct{} { return s.ready }

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
	return fmt.Sprintf("generated record %d", p.Offset)
}

// Intake implements operators.Timed.
func (s *Source) Intake() *operators.Intake { return s.in }

// Rejected implements operators.Rejecter.
func (s *Source) Rejected() *abi.Batch { return s.in.Rejected() }

// Counters implements operators.Counted.
func (s *Source) Counters() map[string]int64 { return s.in.Counters() }

// Close implements operators.Source.
func (s *Source) Close() error {
	if s.timer != nil {
		s.timer.Stop()
	}
	return nil
}
