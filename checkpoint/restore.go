package checkpoint

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ErrOtherJob: the checkpoint belongs to another pipeline.
var ErrOtherJob = errors.New("the checkpoint belongs to another job")

// Target is the job that is to start from a checkpoint.
type Target struct {
	Job       string
	Operators []string    // ids of all operators of its graph
	Modules   []ModuleRef // as it will run them
	// Droppable operators may lose what the checkpoint holds for them when they are not in the graph.
	Droppable []string
	// Renamed maps an operator's id in the checkpoint to its id in the graph.
	Renamed map[string]string
}

// Orphan is what a checkpoint holds for an operator that the graph does not have.
type Orphan struct {
	Operator string
	Entries  uint64 // of keyed state and timers
	Bytes    int64  // of their runs and private data
	Splits   int
	Staged   int // files not yet published
}

// OrphanError refuses a start that would lose state.
type OrphanError struct{ Orphans []Orphan }

// Error implements error.
func (e *OrphanError) Error() string {
	var parts []string
	for _, o := range e.Orphans {
		parts = append(parts, fmt.Sprintf("%s (%d entries, %d bytes, %d splits, %d unpublished files)",
			o.Operator, o.Entries, o.Bytes, o.Splits, o.Staged))
	}
	return "the checkpoint has state of operators that are not in the pipeline: " + strings.Join(parts, ", ") +
		"; keep their ids, or drop what they hold (--drop ID)"
}

// Restore is a checkpoint as a job starts from it.
type Restore struct {
	Manifest *Manifest
	// Notes are for people: changed modules, dropped and renamed operators.
	Notes     []string
	operators map[string][]OperatorSnapshot
	vertices  map[string][]*TaskSnapshot
}

// PlanRestore checks that target can start from m and sorts m by operator. Errors: ErrOtherJob;
// *OrphanError; ErrInvalid.
func PlanRestore(m *Manifest, target Target) (*Restore, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Job != target.Job {
		return nil, fmt.Errorf("%w: checkpoint %d is of %q, the pipeline is %q", ErrOtherJob, m.ID, m.Job, target.Job)
	}
	r := &Restore{Manifest: m, operators: map[string][]OperatorSnapshot{}, vertices: map[string][]*TaskSnapshot{}}
	orphans, origin := map[string]*Orphan{}, map[string]string{}
	renamed := func(id string) string {
		if to, ok := target.Renamed[id]; ok {
			return to
		}
		return id
	}
	for _, t := range sortedTasks(m) {
		r.vertices[renamed(t.Vertex)] = append(r.vertices[renamed(t.Vertex)], t)
		for _, o := range t.Operators {
			id := renamed(o.Operator)
			if !slices.Contains(target.Operators, id) {
				if orphans[id] == nil {
					orphans[id] = &Orphan{Operator: id}
				}
				orphans[id].add(&o)
				continue
			}
			if from, ok := origin[id]; ok && from != o.Operator {
				return nil, fmt.Errorf("%w: operators %s and %s would both become %s", ErrInvalid, from, o.Operator, id)
			}
			origin[id] = o.Operator
			o.Operator = id
			r.operators[id] = append(r.operators[id], o)
		}
	}
	for from, to := range target.Renamed {
		r.Notes = append(r.Notes, fmt.Sprintf("operator %s takes over the state of %s", to, from))
	}
	if err := r.judge(orphans, target.Droppable); err != nil {
		return nil, err
	}
	r.compareModules(target.Modules, renamed)
	slices.Sort(r.Notes)
	return r, nil
}

// sortedTasks lists the tasks by number, so that what is gathered per operator is in task order.
func sortedTasks(m *Manifest) []*TaskSnapshot {
	tasks := make([]*TaskSnapshot, len(m.Tasks))
	for i := range m.Tasks {
		tasks[i] = &m.Tasks[i]
	}
	slices.SortStableFunc(tasks, func(a, b *TaskSnapshot) int { return a.Task - b.Task })
	return tasks
}

