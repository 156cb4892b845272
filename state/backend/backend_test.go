package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/faultfs"
)

// objects is a snapshot store in a folder.
type objects struct{ dir string }

func (o objects) AddFile(_ context.Context, path string) (string, int64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256(b)
	d := hex.EncodeToString(sum[:])
	if err := os.Link(path, filepath.Join(o.dir, d)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", 0, err
	}
	return d, int64(len(b)), nil
}

func (o objects) Path(_ context.Context, digest string) (string, error) {
	return filepath.Join(o.dir, digest), nil
}

// keep deletes the objects that no snapshot names, as the garbage collector does.
func (o objects) keep(ss ...[]state.Snapshot) {
	live := map[string]bool{}
	for _, s := range ss {
		for _, x := range s {
			for _, st := range x.States {
				for _, r := range st.Runs {
					live[r.Object] = true
				}
			}
		}
	}
	es, _ := os.ReadDir(o.dir)
	for _, e := range es {
		if !live[e.Name()] {
			os.Remove(filepath.Join(o.dir, e.Name()))
		}
	}
}

// tempDir is in memory where that is to be had: the tests make thousands of files.
func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "millrace-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// world runs a model beside p tasks with two value states each.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	root    string
	objects objects
	fs      *faultfs.FS
	hasher  state.Hasher
	kind    string
	tasks   []*Backend

	model [2]map[string]string
	cuts  [][]state.Frozen
	saved [2]map[string]string // model at the cut
	last  []state.Snapshot     // complete checkpoint
	lastM [2]map[string]string
}

var descriptors = []state.Descriptor{
	{Name: "count", Kind: abi.StateValue, MaxBytes: 64},
	{Name: "doc", Kind: abi.StateValue},
}

func newJob(t *testing.T, seed uint64, kind string) *world {
	j := &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), root: tempDir(t), fs: faultfs.New(), kind: kind, hasher: state.Hasher{Seed: seed}}
	j.objects = objects{filepath.Join(j.root, "objects")}
	if err := os.Mkdir(j.objects.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	j.model = [2]map[string]string{{}, {}}
	j.lastM = [2]map[string]string{{}, {}}
	t.Cleanup(func() { j.close() })
	return j
}

func (j *world) config(task, p int) Config {
	return Config{
		Operator: "op", Descriptors: descriptors, Range: state.TaskRange(task, p), Hasher: j.hasher,
		Budget: 1 << 19, Dir: filepath.Join(j.root, "task", fmt.Sprint(task)), Kind: j.kind,
		Objects: j.objects, Restore: j.last, FS: j.fs,
	}
}

func (j *world) open(p int) {
	j.tasks = nil
	for task := range p {
		b, err := Open(j.config(task, p))
		if err != nil {
			j.t.Fatal(err)
		}
		j.tasks = append(j.tasks, b)
	}
}

func (j *world) close() {
	for _, b := range j.tasks {
		if err := b.Close(); err != nil {
			j.t.Fatal(err)
		}
	}
	j.tasks, j.cuts, j.saved = nil, nil, [2]map[string]string{}
}

// crash leaves the tasks' folders as they are, and more.
func (j *world) crash(p int) {
	j.close()
	for task := range 5 {
		dir := filepath.Join(j.root, "task", fmt.Sprint(task), "state-00")
		os.MkdirAll(dir, 0o755)
		os.WriteFile(filepath.Join(dir, "spill-000001.run"), []byte("newer than the checkpoint"), 0o644)
	}
	j.model = [2]map[string]string{maps.Clone(j.lastM[0]), maps.Clone(j.lastM[1])}
	j.open(p)
}

func (j *world) key(s string) state.Key {
	return state.Key{Hash: j.hasher.Hash([]byte(s)), Bytes: []byte(s)}
}

func (j *world) value(st int) string {
	n := j.rng.IntN(60)
	if st == 1 && j.rng.IntN(20) == 0 {
		n = j.rng.IntN(1 << (4 + j.rng.IntN(13)))
	}
	return strings.Repeat(string(rune('a'+j.rng.IntN(26))), n)
}

