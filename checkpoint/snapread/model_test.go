package snapread

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/statetest"
)

const seed = 42

var descriptors = []state.Descriptor{{Name: "v", Kind: abi.StateValue}, {Name: "m", Kind: abi.StateMap}}

// world is an operator of some tasks and what it should hold.
type world struct {
	t       *testing.T
	objects *statetest.Objects
	tasks   []state.Keyed
	opened  int
	dir     string
	values  map[string]string
	maps    map[string]map[string]string
	timers  map[string]bool // domain, key, name, time as text
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, objects: statetest.NewObjects(t.TempDir()), dir: t.TempDir(), values: map[string]string{}, maps: map[string]map[string]string{}, timers: map[string]bool{}}
	t.Cleanup(w.stop)
	return w
}

func (w *world) stop() {
	for _, k := range w.tasks {
		w.ok(k.Close())
	}
	w.tasks = nil
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(tasks int, from []state.Snapshot) {
	w.stop()
	for i := range tasks {
		w.opened++
		k, err := backend.Open(backend.Config{Operator: "op", Descriptors: descriptors, Range: state.TaskRange(i, tasks), Hasher: state.Hasher{Seed: seed},
			Dir: filepath.Join(w.dir, fmt.Sprint(w.opened)), Kind: backend.Disk, Budget: 1 << 20, Objects: w.objects, Restore: from,
			NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, nil) },
			NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, nil) }})
		w.ok(err)
		w.tasks = append(w.tasks, k)
	}
}

// cut makes a snapshot.
func (w *world) cut() []state.Snapshot {
	var out []state.Snapshot
	for _, k := range w.tasks {
		f, err := k.Freeze()
		w.ok(err)
		for done := false; !done; {
			busy, err := k.Step()
			w.ok(err)
			select {
			case <-f.Done():
				done = true
			default:
				if !busy {
					time.Sleep(time.Millisecond)
				}
			}
		}
		s, err := f.Result()
		w.ok(err)
		k.Committed(s)
		out = append(out, s)
	}
	return out
}

// change does one random thing to state and model.
func (w *world) change(r *rand.Rand, keys int) {
	name := fmt.Sprintf("key\x00%d", r.IntN(keys))
	k := state.Key{Bytes: []byte(name), Hash: state.Hasher{Seed: seed}.Hash([]byte(name))}
	task := w.tasks[state.TaskOf(k.Hash, len(w.tasks))]
	v := bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(40))
	if r.IntN(50) == 0 {
		v = make([]byte, 5000) // more than a block
	}
	ukey := fmt.Sprint(r.IntN(6))
	timer := fmt.Sprintf("%d %q %s %d", r.IntN(2), name, "t"+ukey, r.IntN(4))
	switch r.IntN(10) {
	case 0, 1, 2:
		w.ok(task.Value(0).Store(state.NoPos, k, v))
		w.values[name] = string(v)
	case 3:
		w.ok(task.Value(0).Remove(state.NoPos, k))
		delete(w.values, name)
	case 4, 5:
		w.ok(task.Ordered(1).Put(k, []byte(ukey), v))
		if w.maps[name] == nil {
			w.maps[name] = map[string]string{}
		}
		w.maps[name][ukey] = string(v)
	case 6:
		w.ok(task.Ordered(1).Delete(k, []byte(ukey)))
		delete(w.maps[name], ukey)
	case 7:
		if r.IntN(3) == 0 {
			w.ok(task.Ordered(1).Clear(k))
			delete(w.maps, name)
		}
	default:
		var d, at int
		var key, tn string
		_, err := fmt.Sscanf(timer, "%d %q %s %d", &d, &key, &tn, &at)
		w.ok(err)
		if r.IntN(3) == 0 {
			w.ok(task.Timers().Delete(state.Domain(d), k, []byte(tn), int64(at-1)))
			delete(w.timers, timer)
		} else {
			w.ok(task.Timers().Set(state.Domain(d), k, []byte(tn), int64(at-1)))
			w.timers[timer] = true
		}
	}
}

func manifest(id checkpoint.ID, snaps []state.Snapshot) *checkpoint.Manifest {
	m := &checkpoint.Manifest{Format: checkpoint.FormatVersion, ID: id, Job: "job", Seed: seed, Slots: state.Slots}
	for i := range snaps {
		m.Tasks = append(m.Tasks, checkpoint.TaskSnapshot{Vertex: "op", Task: i, Parallelism: len(snaps),
			Operators: []checkpoint.OperatorSnapshot{{Operator: "op", Keyed: &snaps[i]}}})
	}
	return m
}

