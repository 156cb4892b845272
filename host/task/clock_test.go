package task

import (
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
)

// clockOp sees the time of its batches.
type clockOp struct {
	uses bool
	ctx  *operators.Context
	seen int64
}

func (o *clockOp) Open(*operators.Context) error { return nil }
func (o *clockOp) Close() error                  { return nil }
func (o *clockOp) UsesClock() bool               { return o.uses }
func (o *clockOp) Batch(_ int, _ *abi.Batch, _ operators.Collector) error {
	o.seen = o.ctx.Clock.NowMS()
	return nil
}

type stopped struct{ clock.Wall }

func (stopped) NowMS() int64 { return 1_700_000_000_000 }

func clockStage(t testing.TB, user, uses bool, wall clock.Clock) (*Stage, *clockOp) {
	t.Helper()
	op := &clockOp{uses: uses, ctx: &operators.Context{Clock: wall}}
	s := &Stage{Node: &operators.Node{ID: "op"}, Op: op, Context: op.ctx}
	if user {
		s.ClockUser = op
	}
	task := New(Config{Stages: []*Stage{s}, Clock: wall})
	if err := task.openClock(); err != nil {
		t.Fatal(err)
	}
	return s, op
}

func clockBatch() *abi.Batch {
	b := &abi.Batch{}
	for i := range 100 {
		b.Append(&abi.Record{Key: []byte("k"), Value: []byte("v"), Time: int64(i)})
	}
	b.Mark(50)
	return b
}

// TestClockCostsNothing: handing a batch on allocates nothing, whether the operator looks at the clock or not, and
// where it does not look nothing is kept.
func TestClockCostsNothing(t *testing.T) {
	for _, c := range []struct {
		name       string
		user, uses bool
	}{{"not asked", false, false}, {"does not look", true, false}, {"looks", true, true}} {
		s, op := clockStage(t, c.user, c.uses, stopped{})
		b := clockBatch()
		if n := testing.AllocsPerRun(1000, func() {
			if err := s.batch(0, b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per batch", c.name, n)
		}
		if op.seen != (stopped{}).NowMS() {
			t.Errorf("%s: the operator saw %d", c.name, op.seen)
		}
		if p := s.task.clocks.Cut(1); (p != nil) != c.uses {
			t.Errorf("%s: there is a log: %t", c.name, p != nil)
		}
	}
}

// TestClockLogGrows: where each batch comes at another time, less than one in twenty makes the log grow.
func TestClockLogGrows(t *testing.T) {
	wall := &ticking{}
	s, _ := clockStage(t, true, true, wall)
	b := clockBatch()
	if n := testing.AllocsPerRun(2000, func() {
		if err := s.batch(0, b); err != nil {
			t.Fatal(err)
		}
	}); n > 0.05 {
		t.Errorf("%v allocations per batch", n)
	}
	if p := s.task.clocks.Cut(1); len(p.Encode()) > 2001*6 {
		t.Errorf("%d bytes for 2001 batches", len(p.Encode()))
	}
}

type ticking struct {
	clock.Wall
	now int64
}

func (c *ticking) NowMS() int64 { c.now++; return c.now }

// TestSwapTakesInterest: code that begins to look at the clock is logged from its barrier on, code that ends to is
// not.
func TestSwapTakesInterest(t *testing.T) {
	wall := &ticking{now: 100}
	s, op := clockStage(t, true, false, wall)
	b := clockBatch()
	batch := func() {
		t.Helper()
		if err := s.batch(0, b); err != nil {
			t.Fatal(err)
		}
	}
	logs := func(id checkpoint.ID) bool {
		return s.task.clocks.Cut(id) != nil
	}
	batch()
	if logs(1) {
		t.Fatal("it is logged before it looks")
	}
	op.uses = true
	s.task.swapped()
	batch()
	if !logs(2) {
		t.Fatal("it is not logged")
	}
	if op.seen != wall.now {
		t.Errorf("the operator saw %d, it is %d", op.seen, wall.now)
	}
	s.task.clocks.Complete(2)
	op.uses = false
	s.task.swapped()
	batch()
	if logs(3) {
		t.Error("it is logged though it does not look")
	}
	if op.seen != wall.now {
		t.Errorf("the operator saw %d, it is %d", op.seen, wall.now)
	}
}

func BenchmarkStageBatch(b *testing.B) {
	for _, c := range []struct {
		name       string
		user, uses bool
	}{{"plain", false, false}, {"user", true, false}, {"logged", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			s, _ := clockStage(b, c.user, c.uses, clock.Wall{})
			in := clockBatch()
			for b.Loop() {
				if err := s.batch(0, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
