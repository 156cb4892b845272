package operatortest

import (
	"testing"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
)

// Objects is a snapshot store in a new folder, for Context.Objects.
func Objects(t testing.TB) state.Objects {
	t.Helper()
	return statetest.NewObjects(t.TempDir())
}

// OpenKeyed opens an operator's keyed state as a job does, restored from ctx.Restored. ctx.Objects is set.
func OpenKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	var restore []state.Snapshot
	for _, s := range ctx.Restored {
		if s.Keyed != nil {
			restore = append(restore, *s.Keyed)
		}
	}
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Restore: restore, Log: ctx.Log,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
}
