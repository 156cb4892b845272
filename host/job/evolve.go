package job

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/evolve"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// evolves holds the states of a checkpoint against those that a graph declares: it names all that can't be
// taken over, and rewrites those whose schema only grew, in the checkpoint as it is in memory. What a module
// rewrites (a higher version) is not looked at here.
func (j *Job) evolves(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, g *operators.Graph) (problems []string, err error) {
	now := StateRefs(g)
	keyed := map[string]bool{}
	for i := range now {
		n := &now[i]
		old := m.State(n.Operator, n.State.Name)
		if old == nil || !holdsEntries(r, n.Operator, n.State.Name) {
			continue
		}
		if v, why := evolve.Key(old.Key, n.Key); v == evolve.Refused && !keyed[n.Operator] && evolve.SameColumns(old.Key, n.Key) {
			keyed[n.Operator] = true // other columns are named by changedKeys
			problems = append(problems, evolve.Finding{Operator: n.Operator, Verdict: v, Reason: why}.String())
		}
		switch v, why := evolve.State(&old.State, &n.State); v {
		case evolve.Refused:
			problems = append(problems, evolve.Finding{Operator: n.Operator, State: n.State.Name, Verdict: v, Reason: why}.String())
		case evolve.Convert:
			if err := j.convert(ctx, m, r, old, n); err != nil {
				return nil, err
			}
			r.Notes = append(r.Notes, evolve.Finding{Operator: n.Operator, State: n.State.Name, Verdict: v, Reason: why}.String())
		}
	}
	return problems, nil
}

// holdsEntries says whether a checkpoint has something in a state.
func holdsEntries(r *checkpoint.Restore, operator, name string) bool {
	return slices.ContainsFunc(r.Operator(operator), func(o checkpoint.OperatorSnapshot) bool {
		return o.Keyed != nil && slices.ContainsFunc(o.Keyed.States, func(s state.StateSnapshot) bool { return s.Name == name && len(s.Runs) > 0 })
	})
}

// convert rewrites each value of a state by its new schema, as new runs in the place of the old ones.
func (j *Job) convert(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, old, now *checkpoint.StateRef) error {
	change, err := schema.NewConverter(old.State.Schema, now.State.Schema)
	if err != nil {
		return err
	}
	x, err := snapread.Open(m, j.store, j.opts.StateFS).Find(old.Operator, old.State.Name)
	if err != nil {
		return err
	}
	dir := filepath.Join(j.opts.StateDir, "work")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var buf []byte
	for _, o := range r.Operator(now.Operator) {
		if o.Keyed == nil {
			continue
		}
		for i := range o.Keyed.States {
			st := &o.Keyed.States[i]
			if st.Name != now.State.Name || len(st.Runs) == 0 {
				continue
			}
			run, ok, err := x.Rewrite(ctx, o.Keyed.Range, dir, j.store, func(ukey, value []byte) ([]byte, error) {
				if x.IsCounter(ukey) {
					return value, nil
				}
				var err error
				buf, err = change(buf[:0], value)
				return buf, err
			})
			if err != nil {
				return fmt.Errorf("%w %d: operator %s, state %s: %w", ErrUnfit, m.ID, now.Operator, st.Name, err)
			}
			if st.Runs = nil; ok {
				st.Runs = []state.Run{run}
			}
		}
	}
	return nil
}
