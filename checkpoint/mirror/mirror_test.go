package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/checkpointtest"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/state"
)

var ctx = context.Background()

// world is a job's local store with a clock.
type world struct {
	t     testing.TB
	disk  *faultfs.Mem
	local *snapstore.Store
	now   int64
	rng   *rand.Rand
	runs  []state.Run
	last  checkpoint.ID
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, disk: faultfs.New(), now: 1_700_000_000_000, rng: rand.New(rand.NewPCG(seed, 8))}
	w.local = w.open("/store", false)
	return w
}

func (w *world) open(dir string, readOnly bool) *snapstore.Store {
	w.t.Helper()
	s, err := snapstore.Open(dir, snapstore.Options{FS: w.disk, ReadOnly: readOnly, NowMS: func() int64 { return 1 }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { s.Close() })
	return s
}

// snapshot makes the next one: a new run, and up to three older ones that it shares.
func (w *world) snapshot(kind checkpoint.Kind) checkpoint.ID {
	w.t.Helper()
	id := w.last + 1
	w.local.Begin(id)
	data := make([]byte, 100+w.rng.IntN(2000))
	for i := range data {
		data[i] = byte(w.rng.IntN(4))
	}
	digest, size, err := w.local.Put(ctx, data)
	if err != nil {
		w.t.Fatal(err)
	}
	w.runs = append([]state.Run{{Object: digest, Size: size, Count: 1}}, w.runs[:min(3, len(w.runs))]...)
	m := checkpointtest.Manifest(id, "j", checkpoint.OperatorSnapshot{Operator: "op", Keyed: &state.Snapshot{
		Range: state.TaskRange(0, 1), States: []state.StateSnapshot{{Name: "n", Kind: "value", Runs: slices.Clone(w.runs)}}}})
	m.Kind, m.Parent, m.CreatedMS = kind, w.last, w.now
	if m.Pipeline, _, err = w.local.Put(ctx, []byte("name: j\n")); err != nil {
		w.t.Fatal(err)
	}
	if err := w.local.WriteManifest(ctx, m); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.local.Retain(ctx, 2); err != nil {
		w.t.Fatal(err)
	}
	w.last = id
	return id
}

// mirror is a process's view of an object store.
func (w *world) mirror(s objectstore.Store, change func(*Options)) *Mirror {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(w.rng.Uint32())
	}
	o := Options{Store: s, Job: "j", NowMS: func() int64 { return w.now }, Random: rand.NewChaCha8(seed)}
	if change != nil {
		change(&o)
	}
	return New(o)
}