// batch prefetches distinct keys and works on each, comparing with the model.
func (j *world) batch(keys int) {
	names := map[string]bool{}
	for range 1 + j.rng.IntN(100) {
		names[fmt.Sprint("key ", j.rng.IntN(keys))] = true
	}
	st := j.rng.IntN(2)
	byTask := make([][]state.Key, len(j.tasks))
	for n := range names {
		k := j.key(n)
		t := state.TaskOf(k.Hash, len(j.tasks))
		byTask[t] = append(byTask[t], k)
	}
	for t, ks := range byTask {
		v := j.tasks[t].Value(st)
		pos := make([]state.Pos, len(ks))
		for i := range pos {
			pos[i] = state.NoPos
		}
		if j.rng.IntN(5) > 0 {
			if err := v.Prefetch(ks, pos); err != nil {
				j.t.Fatal(err)
			}
		} else if j.rng.IntN(3) == 0 {
			for i := range pos {
				pos[i] = state.Pos(j.rng.IntN(5000)) // wrong
			}
		}
		if j.rng.IntN(2) == 0 {
			j.touchCells(v, st, pos, ks)
		} else {
			for i, k := range ks {
				j.touch(v, st, pos[i], k)
			}
		}
		j.step(t)
	}
}

func (j *world) touch(v state.Value, st int, p state.Pos, k state.Key) {
	m := j.model[st]
	for range 1 + j.rng.IntN(3) {
		switch j.rng.IntN(5) {
		case 0:
			j.must(v.Remove(p, k))
			delete(m, string(k.Bytes))
		case 1, 2:
			j.compare(v, st, p, k)
		default:
			x := j.value(st)
			j.must(v.Store(p, k, []byte(x)))
			m[string(k.Bytes)] = x
		}
	}
}

func (j *world) compare(v state.Value, st int, p state.Pos, k state.Key) {
	got, ok, err := v.Load(p, k)
	j.must(err)
	if want, there := j.model[st][string(k.Bytes)]; ok != there || string(got) != want {
		j.t.Fatalf("state %d %q: %.20q %v, expected %.20q %v", st, k.Bytes, got, ok, want, there)
	}
}

func (j *world) must(err error) {
	if err != nil {
		j.t.Helper()
		j.t.Fatal(err)
	}
}

func (j *world) step(t int) {
	for range 1 + j.rng.IntN(3) {
		_, err := j.tasks[t].Step()
		j.must(err)
	}
}

// freeze begins a checkpoint at a barrier that all tasks reach.
func (j *world) freeze() {
	var fs []state.Frozen
	for _, b := range j.tasks {
		f, err := b.Freeze()
		j.must(err)
		fs = append(fs, f)
	}
	j.cuts = append(j.cuts, fs)
	j.saved = [2]map[string]string{maps.Clone(j.model[0]), maps.Clone(j.model[1])}
}