func (o *Orphan) add(s *OperatorSnapshot) {
	if s.Keyed != nil {
		for _, st := range s.Keyed.States {
			for _, run := range st.Runs {
				o.Entries += run.Count
				o.Bytes += run.Size
			}
		}
	}
	o.Bytes += int64(len(s.Data))
	o.Splits += len(s.Splits)
	o.Staged += len(s.Staged)
}

func (o *Orphan) empty() bool {
	return o.Entries == 0 && o.Bytes == 0 && o.Splits == 0 && o.Staged == 0
}

// judge refuses orphans with state unless they may be dropped.
func (r *Restore) judge(orphans map[string]*Orphan, droppable []string) error {
	var refused []Orphan
	for id, o := range orphans {
		switch {
		case o.empty():
		case slices.Contains(droppable, id):
			r.Notes = append(r.Notes, fmt.Sprintf("operator %s is gone: %d entries, %d bytes dropped", id,
				o.Entries, o.Bytes))
		default:
			refused = append(refused, *o)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	slices.SortFunc(refused, func(a, b Orphan) int { return strings.Compare(a.Operator, b.Operator) })
	return &OrphanError{refused}
}

func (r *Restore) compareModules(now []ModuleRef, renamed func(string) string) {
	for _, old := range r.Manifest.InForce().Modules {
		for _, mod := range now {
			if mod.Operator == renamed(old.Operator) && mod.Digest != old.Digest {
				r.Notes = append(r.Notes, fmt.Sprintf("operator %s: module changed from %.12s to %.12s",
					mod.Operator, old.Digest, mod.Digest))
			}
		}
	}
}

// Operator is what all tasks of an operator left, in task order, of whatever parallelism. Empty: it is new.
func (r *Restore) Operator(id string) []OperatorSnapshot { return r.operators[id] }

// Replace puts other snapshots in place of an operator's, as after rewriting its state.
func (r *Restore) Replace(id string, snaps []OperatorSnapshot) { r.operators[id] = snaps }

// Finished says that every task of a vertex had ended.
func (r *Restore) Finished(vertex string) bool {
	tasks := r.vertices[vertex]
	for _, t := range tasks {
		if !t.Finished {
			return false
		}
	}
	return len(tasks) > 0
}

// Watermarks are those that task t of p starts with on its n input channels: as they were if parallelism
// and channels are the same, else the least watermark of any task, so that nothing becomes late by rescaling.
func (r *Restore) Watermarks(vertex string, t, p, n int) []int64 {
	tasks := r.vertices[vertex]
	if r.same(vertex, t, p, n) {
		return slices.Clone(tasks[t].Watermarks)
	}
	lowest, found := int64(math.MaxInt64), false
	for _, old := range tasks {
		if len(old.Watermarks) > 0 {
			lowest, found = min(lowest, old.Watermark()), true
		}
	}
	if !found {
		lowest = math.MinInt64
	}
	return slices.Repeat([]int64{lowest}, n)
}

// Idle says which of those channels were idle, and how far, ms, the task's watermark was ahead of the least
// of all. After rescaling no channel is: those that send on it say so again.
func (r *Restore) Idle(vertex string, t, p, n int) (idle []bool, ahead uint64) {
	if !r.same(vertex, t, p, n) {
		return nil, 0
	}
	old := r.vertices[vertex][t]
	return slices.Clone(old.Idle), old.Ahead
}

func (r *Restore) same(vertex string, t, p, n int) bool {
	tasks := r.vertices[vertex]
	return len(tasks) == p && len(tasks[t].Watermarks) == n
}

// Watermark is what the task's inputs came to: their least, or more where one was idle.
func (t *TaskSnapshot) Watermark() int64 {
	return Advance(slices.Min(t.Watermarks), t.Ahead)
}

// Advance is the watermark that is ahead ms beyond w, over the whole range of 64 bits.
func Advance(w int64, ahead uint64) int64 { return int64(uint64(w) + ahead) }

// Ahead is how far watermark w is beyond least, ms: what Advance takes.
func Ahead(w, least int64) uint64 { return uint64(w) - uint64(least) }
