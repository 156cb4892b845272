package replay

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// ends is what the sources of a replay share: where each ends, and what is to happen when all are there.
type ends struct {
	end     End
	records atomic.Int64 // read
	all     func()       // every task of every source is where it ends, and one of them has more to read

	mu      sync.Mutex
	left    int64 // records that may still be read, with End.Records
	tasks   int
	arrived int
	over    int
}

// register counts a task, before any runs.
func (e *ends) register() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks++
}

// there says that a task is where it ends; over: with all that there is.
func (e *ends) there(over bool) {
	e.mu.Lock()
	e.arrived++
	if over {
		e.over++
	}
	stop := e.arrived == e.tasks && e.over < e.tasks
	e.mu.Unlock()
	if stop {
		e.all()
	}
}

// take is a part of the records that may still be read, at most most; what is not read is given back.
func (e *ends) take(most int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := min(int64(most), e.left)
	e.left -= n
	return int(n)
}

func (e *ends) giveBack(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left += int64(n)
}

// isOver says that the input has ended everywhere.
func (e *ends) isOver() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tasks > 0 && e.over == e.tasks
}

// source reads what another source gives up to where the replay ends. Then it waits for good: the barrier that the
// stop sends through it is the end.
type source struct {
	operators.Source
	ends   *ends
	node   *operators.Node
	task   int
	until  map[uint32]checkpoint.SplitPosition // by split, with End.To
	toOver bool                                // the task has read everything in End.To
	there  bool
	none   abi.Batch
}

func newSource(in operators.Source, n *operators.Node, e *ends) *source {
	e.register()
	s := &source{Source: in, ends: e, node: n}
	if e.end.To == nil || s.recorded() {
		return s
	}
	s.until = map[uint32]checkpoint.SplitPosition{}
	for _, p := range splitsOf(e.end.To, n.ID) {
		s.until[p.Index] = p
	}
	if b, ok := in.(operators.Bounded); ok {
		b.Bound(s.until)
	}
	return s
}

// Open implements operators.Source.
func (s *source) Open(ctx *operators.Context) error {
	s.task = ctx.Task
	if err := s.Source.Open(ctx); err != nil {
		return err
	}
	if to := s.ends.end.To; s.until != nil {
		s.toOver = overIn(to, s.node.ID, ctx.Task)
		for _, p := range s.Source.Positions() {
			if end, ok := s.until[p.Index]; !ok || end.Split != p.Split || !operators.Reached(end, p) {
				return fmt.Errorf("%w: source %s: snapshot %d is not behind the one to start from in %s", ErrUnreadable, s.node.ID, to.ID, p.Split)
			}
		}
	}
	return nil
}

func (s *source) recorded() bool {
	_, ok := s.Source.(Recorded)
	return ok
}

// Intake implements operators.Timed; nil where the source has none.
func (s *source) Intake() *operators.Intake {
	if t, ok := s.Source.(operators.Timed); ok {
		return t.Intake()
	}
	return nil
}

// Rejected implements operators.Rejecter.
func (s *source) Rejected() *abi.Batch {
	if r, ok := s.Source.(operators.Rejecter); ok && !s.there {
		return r.Rejected()
	}
	return &s.none
}

// Poll implements operators.Source.
func (s *source) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	if s.there {
		return operators.PollIdle, nil
	}
	n, arrived := s.room(most)
	if arrived {
		return s.arrive(), nil
	}
	st, err := s.Source.Poll(b, n)
	if err != nil {
		return st, err
	}
	s.ends.records.Add(int64(b.Len()))
	if s.ends.end.Records > 0 && b.Len() < n {
		s.ends.giveBack(n - b.Len())
	}
	switch {
	case st == operators.PollEnd:
		s.there = true
		s.ends.there(true)
	case st == operators.PollIdle && b.Empty() && s.endsNow():
		return s.arrive(), nil
	}
	return st, nil
}

// endsNow says that a source which has nothing for now is where it ends.
func (s *source) endsNow() bool {
	if r, ok := s.Source.(Recorded); ok {
		return r.AtEnd()
	}
	return !s.ends.end.Live && s.until == nil
}

func (s *source) arrive() operators.PollStatus {
	s.there = true
	s.ends.there(false)
	return operators.PollIdle
}

// room is how many records may be read at once without going past the end; arrived: none. Marks and positions of the
// last poll are in the source by now.
func (s *source) room(most int) (n int, arrived bool) {
	e := &s.ends.end
	if s.recorded() {
		return most, false
	}
	if s.until != nil {
		if most = s.distance(most); most == 0 {
			return 0, true
		}
	}
	if in := s.Intake(); e.TimeMS != 0 && in != nil && in.Watermark() >= e.TimeMS {
		return 0, true
	}
	if e.Records > 0 {
		if most = s.ends.take(most); most == 0 {
			return 0, true
		}
	}
	return most, false
}

// distance is how many records may be read at once, at most most, before a split is at its end; 0: all splits are there.
// Splits count their records in their positions, except those that the error policy took: near its end a split is
// read record by record.
func (s *source) distance(most int) int {
	behind := s.toOver
	for _, p := range s.Source.Positions() {
		end := s.until[p.Index]
		if operators.Reached(p, end) {
			continue
		}
		behind = true
		if !end.Finished {
			most = int(min(int64(most), max(1, end.Ordinal-p.Ordinal)))
		}
	}
	if !behind {
		return 0
	}
	return most
}

// splitsOf are the positions of a source in a snapshot.
func splitsOf(m *checkpoint.Manifest, source string) (all []checkpoint.SplitPosition) {
	for _, t := range m.Tasks {
		for _, o := range t.Operators {
			if o.Operator == source {
				all = append(all, o.Splits...)
			}
		}
	}
	return all
}

// overIn says that a source's task had read everything in a snapshot.
func overIn(m *checkpoint.Manifest, source string, task int) bool {
	return m.Finished || slices.ContainsFunc(m.Tasks, func(t checkpoint.TaskSnapshot) bool {
		return t.Vertex == source && t.Task == task && t.Finished
	})
}
