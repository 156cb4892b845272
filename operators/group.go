package operators

import (
	"math"
	"sync"

	"github.com/millrace-io/millrace/abi"
)

// SourceGroup is what the tasks of one source know of each other: which is the slowest, and whether all
// that have splits are at their end. Its methods may be called by all of them at once.
type SourceGroup struct {
	mu      sync.Mutex
	slowest []int64 // of each task; abi.NoTime until it has said so
	done    []bool  // the task is at its end, or has no split
	least   int64
	wake    []chan struct{}
}

// NewSourceGroup makes the group of a source that runs in that many tasks.
func NewSourceGroup(tasks int) *SourceGroup {
	g := &SourceGroup{slowest: make([]int64, tasks), done: make([]bool, tasks), least: abi.NoTime}
	for i := range g.slowest {
		g.slowest[i] = abi.NoTime
		g.wake = append(g.wake, make(chan struct{}, 1))
	}
	return g
}

// Report says how far the slowest split of a task is, and returns how far the slowest of all is: abi.NoTime
// if one has no time yet, the greatest time there is if none counts. All tasks are woken when that rises.
func (g *SourceGroup) Report(task int, slowest int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slowest[task] == slowest {
		return g.least
	}
	g.slowest[task] = slowest
	least := int64(math.MaxInt64)
	for _, t := range g.slowest {
		least = min(least, t)
	}
	rose := least > g.least
	if g.least = least; rose {
		g.wakeAll()
	}
	return least
}

// Done says that a task has read everything it has, or has no split; all: so has every other.
func (g *SourceGroup) Done(task int) (all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.done[task]
	g.done[task] = true
	for _, d := range g.done {
		if !d {
			return false
		}
	}
	if !was {
		g.wakeAll()
	}
	return true
}

func (g *SourceGroup) wakeAll() {
	for _, c := range g.wake {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Wake has a value when a task that waits for the others may go on.
func (g *SourceGroup) Wake(task int) <-chan struct{} { return g.wake[task] }