// complete waits for the cut and makes it the last checkpoint.
func (j *world) complete() error {
	var ss []state.Snapshot
	fs := j.cuts[0]
	j.cuts = nil
	var errs []error
	for t, f := range fs {
		j.wait(t, f)
		s, err := f.Result()
		errs = append(errs, err)
		ss = append(ss, s)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	j.last, j.lastM = ss, j.saved
	for t, b := range j.tasks {
		b.Committed(ss[t])
	}
	if j.rng.IntN(2) == 0 {
		j.objects.keep(j.last)
	}
	return nil
}

func (j *world) wait(t int, f state.Frozen) {
	deadline := time.Now().Add(20 * time.Second)
	for {
		select {
		case <-f.Done():
			return
		default:
		}
		busy, err := j.tasks[t].Step()
		j.must(err)
		if !busy {
			select {
			case <-f.Done():
				return
			case <-time.After(time.Until(deadline)):
				j.t.Fatal("a cut is not done after 20 s")
			}
		}
	}
}

func (j *world) compareAll(keys int) {
	for i := range keys {
		k := j.key(fmt.Sprint("key ", i))
		for st := range 2 {
			j.compare(j.tasks[state.TaskOf(k.Hash, len(j.tasks))].Value(st), st, state.NoPos, k)
		}
	}
}

// TestMetamorphic: any mix of batches, checkpoints, crashes and changes of parallelism and of the kind of
// backend gives what a map gives.
func TestMetamorphic(t *testing.T) {
	for round := range 6 {
		seed := rand.Uint64()
		kind := []string{Memory, Disk}[round%2]
		t.Run(fmt.Sprint(kind, seed), func(t *testing.T) {
			j := newJob(t, seed, kind)
			j.open(1 + j.rng.IntN(3))
			keys := 1 + j.rng.IntN(1<<(3+2*(round%6)))
			for range 120 {
				j.batch(keys)
				switch x := j.rng.IntN(100); {
				case x < 15 && j.cuts == nil:
					j.freeze()
				case x < 40 && j.cuts != nil:
					j.must(j.complete())
				case x < 43:
					if j.rng.IntN(3) == 0 {
						j.kind = []string{Memory, Disk}[j.rng.IntN(2)]
					}
					j.crash(1 + j.rng.IntN(5))
				}
			}
			j.compareAll(keys)
			if kind == Disk && keys > 5000 {
				st := j.tasks[0].Stats()
				t.Logf("%+v", st)
			}
		})
	}
}

// TestSpills checks that a small budget is kept, and that evictions, cold reads and merges happened.
func TestSpills(t *testing.T) {
	j := newJob(t, 1, Disk)
	j.open(1)
	const keys = 30_000
	for i := range 200 {
		j.batch(keys)
		if i%40 == 39 {
			j.freeze()
			j.must(j.complete())
		}
	}
	j.compareAll(keys)
	s := j.tasks[0].Stats()
	if s.Evictions == 0 || s.ColdReads == 0 || s.MergeBytes == 0 {
		t.Fatalf("too little happened: %+v", s)
	}
	if s.MemBytes > 3<<20 {
		t.Fatalf("%d bytes of memory with a budget of 512 KiB", s.MemBytes)
	}
}

// TestRescale is C027: 10,000 keys at 3 tasks, restored at other parallelisms, twice.
func TestRescale(t *testing.T) {
	for _, kind := range []string{Memory, Disk} {
		j := newJob(t, 27, kind)
		j.open(3)
		for range 100 {
			j.batch(10_000)
		}
		for _, p := range []int{1, 2, 3, 5, 16, 7} {
			j.freeze()
			j.must(j.complete())
			j.crash(p)
			j.compareAll(10_000)
			for range 10 {
				j.batch(10_000)
			}
		}
	}
}

// TestGapsAreRefused: a snapshot must cover the slots exactly once, and fit the descriptors.
func TestGapsAreRefused(t *testing.T) {
	j := newJob(t, 3, Disk)
	j.open(3)
	j.batch(1000)
	j.freeze()
	j.must(j.complete())
	all := j.last
	try := func(what string, cfg Config) {
		if b, err := Open(cfg); err == nil {
			b.Close()
			t.Errorf("%s: opened", what)
		} else {
			t.Log(what, err)
		}
	}
	cfg := j.config(0, 1)
	cfg.Dir = filepath.Join(j.root, "other")
	cfg.Restore = all[:2]
	try("task missing", cfg)
	cfg.Restore = append([]state.Snapshot{all[1]}, all...)
	try("task twice", cfg)
	cfg.Restore = all
	cfg.Descriptors = descriptors[:1]
	try("orphaned state", cfg)
	cfg.Descriptors = []state.Descriptor{descriptors[0], {Name: "doc", Kind: abi.StateValue, Version: 2}}
	try("other version", cfg)
}

// TestCorruptObject: a damaged object is found when it is opened or first read, and named.
func TestCorruptObject(t *testing.T) {
	j := newJob(t, 4, Disk)
	j.open(1)
	for range 50 {
		j.batch(3000)
	}
	j.freeze()
	j.must(j.complete())
	j.close()
	run := j.last[0].States[0].Runs[0]
	path := filepath.Join(j.objects.dir, run.Object)
	good, _ := os.ReadFile(path)
	for range 30 {
		bad := append([]byte(nil), good...)
		if j.rng.IntN(4) == 0 {
			bad = bad[:j.rng.IntN(len(bad))]
		} else {
			bad[j.rng.IntN(len(bad))] ^= 1 << j.rng.IntN(8)
		}
		os.Remove(path)
		os.WriteFile(path, bad, 0o644)
		for _, kind := range []string{Memory, Disk} {
			j.kind = kind
			err := j.readAll(3000)
			if !errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Fatalf("%s: %v", kind, err)
			}
		}
	}
}

func (j *world) readAll(keys int) error {
	b, err := Open(j.config(0, 1))
	if err != nil {
		return err
	}
	defer b.Close()
	for i := range keys {
		for st := range 2 {
			k := j.key(fmt.Sprint("key ", i))
			v, ok, err := b.Value(st).Load(state.NoPos, k)
			if err != nil {
				return err
			}
			if want, there := j.lastM[st][string(k.Bytes)]; ok != there || string(v) != want {
				j.t.Fatalf("wrong data: %q: %.20q %v, expected %.20q %v", k.Bytes, v, ok, want, there)
			}
		}
	}
	return nil
}

