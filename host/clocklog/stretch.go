package clocklog

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// Store is where snapshots are; *snapstore.Store implements it.
type Store interface {
	Load(id checkpoint.ID) (*checkpoint.Manifest, error)
	Read(ctx context.Context, digest string) ([]byte, error)
}

// Stretch is what the clock did to every task of a job from one snapshot to a later one.
type Stretch struct {
	From, To checkpoint.ID
	tasks    map[checkpoint.TaskID]*Reader
	limits   []string
}

// Between reads the logs kept with the snapshots behind from, up to and with to. Their parents lead from the
// one to the other; 0 is where the job began. Nothing is taken from the snapshot from itself. Errors: ErrMissing
// with the snapshot that is gone or has no log; ErrDamaged, and the store's, with the snapshot and task.
func Between(ctx context.Context, store Store, from, to checkpoint.ID) (*Stretch, error) {
	line, first, err := lineOf(store, from, to)
	if err != nil {
		return nil, err
	}
	s := &Stretch{From: from, To: to, tasks: map[checkpoint.TaskID]*Reader{}}
	if len(line) == 0 {
		return s, nil
	}
	if err := sameTasks(line); err != nil {
		return nil, err
	}
	last := line[len(line)-1]
	for i := range last.Tasks {
		t := &last.Tasks[i]
		r := &Reader{task: t.ID(), stretch: fmt.Sprintf("snapshot %d to %d", from, to), channels: len(t.Watermarks)}
		if r.segments, r.known, err = join(ctx, store, t.ID(), first, line); err != nil {
			return nil, err
		}
		s.tasks[t.ID()] = r
		s.limit(t, r)
	}
	slices.Sort(s.limits)
	return s, nil
}

// lineOf is the manifests behind from up to to, oldest first, and that of from; nil: from is 0.
func lineOf(store Store, from, to checkpoint.ID) (line []*checkpoint.Manifest, first *checkpoint.Manifest, err error) {
	for id := to; id != from; {
		m, err := store.Load(id)
		if err != nil {
			return nil, nil, fmt.Errorf("%w from snapshot %d to %d: snapshot %d lies between: %w", ErrMissing, from, to, id, err)
		}
		line = append(line, m)
		if m.Parent == 0 && from != 0 {
			return nil, nil, fmt.Errorf("%w from snapshot %d to %d: the latter does not go on from the former, its line begins with %d", ErrMissing, from, to, id)
		}
		id = m.Parent
	}
	slices.Reverse(line)
	if from != 0 {
		if first, err = store.Load(from); err != nil {
			return nil, nil, fmt.Errorf("snapshot %d: %w", from, err)
		}
	}
	return line, first, nil
}

// sameTasks refuses a stretch over which the job was rescaled.
func sameTasks(line []*checkpoint.Manifest) error {
	last := line[len(line)-1]
	for _, m := range line {
		for i := range m.Tasks {
			t := &m.Tasks[i]
			for j := range last.Tasks {
				if o := &last.Tasks[j]; o.Vertex == t.Vertex && o.Parallelism != t.Parallelism {
					return fmt.Errorf("%w over snapshots %d to %d: operator %s has %d tasks in the one and %d in the other; choose a stretch on one side",
						ErrMissing, m.ID, last.ID, t.Vertex, t.Parallelism, o.Parallelism)
				}
			}
		}
	}
	return nil
}

// join puts the segments of a task one behind the other. A segment may be in several snapshots, and one of a
// snapshot that was never complete is in the next; a copy of a snapshot under another id has the same ones. known:
// there were any, though perhaps none of the stretch.
func join(ctx context.Context, store Store, id checkpoint.TaskID, first *checkpoint.Manifest, line []*checkpoint.Manifest) (all []*segment, known bool, err error) {
	same := map[checkpoint.ID]checkpoint.ID{}
	at := func(id checkpoint.ID) checkpoint.ID {
		if x, ok := same[id]; ok {
			return x
		}
		return id
	}
	var pos checkpoint.ID
	if first != nil {
		own, err := segmentsOf(ctx, store, first, id)
		if err != nil {
			own = nil // it is not needed but for its end
		}
		if n := len(own); n > 0 {
			same[first.ID] = own[n-1].to
		}
		pos = at(first.ID)
	}
	for _, m := range line {
		own, err := segmentsOf(ctx, store, m, id)
		if err != nil {
			return nil, false, err
		}
		for _, g := range own {
			if known = true; at(g.from) == pos {
				all, pos = append(all, g), g.to
			}
		}
		if n := len(own); n > 0 {
			same[m.ID] = own[n-1].to
		}
	}
	last := line[len(line)-1]
	if known && pos != at(last.ID) {
		return nil, false, fmt.Errorf("%w of task %s behind snapshot %d: what is kept with the snapshots up to %d does not go on from there", ErrMissing, id, pos, last.ID)
	}
	return all, known, nil
}

// segmentsOf reads what a snapshot has of a task; none: nothing is kept of it.
func segmentsOf(ctx context.Context, store Store, m *checkpoint.Manifest, id checkpoint.TaskID) ([]*segment, error) {
	for i := range m.Tasks {
		t := &m.Tasks[i]
		if t.ID() != id || t.Clock == nil {
			continue
		}
		b := t.Clock.Data
		if t.Clock.Object != "" {
			var err error
			if b, err = store.Read(ctx, t.Clock.Object); err != nil {
				return nil, fmt.Errorf("snapshot %d, task %s, log of the clock: %w", m.ID, id, err)
			}
		}
		all, err := decode(b)
		if err != nil {
			return nil, fmt.Errorf("snapshot %d, task %s: %w", m.ID, id, err)
		}
		return all, nil
	}
	return nil, nil
}

// limit notes where a task's log is not exact.
func (s *Stretch) limit(t *checkpoint.TaskSnapshot, r *Reader) {
	if len(r.segments) == 0 {
		return
	}
	say := func(format string, args ...any) {
		s.limits = append(s.limits, fmt.Sprintf("task %s: ", t.ID())+fmt.Sprintf(format, args...))
	}
	if r.channels > 1 {
		say("the order in which its %d input channels were read is not logged", r.channels)
	}
	for _, o := range t.Operators {
		if len(o.Splits) > 1 {
			say("the order in which source %s read its %d splits is not logged", o.Operator, len(o.Splits))
		}
	}
	for i, g := range r.segments {
		for j := range g.sections {
			x := &g.sections[j]
			if x.cut {
				say("the log of operator %s was full between snapshots %d and %d; from there on it is not repeated", x.operator, g.from, g.to)
			}
			if i+1 < len(r.segments) && r.segments[i+1].section(x.operator) == nil {
				say("from snapshot %d on nothing was logged of operator %s", g.to, x.operator)
			}
		}
	}
}

// Limits says where repeating the stretch may differ from what happened, for people; empty: nowhere.
func (s *Stretch) Limits() []string { return s.limits }

// Reader makes the reader of a task, for job.Options.Clocks: the vertex is the id of the first operator of
// its chain. One that the snapshots do not have gets a reader without a log.
func (s *Stretch) Reader(vertex string, task int) *Reader {
	id := checkpoint.TaskID{Vertex: vertex, Task: task}
	if r := s.tasks[id]; r != nil {
		c := *r
		return &c
	}
	return &Reader{task: id, stretch: fmt.Sprintf("snapshot %d to %d", s.From, s.To)}
}
