package ttl_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
	"github.com/millrace-io/millrace/state/ttl"
)

const (
	event      = state.Domain(abi.DomainEvent)
	processing = state.Domain(abi.DomainProcessing)
)

// world is an operator of so many tasks over a backend.
type world struct {
	t       *testing.T
	kind    string
	budget  int64
	dir     string
	objects *statetest.Objects
	hasher  state.Hasher
	ds      []state.Descriptor
	tasks   []state.Keyed
	envs    []*coldpebble.Env
	opened  int
	clock   int64
	wm      int64
	first   int64
}

func newWorld(t *testing.T, kind string, budget int64, ds []state.Descriptor) *world {
	w := &world{t: t, kind: kind, budget: budget, dir: t.TempDir(), objects: statetest.NewObjects(t.TempDir()),
		hasher: state.Hasher{Seed: 7}, ds: ds, wm: abi.MinWatermark, first: abi.MinWatermark}
	t.Cleanup(w.stop)
	return w
}

func (w *world) start(tasks int, from []state.Snapshot) {
	w.t.Helper()
	for i := range tasks {
		w.opened++
		env := coldpebble.New(filepath.Join(w.dir, fmt.Sprintf("cold-%d", w.opened)), coldpebble.Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20})
		w.envs = append(w.envs, env)
		k, err := ttl.Open(ttl.Config{Operator: "op", Descriptors: w.ds, Restored: from, Watermark: w.wm, First: w.first, Processing: w.clock,
			Open: func(ds []state.Descriptor) (state.Keyed, error) {
				return backend.Open(backend.Config{Operator: "op", Descriptors: ds, Range: state.TaskRange(i, tasks), Hasher: w.hasher,
					Budget: w.budget, Dir: filepath.Join(w.dir, fmt.Sprintf("task-%d", w.opened)), Kind: w.kind, Objects: w.objects, Restore: from,
					NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, env) },
					NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, env) }})
			}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.tasks = append(w.tasks, k)
	}
}

func (w *world) stop() {
	for i, k := range w.tasks {
		w.ok(k.Close())
		w.ok(w.envs[i].Close())
	}
	w.tasks, w.envs = nil, nil
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) key(k string) state.Key {
	return state.Key{Hash: w.hasher.Hash([]byte(k)), Bytes: []byte(k)}
}

func (w *world) taskOf(k string) int { return state.TaskOf(w.key(k).Hash, len(w.tasks)) }

// at is the task of a key, with a moment set.
func (w *world) at(k string, m ttl.Moment) state.Keyed {
	x := w.tasks[w.taskOf(k)]
	if t, ok := x.(*ttl.Keyed); ok {
		t.At(m)
	}
	return x
}

// passed moves the clocks of all tasks.
func (w *world) passed(wm, clock int64) {
	w.wm, w.clock = max(w.wm, wm), max(w.clock, clock)
	if w.first == abi.MinWatermark {
		w.first = w.wm
	}
	for _, x := range w.tasks {
		if t, ok := x.(*ttl.Keyed); ok {
			t.Passed(w.wm, w.clock)
		}
	}
}

// clean sweeps until nothing is left to do.
func (w *world) clean() {
	w.t.Helper()
	for _, x := range w.tasks {
		for n := 0; ; n++ {
			busy, err := x.Step()
			w.ok(err)
			if !busy {
				break
			}
			if n > 100_000 {
				w.t.Fatal("stepping does not end")
			}
		}
	}
}

func (w *world) snapshot() (out []state.Snapshot) {
	w.t.Helper()
	for _, x := range w.tasks {
		f, err := x.Freeze()
		w.ok(err)
		for done := false; !done; {
			busy, err := x.Step()
			w.ok(err)
			if !busy {
				<-f.Done()
				done = true
			}
		}
		s, err := f.Result()
		w.ok(err)
		x.Committed(s)
		out = append(out, s)
	}
	return out
}

func (w *world) stats() (s state.Stats) {
	for _, x := range w.tasks {
		y := x.Stats()
		s.Entries += y.Entries
		s.MemBytes += y.MemBytes
		s.ColdBytes += y.ColdBytes
		s.Timers += y.Timers
	}
	return s
}

// both runs a test over memory and disk, the latter also with next to no memory.
func both(t *testing.T, f func(t *testing.T, kind string, budget int64)) {
	t.Run("memory", func(t *testing.T) { f(t, backend.Memory, 256<<20) })
	t.Run("disk", func(t *testing.T) { f(t, backend.Disk, 256<<20) })
	t.Run("disk, tiny", func(t *testing.T) { f(t, backend.Disk, 192<<10) })
}