// compare reads a snapshot whole, and some keys of it, and holds both against the model.
func (w *world) compare(s *Snapshot, r *rand.Rand, keys int) {
	w.t.Helper()
	ctx := context.Background()
	values, entries, timers := map[string]string{}, map[string]map[string]string{}, map[string]bool{}
	for _, x := range s.States() {
		rd, err := x.Open(ctx, 0, math.MaxUint64)
		w.ok(err)
		defer rd.Close()
		last := uint64(0)
		c := rd.Scan(ctx, 0, math.MaxUint64)
		for c.Next() {
			e := c.Entry()
			if e.Hash < last {
				w.t.Fatalf("%s: hash %x after %x", x.Name, e.Hash, last)
			}
			last = e.Hash
			if e.Hash != s.Hash(e.Key) {
				w.t.Fatalf("%s: key %q has another hash", x.Name, e.Key)
			}
			w.take(e, x.Kind, values, entries, timers)
		}
		w.ok(c.Err())
		for range 20 {
			w.key(rd, x, []byte(fmt.Sprintf("key\x00%d", r.IntN(keys+3))))
		}
	}
	maps.DeleteFunc(w.maps, func(_ string, m map[string]string) bool { return len(m) == 0 })
	if !maps.Equal(values, w.values) {
		w.t.Fatalf("%d values, want %d", len(values), len(w.values))
	}
	if !maps.EqualFunc(entries, w.maps, maps.Equal[map[string]string, map[string]string]) {
		w.t.Fatalf("maps of %d keys, want %d", len(entries), len(w.maps))
	}
	if !maps.Equal(timers, w.timers) {
		w.t.Fatalf("%d timers, want %d", len(timers), len(w.timers))
	}
}

func (w *world) take(e *Entry, kind string, values map[string]string, entries map[string]map[string]string, timers map[string]bool) {
	switch kind {
	case "value":
		values[string(e.Key)] = string(e.Value)
	case KindTimers:
		timers[fmt.Sprintf("%d %q %s %d", e.Timer.Domain, e.Key, e.Timer.Name, e.Timer.At+1)] = true
	default:
		if entries[string(e.Key)] == nil {
			entries[string(e.Key)] = map[string]string{}
		}
		entries[string(e.Key)][string(e.UserKey)] = string(e.Value)
	}
}

// key looks one key up, by itself and through files of its hash alone.
func (w *world) key(all *Reader, x *State, key []byte) {
	ctx := context.Background()
	h := x.snap.Hash(key)
	one, err := x.Open(ctx, h, h)
	w.ok(err)
	defer one.Close()
	for _, rd := range []*Reader{all, one} {
		if x.Kind == "value" {
			e, err := rd.Get(key)
			w.ok(err)
			if want, has := w.values[string(key)]; (e != nil) != has || has && string(e.Value) != want {
				w.t.Fatalf("value of %q: %+v, want %q, %v", key, e, want, has)
			}
		}
		values, entries, timers := map[string]string{}, map[string]map[string]string{}, map[string]bool{}
		c := rd.Key(ctx, key)
		for c.Next() {
			w.take(c.Entry(), x.Kind, values, entries, timers)
		}
		w.ok(c.Err())
		if x.Kind == "map" && !maps.Equal(entries[string(key)], w.maps[string(key)]) {
			w.t.Fatalf("map of %q: %v, want %v", key, entries[string(key)], w.maps[string(key)])
		}
		if x.Kind == KindTimers {
			for t := range w.timers {
				if has := bytes.Contains([]byte(t), []byte(fmt.Sprintf(" %q ", key))); has != timers[t] {
					w.t.Fatalf("timer %s of %q: %v, want %v", t, key, timers[t], has)
				}
			}
		}
	}
}

// Random histories over several snapshots and numbers of tasks: what is read is what should be there.
func TestReaderAgainstModel(t *testing.T) {
	for s := range uint64(5) {
		t.Run(fmt.Sprint("seed ", s), func(t *testing.T) {
			r := rand.New(rand.NewPCG(s, 1))
			w := newWorld(t)
			keys := 5 + r.IntN(300)
			var snaps []state.Snapshot
			for round := range 6 {
				if round == 0 || r.IntN(3) == 0 {
					w.start(1+r.IntN(4), snaps)
				}
				for range r.IntN(3000) {
					w.change(r, keys)
				}
				snaps = w.cut()
				w.compare(Open(manifest(checkpoint.ID(round+1), snaps), w.objects, nil), r, keys)
			}
		})
	}
}

// A cursor over part of the hashes gives that part of all.
func TestScanOfARange(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	w := newWorld(t)
	w.start(3, nil)
	for range 2000 {
		w.change(r, 200)
	}
	s := Open(manifest(1, w.cut()), w.objects, nil)
	x, err := s.Find("op", "v")
	w.ok(err)
	ctx := context.Background()
	hashes := func(rd *Reader, lo, hi uint64) (out []uint64) {
		c := rd.Scan(ctx, lo, hi)
		for c.Next() {
			out = append(out, c.Entry().Hash)
		}
		w.ok(c.Err())
		return out
	}
	whole, err := x.Open(ctx, 0, math.MaxUint64)
	w.ok(err)
	defer whole.Close()
	all := hashes(whole, 0, math.MaxUint64)
	for range 50 {
		a, b := r.Uint64(), r.Uint64()
		lo, hi := min(a, b), max(a, b)
		if r.IntN(2) == 0 && len(all) > 0 {
			lo = all[r.IntN(len(all))]
			hi = max(hi, lo)
		}
		var want []uint64
		for _, h := range all {
			if h >= lo && h <= hi {
				want = append(want, h)
			}
		}
		part, err := x.Open(ctx, lo, hi)
		w.ok(err)
		if got := hashes(part, lo, hi); !slices.Equal(got, want) {
			t.Errorf("%x to %x: %d entries, want %d", lo, hi, len(got), len(want))
		}
		w.ok(part.Close())
		if got := hashes(whole, lo, hi); !slices.Equal(got, want) {
			t.Errorf("%x to %x of all: %d entries, want %d", lo, hi, len(got), len(want))
		}
	}
}
