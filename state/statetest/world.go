package statetest

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// Numbers of the descriptors that every case opens.
const (
	valueState = iota
	mapState
	otherMap // its name is a prefix of nothing and starts like mapState's
	listState
)

// Descriptors are the states that the suite needs.
func Descriptors() []state.Descriptor {
	return []state.Descriptor{
		{Name: "v", Kind: abi.StateValue},
		{Name: "s", Kind: abi.StateMap},
		{Name: "s1", Kind: abi.StateMap},
		{Name: "l", Kind: abi.StateList},
	}
}

// Options is what a case wants to have opened: an operator with Descriptors and timers.
type Options struct {
	Range   state.Range
	Hasher  state.Hasher
	Restore []state.Snapshot
	Objects state.Objects
	Dir     string // does not exist yet
	Budget  int64  // bytes; 0: plenty. Backends that can spill must keep to it
}

// Open opens keyed state, empty or restored. It fails the test if it can't.
type Open func(t *testing.T, o Options) state.Keyed

// world is an operator of so many tasks.
type world struct {
	t       *testing.T
	open    Open
	dir     string
	objects *Objects
	hasher  state.Hasher
	budget  int64
	tasks   []state.Keyed
	opened  int
}

func newWorld(t *testing.T, open Open, budget int64, tasks int) *world {
	w := &world{t: t, open: open, dir: t.TempDir(), hasher: state.Hasher{Seed: 42}, budget: budget}
	w.objects = NewObjects(w.t.TempDir())
	w.start(tasks, nil)
	t.Cleanup(w.stop)
	return w
}

func (w *world) start(tasks int, from []state.Snapshot) {
	for i := range tasks {
		w.opened++
		w.tasks = append(w.tasks, w.open(w.t, Options{
			Range: state.TaskRange(i, tasks), Hasher: w.hasher, Restore: from, Objects: w.objects,
			Dir: filepath.Join(w.dir, fmt.Sprintf("task-%03d", w.opened)), Budget: w.budget,
		}))
	}
}

func (w *world) stop() {
	for _, k := range w.tasks {
		if err := k.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	}
	w.tasks = nil
}

// restart ends all tasks and starts others from snapshots.
func (w *world) restart(tasks int, from []state.Snapshot) {
	w.stop()
	w.start(tasks, from)
}

func (w *world) key(k string) state.Key {
	return state.Key{Hash: w.hasher.Hash([]byte(k)), Bytes: []byte(k)}
}

// task is the number of the task that owns a key.
func (w *world) task(k string) int { return state.TaskOf(w.key(k).Hash, len(w.tasks)) }

func (w *world) at(k string) state.Keyed { return w.tasks[w.task(k)] }

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// cut is a freeze of all tasks under way.
type cut struct{ frozen []state.Frozen }

func (w *world) freeze() *cut {
	c := &cut{}
	for _, k := range w.tasks {
		f, err := k.Freeze()
		w.ok(err)
		c.frozen = append(c.frozen, f)
	}
	return c
}

// step lets every task do a piece of copying and says whether all cuts are done.
func (w *world) step(c *cut) bool {
	done := true
	for i, k := range w.tasks {
		_, err := k.Step()
		w.ok(err)
		select {
		case <-c.frozen[i].Done():
		default:
			done = false
		}
	}
	return done
}

// results waits for a cut and commits it.
func (w *world) results(c *cut) (out []state.Snapshot) {
	w.t.Helper()
	for i, k := range w.tasks {
		for busy := true; busy; {
			var err error
			busy, err = k.Step()
			w.ok(err)
		}
		<-c.frozen[i].Done()
		s, err := c.frozen[i].Result()
		w.ok(err)
		k.Committed(s)
		out = append(out, s)
	}
	return out
}

func (w *world) snapshot() []state.Snapshot { return w.results(w.freeze()) }

// Short forms for one entry.

func (w *world) put(i int, k, u, v string) {
	w.t.Helper()
	w.ok(w.at(k).Ordered(i).Put(w.key(k), []byte(u), []byte(v)))
}

