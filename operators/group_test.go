package operators_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/memory"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// TestAlignment: over tasks polled in any order, no split gets more than the bound and a batch ahead of the
// slowest, all come to their end, and a task that waited is woken.
func TestAlignment(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 4))
	for round := range 50 {
		const align, batch = 1000, 16
		tasks := 1 + rnd.IntN(3)
		var data [][]abi.Record
		step := int64(0) // the most that event time moves in a record
		for range 1 + rnd.IntN(5) {
			by, at := 1+rnd.Int64N(100), rnd.Int64N(3000)
			step = max(step, by)
			var ts []int64
			for range rnd.IntN(500) {
				ts = append(ts, at)
				at += by
			}
			data = append(data, times(ts...))
		}
		n := memoryNode(0, 0)
		n.Source.Time.Align = align * time.Millisecond
		group := operators.NewSourceGroup(tasks)
		var sources []*memory.Source
		waits := make([]bool, tasks)
		for i := range tasks {
			ctx := operatortest.Context(t, "in", "")
			ctx.Task, ctx.Parallelism, ctx.Group = i, tasks, group
			s := memory.NewSource(n, data...)
			if err := s.Open(ctx); err != nil {
				t.Fatal(err)
			}
			sources = append(sources, s)
		}
		reached := make([]int64, len(data)) // greatest time of each split
		left := make([]int, len(data))
		for i := range data {
			reached[i], left[i] = abi.NoTime, len(data[i])
		}
		ended := make([]bool, tasks)
		for open, turns := tasks, 0; open > 0; turns++ {
			if turns > 100_000 {
				t.Fatalf("seed %d, round %d: no end, left %v", seed, round, left)
			}
			i := rnd.IntN(tasks)
			if waits[i] {
				select {
				case <-group.Wake(i):
					waits[i] = false
				default:
				}
			}
			if ended[i] || waits[i] {
				continue
			}
			slowest := int64(1) << 62
			for s := range data {
				if left[s] > 0 {
					slowest = min(slowest, reached[s])
				}
			}
			var b abi.Batch
			st, err := sources[i].Poll(&b, batch)
			if err != nil {
				t.Fatal(err)
			}
			sources[i].Intake().End(&b)
			for k := range b.Len() {
				s := b.Frame(k).Pos().Split
				reached[s] = b.Frame(k).Time()
				left[s]--
				if slowest != abi.NoTime && slowest < 1<<61 && reached[s] > slowest+align+batch*step {
					t.Fatalf("seed %d, round %d: split %d is at %d, the slowest at %d", seed, round, s, reached[s], slowest)
				}
			}
			waits[i] = st == operators.PollIdle
			if st == operators.PollEnd {
				ended[i] = true
				open--
			}
		}
	}
}

// TestGroupDone: a task that has nothing waits for those that have, and is woken by the last.
func TestGroupDone(t *testing.T) {
	g := operators.NewSourceGroup(3)
	first, again, other := g.Done(1), g.Done(1), g.Done(2) // said twice it counts once
	if first || again || other {
		t.Error("over before task 0 is")
	}
	select {
	case <-g.Wake(1):
		t.Error("woken before task 0 is over")
	default:
	}
	if !g.Done(0) || !g.Done(1) {
		t.Error("not over, though all are")
	}
}