// TestDiskFull: with a full disk cuts fail with ErrStorageFull and batches too once no more can be held
// in memory; with space again everything goes on and nothing is lost.
func TestDiskFull(t *testing.T) {
	for _, kind := range []string{Memory, Disk} {
		j := newJob(t, 5, kind)
		j.open(1)
		for range 100 {
			j.batch(20_000)
		}
		j.freeze()
		j.must(j.complete())
		for range 3 {
			j.fs.Space(20_000)
			for range 20 {
				j.batchMayFail(20_000)
			}
			j.freeze()
			if err := j.complete(); !errors.Is(err, state.ErrStorageFull) {
				t.Fatalf("%s: %v", kind, err)
			}
			full := false
			for i := 0; kind == Disk && i < 3000 && !full; i++ {
				full = j.batchMayFail(20_000)
			}
			if kind == Disk && !full {
				t.Fatal("a full disk never stopped the batches")
			}
			j.fs.Space(-1)
			j.compareAll(20_000)
			for range 20 {
				j.batch(20_000)
			}
			j.freeze()
			j.must(j.complete())
		}
		j.compareAll(20_000)
		j.crash(2)
		j.compareAll(20_000)
	}
}

// batchMayFail stores, and says whether a store failed for lack of space; such a store did nothing.
func (j *world) batchMayFail(keys int) (full bool) {
	for range 100 {
		k := j.key(fmt.Sprint("key ", j.rng.IntN(keys)))
		x := j.value(0)
		err := j.tasks[0].Value(0).Store(state.NoPos, k, []byte(x))
		if errors.Is(err, state.ErrStorageFull) {
			return true
		}
		j.must(err)
		j.model[0][string(k.Bytes)] = x
	}
	return false
}

// TestRandomFaults: operations of the disk fail at random. Whatever a call returns, what is read without
// an error is right, and a checkpoint that completes is right.
func TestRandomFaults(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			j := newJob(t, seed, Disk)
			j.open(1)
			hook := rand.New(rand.NewPCG(seed, 1))
			failures, good := 0, 0
			for i := range 20 {
				j.fs.Hook(func(op faultfs.Op, _ string) error { // under the disk's lock
					if op != faultfs.RemoveAll && hook.IntN(200) == 0 {
						return syscall.EIO
					}
					return nil
				})
				for range 5 {
					j.storeMany(10_000)
				}
				j.freeze()
				if err := j.complete(); err != nil {
					failures++
				} else {
					good++
				}
				j.fs.Hook(nil)
				if i%10 == 9 {
					j.compareAll(10_000)
					if j.rng.IntN(2) == 0 {
						j.crash(1)
						j.compareAll(10_000)
					}
				}
			}
			if failures == 0 || good == 0 || j.fs.Hits() == 0 {
				t.Fatalf("%d checkpoints failed, %d were good, %d faults", failures, good, j.fs.Hits())
			}
		})
	}
}

func (j *world) storeMany(keys int) {
	for range 100 {
		k := j.key(fmt.Sprint("key ", j.rng.IntN(keys)))
		x := j.value(0)
		if err := j.tasks[0].Value(0).Store(state.NoPos, k, []byte(x)); err == nil {
			j.model[0][string(k.Bytes)] = x
		}
	}
}

// TestFilesStayFew: many small checkpoints of a small state leave few runs, and few bytes (C019).
func TestFilesStayFew(t *testing.T) {
	for _, kind := range []string{Memory, Disk} {
		j := newJob(t, 6, kind)
		j.open(1)
		var live int64
		for i := range 60 {
			for range 3 {
				j.batch(300)
			}
			j.freeze()
			j.must(j.complete())
			if n := deepest(j.last[0].States[0].Runs); n > crowdedRuns+4 {
				t.Fatalf("%s: %d runs over one hash after checkpoint %d", kind, n, i)
			}
		}
		for _, v := range j.model[1] {
			live += int64(len(v)) + 30
		}
		var size int64
		for _, r := range j.last[0].States[1].Runs {
			size += r.Size
		}
		if size > 5*live+200_000 {
			t.Fatalf("%s: %d bytes in runs for %d live", kind, size, live)
		}
		t.Logf("%s: %d runs, %d bytes for %d live", kind, len(j.last[0].States[1].Runs), size, live)
	}
}

// deepest is the most runs that count for one hash.
func deepest(rs []state.Run) (most int) {
	for _, a := range rs {
		n := 0
		for _, b := range rs {
			if b.Lo <= a.Lo && a.Lo <= b.Hi {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestNothingLeftOver: after Close no local file is left, and no mapping of the table's.
func TestNothingLeftOver(t *testing.T) {
	j := newJob(t, 7, Disk)
	j.open(1)
	for range 200 {
		j.batch(20_000)
	}
	j.freeze()
	for range 20 {
		j.batch(20_000)
	}
	f := j.cuts[0][0]
	j.close()
	select {
	case <-f.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("closing leaves a cut undone")
	}
	if es, _ := os.ReadDir(filepath.Join(j.root, "task", "0")); len(es) > 0 {
		t.Fatalf("left: %v", es)
	}
}
