package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/memimage"
)

// SizeUnknown is the size of an object whose manifest does not record one.
const SizeUnknown = -1

// ObjectRef is one use of an object of the snapshot store by a manifest.
type ObjectRef struct {
	Digest string
	Size   int64  // bytes, or SizeUnknown
	Where  string // for people: "operator count, task 2, state seen, run 0"
}

// Objects yields every object that m needs, once per use.
func (m *Manifest) Objects() iter.Seq[ObjectRef] {
	return func(yield func(ObjectRef) bool) {
		if m.Pipeline != "" && !yield(ObjectRef{m.Pipeline, SizeUnknown, "the pipeline file"}) {
			return
		}
		for _, mod := range m.Modules {
			ref := ObjectRef{mod.Digest, mod.Size, "module of operator " + mod.Operator}
			if mod.Size > 0 && !yield(ref) {
				return
			}
		}
		if !m.Canary.objects(yield) || m.Next != nil && !m.Next.objects(yield) {
			return
		}
		for i := range m.Tasks {
			if !m.Tasks[i].objects(yield) {
				return
			}
		}
	}
}

func (n *Next) objects(yield func(ObjectRef) bool) bool {
	if n.Pipeline != "" && !yield(ObjectRef{n.Pipeline, SizeUnknown, "the next pipeline file"}) {
		return false
	}
	for _, mod := range n.Modules {
		if mod.Size > 0 && !yield(ObjectRef{mod.Digest, mod.Size, "next module of operator " + mod.Operator}) {
			return false
		}
	}
	return n.Canary.objects(yield)
}

func (t *TaskSnapshot) objects(yield func(ObjectRef) bool) bool {
	for _, o := range t.Operators {
		if o.Memory != nil {
			where := fmt.Sprintf("operator %s, task %d, memory of its instance", o.Operator, t.Task)
			for _, f := range append([]memimage.File{o.Memory.Table}, o.Memory.Packs...) {
				if !yield(ObjectRef{f.Object, f.Size, where}) {
					return false
				}
			}
		}
		if o.Keyed == nil {
			continue
		}
		for _, s := range o.Keyed.States {
			for i, r := range s.Runs {
				where := fmt.Sprintf("operator %s, task %d, state %s, run %d", o.Operator, t.Task, s.Name, i)
				if !yield(ObjectRef{r.Object, r.Size, where}) {
					return false
				}
			}
		}
	}
	if c := t.Clock; c != nil && c.Object != "" {
		if !yield(ObjectRef{c.Object, c.Size, fmt.Sprintf("operator %s, task %d, log of the clock", t.Vertex, t.Task)}) {
			return false
		}
	}
	for _, c := range t.Channels {
		where := fmt.Sprintf("operator %s, task %d, channel %d", t.Vertex, t.Task, c.Channel)
		if !yield(ObjectRef{c.Object, c.Size, where}) {
			return false
		}
	}
	return true
}

// TotalBytes is the size of all objects, each counted once; of unknown sizes nothing is counted.
func (m *Manifest) TotalBytes() int64 {
	seen := map[string]bool{}
	var n int64
	for ref := range m.Objects() {
		if !seen[ref.Digest] {
			seen[ref.Digest] = true
			n += max(ref.Size, 0)
		}
	}
	return n
}