func (w *world) push(m *Mirror, id checkpoint.ID) Pushed {
	w.t.Helper()
	p, err := m.Push(ctx, w.local, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) has(m *Mirror, want ...checkpoint.ID) {
	w.t.Helper()
	c, err := m.Catalog(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []checkpoint.ID
	for _, s := range c.Snapshots {
		got = append(got, s.ID)
	}
	if !slices.Equal(got, want) {
		w.t.Fatalf("the mirror has %v, want %v", got, want)
	}
}

// exactly says that the object store holds what the catalog names, and nothing else, after a GC.
func (w *world) exactly(s objectstore.Store, m *Mirror) {
	w.t.Helper()
	if _, err := m.GC(ctx); err != nil {
		w.t.Fatal(err)
	}
	if err := m.Check(ctx); err != nil {
		w.t.Fatal(err)
	}
	want := map[string]bool{}
	c, err := m.Catalog(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, snap := range c.Snapshots {
		want[snap.Key] = true
		x, _, err := m.index(ctx, snap)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, at := range x.Objects {
			want[at.Key] = true
		}
	}
	list, err := s.List(ctx, "")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range list {
		if !want[e.Key] && !strings.HasPrefix(e.Key, "catalog/") && !strings.HasPrefix(e.Key, "epochs/") {
			w.t.Errorf("left: %s", e.Key)
		}
		delete(want, e.Key)
	}
	if len(want) > 0 {
		w.t.Errorf("missing: %v", want)
	}
}

func key(t testing.TB, fill byte) seal.Key {
	k, err := seal.NewKey(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ways are a mirror in clear, and one with all protection.
func ways(t *testing.T) map[string]func(*Options) {
	k := key(t, 1)
	return map[string]func(*Options){"plain": nil, "sealed": func(o *Options) {
		o.Keys, o.Tenant, o.Signer, o.Verifier = []seal.Key{k}, "acme", seal.HMAC(k), seal.Verifier{Shared: []seal.Key{k}}
	}}
}

func TestPushedSnapshotsAreIncrementalAndComeBack(t *testing.T) {
	for name, change := range ways(t) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			var s objectstore.Memory
			m := w.mirror(&s, change)
			first := w.push(m, w.snapshot(checkpoint.KindCheckpoint))
			if first.Objects != 2 || first.Reused != 0 {
				t.Errorf("%+v", first)
			}
			for range 3 {
				if p := w.push(m, w.snapshot(checkpoint.KindSavepoint)); p.Objects != 1 || p.Reused == 0 {
					t.Errorf("%+v", p)
				}
			}
			if p := w.push(m, 4); !p.Already {
				t.Errorf("again: %+v", p)
			}
			w.has(m, 1, 2, 3, 4)
			if name == "sealed" {
				for key, data := range sMap(&s) {
					if !strings.HasPrefix(key, "catalog/") && bytes.Contains(data, []byte("manifest")) {
						t.Errorf("%s is in clear", key)
					}
				}
			}
			other := w.open("/other", false)
			fresh := w.mirror(&s, change)
			latest, err := fresh.Latest(ctx)
			if err != nil || latest.ID != 4 {
				t.Fatal(latest, err)
			}
			got, err := fresh.Pull(ctx, other, 4, false)
			if err != nil || got.ID != 4 || got.Objects != 5 {
				t.Fatalf("%+v %v", got, err)
			}
			if man, err := other.Latest(ctx); err != nil || man.ID != 4 || other.Verify(ctx, 4, true) != nil {
				t.Fatal(man, err)
			}
			if got, err = fresh.Pull(ctx, other, 3, false); err != nil || got.Objects != 0 {
				t.Fatalf("%+v %v", got, err)
			}
			if _, err := fresh.Pull(ctx, other, 9, false); !errors.Is(err, ErrNoSnapshot) {
				t.Errorf("got %v", err)
			}
			if gone, err := m.Retain(ctx, 1); err != nil || len(gone) != 0 {
				t.Error(gone, err)
			}
			if err := m.Delete(ctx, 2, 3); err != nil {
				t.Fatal(err)
			}
			w.exactly(&s, m)
			w.has(m, 1, 4)
		})
	}
}

func sMap(s *objectstore.Memory) map[string][]byte {
	out := map[string][]byte{}
	list, _ := s.List(ctx, "")
	for _, e := range list {
		r, _ := s.Get(ctx, e.Key)
		b := new(bytes.Buffer)
		_, _ = b.ReadFrom(r)
		out[e.Key] = b.Bytes()
	}
	return out
}

// TestMirrorOfManyGenerations: the newest is found across epochs by a process that knows nothing, old ones are
// trimmed, and what was rolled back is noticed.
func TestMirrorOfManyGenerations(t *testing.T) {
	w := newWorld(t, 2)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	for n := 1; n <= 3*epochGenerations+10; n++ {
		c, err := m.log.change(ctx, func(c *Catalog) error { return nil })
		if err != nil || c.Generation != uint64(n) {
			t.Fatal(n, c, err)
		}
		if n%50 == 0 || n%epochGenerations <= 1 {
			if err := m.log.trim(ctx, c.Generation); err != nil {
				t.Fatal(err)
			}
			if c, err := w.mirror(&s, nil).Catalog(ctx); err != nil || c.Generation != uint64(n) {
				t.Fatalf("after %d a new process finds %+v; %v", n, c, err)
			}
		}
	}
	list, _ := s.List(ctx, "catalog/")
	if len(list) > 2*epochGenerations+10 {
		t.Errorf("%d generations are left", len(list))
	}
	// A process that remembers an old generation finds the newest too.
	old := w.mirror(&s, nil)
	old.log.last = 5
	if c, err := old.Catalog(ctx); err != nil || c.Generation != 3*epochGenerations+10 {
		t.Errorf("%+v %v", c, err)
	}
	for g := 3*epochGenerations + 5; g <= 3*epochGenerations+10; g++ {
		if err := s.Delete(ctx, generationKey(uint64(g))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Catalog(ctx); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "rolled back") {
		t.Errorf("got %v", err)
	}
	if _, err := w.mirror(&s, func(o *Options) { o.AtLeast = 3 }).Catalog(ctx); !errors.Is(err, ErrRolledBack) {
		t.Errorf("got %v", err)
	}
}

// TestDeadPushIsEvictedAndCannotCommit: a push that was taken for dead does not add what GC removed.
func TestDeadPushIsEvictedAndCannotCommit(t *testing.T) {
	w := newWorld(t, 3)
	var s objectstore.Memory
	other := w.mirror(&s, nil)
	times := 0
	m := w.mirror(&s, func(o *Options) {
		o.Crash = func(point string) {
			if point == "K11" && times < 2 {
				times++
				w.now += 2 * leaseMS
				got, err := other.GC(ctx)
				if err != nil || got.Evicted != 1 || got.Files == 0 {
					t.Errorf("%+v %v", got, err)
				}
			}
		}
	})
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	if times != 2 {
		t.Errorf("evicted %d times", times)
	}
	w.exactly(&s, other)
	w.has(m, 1)
	w.snapshot(checkpoint.KindCheckpoint)
	times = -100
	if _, err := m.Push(ctx, w.local, 2); !errors.Is(err, ErrEvicted) {
		t.Errorf("evicted for ever: %v", err)
	}
	w.exactly(&s, other)
}

// TestReusedObjectsAreStoredAnewWhereTheirSnapshotsWent while the push was under way.
func TestReusedObjectsAreStoredAnewWhereTheirSnapshotsWent(t *testing.T) {
	w := newWorld(t, 4)
	var s objectstore.Memory
	other := w.mirror(&s, nil)
	w.push(other, w.snapshot(checkpoint.KindCheckpoint))
	id := w.snapshot(checkpoint.KindCheckpoint)
	deleted := false
	m := w.mirror(&s, func(o *Options) {
		o.Crash = func(point string) {
			if point == "K11" && !deleted {
				deleted = true
				if err := other.Delete(ctx, 1); err != nil {
					t.Error(err)
				}
				if _, err := other.GC(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if p := w.push(m, id); p.Objects != 3 {
		t.Errorf("%+v", p)
	}
	w.exactly(&s, m)
	w.has(m, 2)
}

func TestReadSnapshotsStay(t *testing.T) {
	w := newWorld(t, 5)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	for range 3 {
		w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	}
	tried := false
	reader := w.mirror(&s, func(o *Options) {
		o.Crash = func(point string) {
			if point != "K20" || tried {
				return
			}
			tried = true
			if gone, err := m.Retain(ctx, 1); err != nil || !slices.Equal(gone, []checkpoint.ID{2}) {
				t.Error(gone, err)
			}
			if err := m.Delete(ctx, 1); !errors.Is(err, ErrInUse) {
				t.Errorf("delete: %v", err)
			}
			if _, err := m.GC(ctx); err != nil {
				t.Error(err)
			}
		}
	})
	if _, err := reader.Pull(ctx, w.open("/other", false), 1, false); err != nil || !tried {
		t.Fatal(err, tried)
	}
	if gone, err := m.Retain(ctx, 1); err != nil || !slices.Equal(gone, []checkpoint.ID{1}) {
		t.Error(gone, err)
	}
	w.exactly(&s, m)
}

func TestOthersAreRefused(t *testing.T) {
	w := newWorld(t, 6)
	var s objectstore.Memory
	m := w.mirror(&s, nil)
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	if _, err := w.mirror(&s, func(o *Options) { o.Job = "k" }).Push(ctx, w.local, 1); !errors.Is(err, ErrOtherJob) {
		t.Errorf("another job: %v", err)
	}
	other := newWorld(t, 7)
	other.snapshot(checkpoint.KindCheckpoint)
	if _, err := m.Push(ctx, other.local, 1); !errors.Is(err, ErrIDTaken) {
		t.Errorf("another snapshot 1: %v", err)
	}
	if _, err := m.Push(ctx, w.local, 5); !errors.Is(err, snapstore.ErrNoCheckpoint) {
		t.Errorf("no snapshot: %v", err)
	}
}

// TestLargeObjectsGoThroughTheSpool and leave nothing there.
func TestLargeObjectsGoThroughTheSpool(t *testing.T) {
	w := newWorld(t, 8)
	var s objectstore.Memory
	dir := t.TempDir()
	m := w.mirror(&s, func(o *Options) { o.Spool, o.Keys = dir, []seal.Key{key(t, 1)} })
	data := make([]byte, spoolBytes+spoolBytes/2)
	for i := range data {
		data[i] = byte(w.rng.Uint32())
	}
	digest, size, err := w.local.Put(ctx, data)
	if err != nil {
		t.Fatal(err)
	}
	w.runs = []state.Run{{Object: digest, Size: size}}
	w.push(m, w.snapshot(checkpoint.KindCheckpoint))
	if list, err := faultDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v %v", list, err)
	}
	other := w.open("/other", false)
	if _, err := m.Pull(ctx, other, 1, false); err != nil || other.Verify(ctx, 1, true) != nil {
		t.Fatal(err)
	}
}

func faultDir(dir string) ([]snapstore.Entry, error) { return snapstore.Disk{}.ReadDir(dir) }

// TestConcurrentPushesAllArrive: four processes push, retain and collect at once.
func TestConcurrentPushesAllArrive(t *testing.T) {
	w := newWorld(t, 9)
	var s objectstore.Memory
	var all []checkpoint.ID
	for range 8 {
		all = append(all, w.snapshot(checkpoint.KindSavepoint))
	}
	errs := make(chan error, 4)
	for n := range 4 {
		m := w.mirror(&s, nil)
		go func() {
			for i, id := range all {
				if (i+n)%2 == 0 || i == n {
					if _, err := m.Push(ctx, w.local, id); err != nil {
						errs <- fmt.Errorf("push %d: %w", id, err)
						return
					}
				}
				if _, err := m.GC(ctx); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	m := w.mirror(&s, nil)
	w.has(m, all...)
	w.exactly(&s, m)
}
