package job

import (
	"context"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// liveWait is how long a task may take to say how it does: it answers between two batches.
const liveWait = 300 * time.Millisecond

// Operators takes stock of every operator while the tasks run: each task reads its own counters between two batches. Of a
// task that does not come to that in time Unanswered counts one, and its share is missing. Empty between two attempts.
func (j *Job) Operators(ctx context.Context) []OperatorStats {
	j.mu.Lock()
	a := j.current
	j.mu.Unlock()
	if a == nil {
		return nil
	}
	select {
	case <-a.up:
	default:
		return nil
	}
	looks := a.looks()
	answers := make(chan tally, len(looks))
	for _, l := range looks {
		l.task.Control(task.Control{Look: func(func(string) operators.Operator) { answers <- l.tally() }})
	}
	ctx, cancel := context.WithTimeout(ctx, liveWait)
	defer cancel()
	sum, answered := tally{}, map[string]int{}
	for waits := true; waits && len(looks) > 0; {
		select {
		case t := <-answers:
			for id := range t {
				answered[id]++
			}
			sum.merge(t)
			looks = looks[1:] // as many as still have to answer
		case <-a.over:
			waits = false
		case <-ctx.Done():
			waits = false
		}
	}
	out := sum.list(j.Running().Graph.Nodes)
	for i := range out {
		o := &out[i]
		o.Unanswered = a.tasksOf(o.ID) - answered[o.ID]
		o.Watermark = a.watermarkOf(o.ID)
	}
	return out
}

// look is what one task has to count.
type look struct {
	task    *task.Task
	ids     []string
	source  string // among ids; empty: there is none
	counted map[string]operators.Counted
	guests  map[string]*guestop.Op
}

// looks are those of all tasks. What counts is listed by operator in the order of its tasks.
func (a *attempt) looks() []look {
	var out []look
	guests := map[string][]*guestop.Op{}
	for _, g := range a.guests {
		guests[g.ID()] = append(guests[g.ID()], g)
	}
	index := map[string]int{}
	for _, t := range a.tasks {
		l := look{task: t, counted: map[string]operators.Counted{}, guests: map[string]*guestop.Op{}}
		for id := range a.nodes {
			if !t.Runs(id) {
				continue
			}
			i := index[id]
			index[id]++
			l.ids = append(l.ids, id)
			if a.nodes[id].Source != nil {
				l.source = id
			}
			if cs := a.counted[id]; i < len(cs) {
				l.counted[id] = cs[i]
			}
			if gs := guests[id]; i < len(gs) {
				l.guests[id] = gs[i]
			}
		}
		out = append(out, l)
	}
	return out
}

// tally counts; by the task's goroutine.
func (l *look) tally() tally {
	t := tally{}
	for _, id := range l.ids {
		t[id] = map[string]int64{}
		if c := l.counted[id]; c != nil {
			t.counted(id, c)
		}
		if l.source == id {
			t.add(id, "out", l.task.Records.Load())
		}
		if g := l.guests[id]; g != nil {
			t.guest(g)
		}
	}
	return t
}

// tasksOf is how many tasks run an operator.
func (a *attempt) tasksOf(id string) (n int) {
	for _, t := range a.tasks {
		if t.Runs(id) {
			n++
		}
	}
	return n
}

// watermarkOf is the lowest of the operator's tasks that count; abi.MinWatermark: none yet.
func (a *attempt) watermarkOf(id string) int64 {
	least, foremost, counts := abi.MaxWatermark, abi.MinWatermark, false
	for _, t := range a.tasks {
		if !t.Runs(id) {
			continue
		}
		w := t.Watermark.Load()
		foremost = max(foremost, w)
		if !t.Idle.Load() {
			least, counts = min(least, w), true
		}
	}
	if !counts {
		return foremost
	}
	return least
}