// Validate says whether m describes a whole checkpoint: the slot count of this build, all tasks of each
// vertex exactly once, each owning its slot range, well-formed digests. Errors wrap ErrInvalid.
func (m *Manifest) Validate() error {
	if m.ID == 0 {
		return fmt.Errorf("%w: it has no id", ErrInvalid)
	}
	if m.Slots != state.Slots {
		return fmt.Errorf("%w: checkpoint %d has %d slots, this build has %d: its keys would go to other tasks",
			ErrInvalid, m.ID, m.Slots, state.Slots)
	}
	if m.Kind != KindCheckpoint && m.Kind != KindSavepoint {
		return fmt.Errorf("%w: snapshot %d is of kind %q, expected none or %q", ErrInvalid, m.ID, m.Kind, KindSavepoint)
	}
	if m.ParentSHA != "" && !ValidDigest(m.ParentSHA) || m.Origin != nil && !ValidDigest(m.Origin.SHA256) {
		return fmt.Errorf("%w: snapshot %d: the digest of its parent or origin is no SHA-256 in lower-case hex", ErrInvalid, m.ID)
	}
	if m.Job == "" {
		return fmt.Errorf("%w: checkpoint %d names no job", ErrInvalid, m.ID)
	}
	err := m.Canary.validate()
	if m.Next != nil && err == nil {
		err = errors.Join(m.Next.Canary.validate(), m.Next.Probation.validate(m.ID, true))
	}
	if err == nil {
		err = m.Probation.validate(m.ID, false)
	}
	if err == nil {
		err = m.validateTasks()
	}
	if err != nil {
		return fmt.Errorf("%w: checkpoint %d: %w", ErrInvalid, m.ID, err)
	}
	for ref := range m.Objects() {
		if !ValidDigest(ref.Digest) {
			return fmt.Errorf("%w: checkpoint %d: %s: %q is not a SHA-256 in lower-case hex",
				ErrInvalid, m.ID, ref.Where, ref.Digest)
		}
		if ref.Size < SizeUnknown {
			return fmt.Errorf("%w: checkpoint %d: %s: size %d", ErrInvalid, m.ID, ref.Where, ref.Size)
		}
	}
	return nil
}

func (m *Manifest) validateTasks() error {
	if len(m.Tasks) == 0 {
		return fmt.Errorf("it has no tasks")
	}
	type vertex struct{ parallelism, seen int }
	vertices := make(map[string]vertex)
	present := make(map[TaskID]bool, len(m.Tasks))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		v, known := vertices[t.Vertex]
		switch {
		case t.Task < 0 || t.Task >= t.Parallelism:
			return fmt.Errorf("operator %s: task %d of %d", t.Vertex, t.Task, t.Parallelism)
		case known && v.parallelism != t.Parallelism:
			return fmt.Errorf("operator %s has parallelism %d in one task and %d in another",
				t.Vertex, v.parallelism, t.Parallelism)
		case present[t.ID()]:
			return fmt.Errorf("operator %s: task %d is in it twice", t.Vertex, t.Task)
		}
		present[t.ID()] = true
		vertices[t.Vertex] = vertex{t.Parallelism, v.seen + 1}
		if err := t.validateRanges(); err != nil {
			return err
		}
	}
	for name, v := range vertices {
		if v.seen != v.parallelism {
			return fmt.Errorf("operator %s: %d of %d tasks are in it", name, v.seen, v.parallelism)
		}
	}
	return nil
}

func (t *TaskSnapshot) validateRanges() error {
	want := state.TaskRange(t.Task, t.Parallelism)
	for _, o := range t.Operators {
		if o.Keyed != nil && o.Keyed.Range != want {
			return fmt.Errorf("operator %s: task %d of %d has slots [%d, %d), it owns [%d, %d)", o.Operator,
				t.Task, t.Parallelism, o.Keyed.Range.Lo, o.Keyed.Range.Hi, want.Lo, want.Hi)
		}
	}
	return nil
}

// ValidDigest says whether d is a SHA-256 in lower-case hex, as objects are named.
func ValidDigest(d string) bool {
	if len(d) != hexDigest {
		return false
	}
	raw, err := hex.DecodeString(d)
	return err == nil && hex.EncodeToString(raw) == d
}

// TaskID names a task of a job: the id of its chain's first operator and its number.
type TaskID struct {
	Vertex string
	Task   int
}

// String is "vertex/3".
func (id TaskID) String() string { return fmt.Sprintf("%s/%d", id.Vertex, id.Task) }

// ID is the task that t is a snapshot of.
func (t *TaskSnapshot) ID() TaskID { return TaskID{t.Vertex, t.Task} }