func (w *world) get(i int, k, u string) (string, bool) {
	w.t.Helper()
	v, ok, err := w.at(k).Ordered(i).Get(w.key(k), []byte(u))
	w.ok(err)
	return string(v), ok
}

func (w *world) del(i int, k, u string) {
	w.t.Helper()
	w.ok(w.at(k).Ordered(i).Delete(w.key(k), []byte(u)))
}

func (w *world) clear(i int, k string) {
	w.t.Helper()
	w.ok(w.at(k).Ordered(i).Clear(w.key(k)))
}

func (w *world) scan(i int, k, from string) (out []string) {
	w.t.Helper()
	it, err := w.at(k).Ordered(i).Scan(w.key(k), []byte(from))
	w.ok(err)
	for it.Next() {
		u, v := it.Entry()
		out = append(out, string(u)+"="+string(v))
	}
	w.ok(it.Close())
	return out
}

func (w *world) store(k, v string) {
	w.t.Helper()
	w.ok(w.at(k).Value(valueState).Store(state.NoPos, w.key(k), []byte(v)))
}

func (w *world) load(k string) (string, bool) {
	w.t.Helper()
	v, ok, err := w.at(k).Value(valueState).Load(state.NoPos, w.key(k))
	w.ok(err)
	return string(v), ok
}

func (w *world) set(d state.Domain, k, name string, at int64) {
	w.t.Helper()
	w.ok(w.at(k).Timers().Set(d, w.key(k), []byte(name), at))
}

func (w *world) unset(d state.Domain, k, name string, at int64) {
	w.t.Helper()
	w.ok(w.at(k).Timers().Delete(d, w.key(k), []byte(name), at))
}

// due is one round of a task.
func (w *world) due(task int, d state.Domain, upTo int64, max int) (out []string) {
	w.t.Helper()
	ts, err := w.tasks[task].Timers().Due(d, upTo, max, nil)
	w.ok(err)
	for _, t := range ts {
		if t.Key.Hash != w.hasher.Hash(t.Key.Bytes) {
			w.t.Fatalf("timer of key %q with hash %016x", t.Key.Bytes, t.Key.Hash)
		}
		out = append(out, timer{d, string(t.Key.Bytes), string(t.Name), t.At}.String())
	}
	return out
}

// fire fires rounds of all tasks until nothing is due, calling f for each timer.
func (w *world) fire(d state.Domain, upTo int64, f func(t timer)) (out []string) {
	w.t.Helper()
	for task := range w.tasks {
		for {
			ts, err := w.tasks[task].Timers().Due(d, upTo, 64, nil)
			w.ok(err)
			if len(ts) == 0 {
				break
			}
			for _, t := range ts {
				x := timer{d, string(t.Key.Bytes), string(t.Name), t.At}
				out = append(out, x.String())
				if f != nil {
					f(x)
				}
			}
		}
	}
	return out
}

func (w *world) stats() (s state.Stats) {
	for _, k := range w.tasks {
		x := k.Stats()
		s.Entries += x.Entries
		s.MemBytes += x.MemBytes
		s.ColdBytes += x.ColdBytes
		s.Timers += x.Timers
		s.ColdReads += x.ColdReads
		s.OpenIters += x.OpenIters
		s.Evictions += x.Evictions
	}
	return s
}

func (w *world) same(what string, got, want []string) {
	w.t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			w.t.Fatalf("%s: %d entries, want %d; %.60q is missing", what, len(got), len(want), want[i])
		case i >= len(want):
			w.t.Fatalf("%s: %d entries, want %d; %.60q is too much", what, len(got), len(want), got[i])
		case got[i] != want[i]:
			w.t.Fatalf("%s: entry %d is %.60q, want %.60q", what, i, got[i], want[i])
		}
	}
}

func (w *world) tooLarge(what string, err error) {
	w.t.Helper()
	if !errors.Is(err, state.ErrTooLarge) {
		w.t.Fatalf("%s: %v, want %v", what, err, state.ErrTooLarge)
	}
}
