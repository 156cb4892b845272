package stateview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
)

// WriteOptions are what Write to know besides: where to put files before the store takes them, the version
// that writes, the time.
type WriteOptions struct {
	Dir    string // exists; files in it are removed again
	Engine string
	NowMS  int64
}

// Write makes a savepoint of the snapshot with the patch. The snapshot stays as it is; the new one shares all
// its objects and adds one run per state and task that the patch changes. It is beside the line that a restart
// goes on with: --restore starts from it.
func (p *Patch) Write(ctx context.Context, store *snapstore.Store, o WriteOptions) (*checkpoint.Manifest, error) {
	old := p.view.snap.Manifest()
	m, err := copyOf(old)
	if err != nil {
		return nil, err
	}
	m.Format, m.Kind, m.Parent, m.CreatedMS, m.Engine, m.StoredBytes = checkpoint.FormatVersion, checkpoint.KindSavepoint, old.ID, o.NowMS, o.Engine, 0
	for _, x := range p.view.snap.States() {
		if len(p.changes[x]) == 0 {
			continue
		}
		if err := p.writeState(ctx, m, x, store, o.Dir); err != nil {
			return nil, err
		}
	}
	if m.ID, err = store.Reserve(1); err != nil {
		return nil, err
	}
	return m, store.WriteBeside(ctx, m)
}

// copyOf is a manifest that shares nothing with m.
func copyOf(m *checkpoint.Manifest) (*checkpoint.Manifest, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	c := new(checkpoint.Manifest)
	return c, json.Unmarshal(b, c)
}

// writeState adds a run to each task's part of a state that has changes.
func (p *Patch) writeState(ctx context.Context, m *checkpoint.Manifest, x *snapread.State, store state.Objects, dir string) error {
	changes := p.changes[x]
	slices.SortFunc(changes, func(a, b change) int { return snapread.CompareKeys(a.hash, a.key, b.hash, b.key) })
	for i := range m.Tasks {
		for j := range m.Tasks[i].Operators {
			op := &m.Tasks[i].Operators[j]
			if op.Operator != x.Operator || op.Keyed == nil {
				continue
			}
			for k := range op.Keyed.States {
				st := &op.Keyed.States[k]
				if st.Name != x.Name {
					continue
				}
				run, ok, err := writeRun(ctx, changes, op.Keyed.Range, store, dir)
				if err != nil {
					return fmt.Errorf("operator %s, state %s: %w", x.Operator, x.Name, err)
				}
				if ok {
					st.Runs = slices.Insert(st.Runs, 0, run)
					m.StoredBytes += run.Size
				}
			}
		}
	}
	return nil
}

// writeRun makes an object of the changes in a range of slots; false: there are none.
func writeRun(ctx context.Context, changes []change, slots state.Range, store state.Objects, dir string) (run state.Run, ok bool, err error) {
	w, err := snapread.NewRunWriter(dir)
	if err != nil {
		return run, false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	for _, c := range changes {
		if slots.Contains(c.hash) {
			if err := w.Add(c.hash, c.key, c.value, c.remove); err != nil {
				return run, false, err
			}
			ok = true
		}
	}
	if !ok {
		return run, false, nil
	}
	run, err = w.Finish(ctx, store)
	return run, err == nil, err
}
