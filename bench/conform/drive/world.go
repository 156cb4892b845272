// Package drive runs the operator of a conformance case as a task would: the real engine, operators and
// state, one operator by itself, step by step, with snapshots and restores where they are asked for.
package drive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
)

// World is what all runs of a process share: compiled modules, a folder, a snapshot store, and the
// database that ordered state spills into. Close it.
type World struct {
	dir      string
	store    *snapstore.Store
	cold     *coldpebble.Env
	engines  []*engine.Engine
	compiled map[bool]guestop.Module // of the timers guest, by Variant.Interpreter
	opened   atomic.Int64
}

// NewWorld makes a world with its files below dir, which exists.
func NewWorld(dir string) (*World, error) {
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{FS: undurableStore{}})
	if err != nil {
		return nil, err
	}
	w := &World{dir: dir, store: store, compiled: map[bool]guestop.Module{},
		cold: coldpebble.New(filepath.Join(dir, "cold"), coldpebble.Options{Log: slog.New(slog.DiscardHandler)})}
	for _, interpret := range []bool{false, true} {
		e, err := engine.New(context.Background(), engine.Options{Interpreter: interpret})
		if err == nil {
			w.engines = append(w.engines, e)
			w.compiled[interpret], err = e.Compile(context.Background(), cases.Module("timers"), nil)
		}
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

// Close frees everything. No run is under way.
func (w *World) Close() error {
	var errs []error
	for _, m := range w.compiled {
		if m != nil {
			errs = append(errs, m.(*engine.Module).Close())
		}
	}
	for _, e := range w.engines {
		errs = append(errs, e.Close(context.Background()))
	}
	return errors.Join(append(errs, w.cold.Close(), w.store.Close())...)
}

// Clock is processing time, which stands still until a step sets it.
type clock struct{ ms int64 }

func (c *clock) NowMS() int64 { return c.ms }

// hasher has a seed of its own; a job's is random.
var hasher = state.Hasher{Seed: 20010101}

// budget is small, so that the disk backend has to spill what the larger cases hold.
const budget = 256 << 10

// context is that of one start of an operator.
func (w *World) context(v Variant, c *clock, restored []checkpoint.OperatorSnapshot) *operators.Context {
	return &operators.Context{Context: context.Background(), Job: "conform", Operator: "op", Parallelism: 1,
		Range: state.TaskRange(0, 1), Hasher: hasher, Clock: c, Log: slog.New(slog.DiscardHandler),
		WorkDir: filepath.Join(w.dir, fmt.Sprintf("work-%d", w.opened.Add(1))), Objects: w.store, Budget: budget,
		StateKind: v.Backend, Batch: max(v.Batch, 1), Restored: restored,
		Describe: func(p abi.Position) string { return fmt.Sprintf("step %d", p.Offset) }, Crash: func(string) {}}
}

func (w *World) openKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	var restore []state.Snapshot
	for _, s := range ctx.Restored {
		if s.Keyed != nil {
			restore = append(restore, *s.Keyed)
		}
	}
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Restore: restore, FS: undurable{}, Log: ctx.Log,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, w.cold) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, w.cold) }})
}

// removeWork removes what a closed operator left.
func removeWork(ctx *operators.Context) error { return os.RemoveAll(ctx.WorkDir) }
