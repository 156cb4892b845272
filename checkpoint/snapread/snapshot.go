// Package snapread reads the keyed state of a snapshot from its run files as they are: nothing is loaded,
// nothing is changed, and a running job does not notice. A look-up reads the blocks of one hash; a scan goes in
// hash order, which is the order of everything.
package snapread

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
)

// ErrNoState: the snapshot has no such operator or state.
var ErrNoState = errors.New("no such state in the snapshot")

// KindTimers is the kind of a state that is an operator's timers; its name is the same.
const KindTimers = "timers"

// Snapshot is a snapshot that is open for reading. It has no files open; State.Open has.
type Snapshot struct {
	manifest *checkpoint.Manifest
	objects  state.Objects
	fs       state.FS
	states   []*State
}

// State is one state of one operator, over all tasks.
type State struct {
	Operator string
	Name     string
	Kind     string // value, list, map, timers
	Version  int
	// TTL: entries have a stamp, and expire so long after it; nil: they live for ever.
	TTL *state.TTLNote
	// Ref is the declaration; nil in snapshots of older builds, and for timers.
	Ref   *checkpoint.StateRef
	snap  *Snapshot
	parts []part // by slot range
}

// part is what one task left of a state.
type part struct {
	task  int
	slots state.Range
	runs  []state.Run
}

// Open opens a snapshot. objects is its store, which has to keep the objects while they are read.
func Open(m *checkpoint.Manifest, objects state.Objects, fs state.FS) *Snapshot {
	s := &Snapshot{manifest: m, objects: objects, fs: fs}
	if s.fs == nil {
		s.fs = state.OS{}
	}
	for i := range m.Tasks {
		t := &m.Tasks[i]
		for _, o := range t.Operators {
			if o.Keyed == nil {
				continue
			}
			for _, st := range o.Keyed.States {
				if st.Kind == KindTimers && st.Name != KindTimers { // the calendar of a TTL: entries say it themselves
					continue
				}
				x := s.entry(o.Operator, &st)
				x.parts = append(x.parts, part{t.Task, o.Keyed.Range, st.Runs})
			}
		}
	}
	for _, x := range s.states {
		slices.SortFunc(x.parts, func(a, b part) int { return int(a.slots.Lo) - int(b.slots.Lo) })
	}
	return s
}

func (s *Snapshot) entry(operator string, st *state.StateSnapshot) *State {
	for _, x := range s.states {
		if x.Operator == operator && x.Name == st.Name {
			return x
		}
	}
	x := &State{Operator: operator, Name: st.Name, Kind: st.Kind, Version: st.Version, TTL: st.TTL, snap: s}
	if st.Kind != KindTimers {
		x.Ref = s.manifest.State(operator, st.Name)
	}
	s.states = append(s.states, x)
	return x
}

// Manifest is the snapshot's.
func (s *Snapshot) Manifest() *checkpoint.Manifest { return s.manifest }

// States are all states, in the order of the manifest.
func (s *Snapshot) States() []*State { return s.states }

// Hash is the hash of a key in this snapshot.
func (s *Snapshot) Hash(key []byte) uint64 { return state.Hasher{Seed: s.manifest.Seed}.Hash(key) }

// Find is the state of that name; an empty operator or name is any, if only one fits. Errors: ErrNoState, with
// the names there are.
func (s *Snapshot) Find(operator, name string) (*State, error) {
	var found []*State
	for _, x := range s.states {
		if (operator == "" || x.Operator == operator) && (name == "" && x.Kind != KindTimers || x.Name == name && name != "") {
			found = append(found, x)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%w %d: %d states fit, name one of %s", ErrNoState, s.manifest.ID, len(found), names(found))
	case len(s.states) == 0:
		return nil, fmt.Errorf("%w %d: it has no keyed state", ErrNoState, s.manifest.ID)
	}
	return nil, fmt.Errorf("%w %d: %s.%s is not there, there are %s", ErrNoState, s.manifest.ID, or(operator, "*"), or(name, "*"), names(s.states))
}

func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

func names(states []*State) string {
	var out []string
	for _, x := range states {
		out = append(out, x.Operator+"."+x.Name)
	}
	return strings.Join(out, ", ")
}

// KeyFields are the columns of the keys, nil where they are bytes of their own.
func (x *State) KeyFields() []abi.Field {
	for i := range x.snap.manifest.States {
		if r := &x.snap.manifest.States[i]; r.Operator == x.Operator {
			return r.Key
		}
	}
	return nil
}

// Stored is the bytes of the state's runs and the entries in them, removed and overwritten ones included.
func (x *State) Stored() (entries uint64, bytes int64) {
	seen := map[string]bool{}
	for _, p := range x.parts {
		for _, r := range p.runs {
			if !seen[r.Object] {
				seen[r.Object] = true
				entries += r.Count
				bytes += r.Size
			}
		}
	}
	return entries, bytes
}

// Watermark is the operator's in the snapshot, the least of its tasks'; false: it has none.
func (x *State) Watermark() (ms int64, ok bool) {
	for i := range x.snap.manifest.Tasks {
		for _, o := range x.snap.manifest.Tasks[i].Operators {
			if w, has := o.Numbers["watermark"]; has && o.Operator == x.Operator && (!ok || w < ms) {
				ms, ok = w, true
			}
		}
	}
	return ms, ok
}

// Tasks is how many tasks left a part of the state.
func (x *State) Tasks() int { return len(x.parts) }

// path finds an object's file.
func (s *Snapshot) path(ctx context.Context, r state.Run) (string, error) {
	return s.objects.Path(ctx, r.Object)
}
