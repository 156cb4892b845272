package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/table"
)

// All numbers are CPU time: of the process where background work counts, of the thread where one call's
// delay is meant.

const stateBatch = 256

func processNs() int64 {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // can't fail for self
	return r.Utime.Nano() + r.Stime.Nano()
}

func threadNs() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return t.Nano()
}

// stateKeys are n keys of 12 bytes, hashed.
func stateKeys(n int) []state.Key {
	h := state.Hasher{Seed: 11}
	buf := make([]byte, 0, 12*n)
	keys := make([]state.Key, n)
	for i := range keys {
		buf = fmt.Appendf(buf, "%012d", i)
		b := buf[12*i : 12*i+12 : 12*i+12]
		keys[i] = state.Key{Hash: h.Hash(b), Bytes: b}
	}
	return keys
}

func wholeRange() state.Range { return state.Range{Lo: 0, Hi: state.Slots} }

// BenchmarkTable: updates of 16-byte values of uniform keys in the hot table alone, batches of 256.
func BenchmarkTable(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			keys := stateKeys(n)
			t, err := table.New(wholeRange(), 0)
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			for _, k := range keys {
				if _, err := t.Insert(k.Hash, k.Bytes, make([]byte, 16), false, table.Fresh); err != nil {
					b.Fatal(err)
				}
			}
			order := batches(keys, 1<<12)
			pos := make([]state.Pos, stateBatch)
			b.ReportAllocs()
			at, c0 := 0, processNs()
			for b.Loop() {
				ks := order[at]
				at = (at + 1) % len(order)
				t.FindAll(ks, pos)
				for _, p := range pos {
					v, _ := t.Value(p)
					var x [16]byte
					copy(x[:], v)
					binary.LittleEndian.PutUint64(x[:], binary.LittleEndian.Uint64(x[:])+1)
					if err := t.Put(p, x[:]); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*stateBatch*1e3/float64(processNs()-c0), "M/s-cpu")
		})
	}
}

// batches are random keys; a key may be twice in a batch, which a table does not mind.
func batches(keys []state.Key, n int) [][]state.Key {
	rng := rand.New(rand.NewPCG(5, 5))
	flat := make([]state.Key, n*stateBatch)
	for i := range flat {
		flat[i] = keys[rng.IntN(len(keys))]
	}
	out := make([][]state.Key, n)
	for i := range out {
		out[i] = flat[i*stateBatch : (i+1)*stateBatch]
	}
	return out
}

// BenchmarkTableFreeze: the pause and the worst step of a cut of 1 M dirty entries, and the worst batch
// of 256 inserts while the table grows to that.
func BenchmarkTableFreeze(b *testing.B) {
	const n = 1_000_000
	runtime.LockOSThread() // the delays are this thread's
	defer runtime.UnlockOSThread()
	keys := stateKeys(n)
	for b.Loop() {
		t, err := table.New(wholeRange(), 0)
		if err != nil {
			b.Fatal(err)
		}
		var grow, steps []int64
		for i := 0; i+stateBatch <= n; i += stateBatch {
			t0 := threadNs()
			for _, k := range keys[i : i+stateBatch] {
				if _, err := t.Insert(k.Hash, k.Bytes, make([]byte, 16), false, table.Fresh); err != nil {
					b.Fatal(err)
				}
			}
			t.GrowStep()
			grow = append(grow, threadNs()-t0)
		}
		t0 := threadNs()
		t.Freeze()
		pause := threadNs() - t0
		for t.Freezing() {
			t0 := threadNs()
			if err := t.Step(); err != nil {
				b.Fatal(err)
			}
			steps = append(steps, threadNs()-t0)
		}
		slices.Sort(grow)
		slices.Sort(steps)
		b.ReportMetric(float64(pause)/1e3, "pause-us")
		b.ReportMetric(float64(steps[len(steps)-1])/1e3, "worst-step-us")
		b.ReportMetric(float64(steps[len(steps)/2])/1e3, "median-step-us")
		b.ReportMetric(float64(grow[len(grow)-1])/1e3, "worst-growing-batch-us")
		t.Close()
	}
}

// folder is a snapshot store for benchmarks.
type folder struct{ dir string }

func (o folder) AddFile(_ context.Context, path string) (string, int64, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256([]byte(path)) // a name will do here
	d := hex.EncodeToString(sum[:])
	if filepath.Dir(path) == o.dir {
		return filepath.Base(path), st.Size(), nil
	}
	if err := os.Link(path, filepath.Join(o.dir, d)); err != nil && !errors.Is(err, os.ErrExist) {
		return "", 0, err
	}
	return d, st.Size(), nil
}

func (o folder) Path(_ context.Context, digest string) (string, error) {
	return filepath.Join(o.dir, digest), nil
}

// BenchmarkStateTenTimesBudget: read-modify-write of uniform keys, 10 M entries of 12 + 28 bytes, a table
// of about 1 M, files in the page cache. MILLRACE_BENCH_KEYS changes the number of keys.
func BenchmarkStateTenTimesBudget(b *testing.B) {
	n := 10_000_000
	if s := os.Getenv("MILLRACE_BENCH_KEYS"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			b.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "millrace-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	objects := folder{filepath.Join(dir, "objects")}
	if err := os.Mkdir(objects.dir, 0o755); err != nil {
		b.Fatal(err)
	}
	k, err := backend.Open(backend.Config{
		Operator: "bench", Descriptors: []state.Descriptor{{Name: "v", Kind: abi.StateValue, MaxBytes: 64}},
		Range: wholeRange(), Budget: int64(n) * 11, Dir: filepath.Join(dir, "task"), Kind: backend.Disk, Objects: objects,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	keys := stateKeys(n)
	s := stateRun{b: b, keyed: k, value: k.Value(0)}
	for i := 0; i+stateBatch <= n; i += stateBatch { // load
		s.batch(keys[i : i+stateBatch])
	}
	rng := rand.New(rand.NewPCG(9, 9))
	ks := make([]state.Key, stateBatch)
	b.ReportAllocs()
	before := k.Stats()
	s.delays = s.delays[:0]
	c0 := processNs()
	for b.Loop() {
		for i := range ks {
			ks[i] = keys[rng.IntN(n)]
		}
		s.batch(ks)
	}
	cpu := processNs() - c0
	slices.Sort(s.delays)
	after := k.Stats()
	b.ReportMetric(float64(b.N)*stateBatch*1e3/float64(cpu), "M/s-cpu")
	b.ReportMetric(float64(after.ColdReads-before.ColdReads)/float64(b.N*stateBatch), "misses/op")
	b.ReportMetric(float64(s.delays[len(s.delays)-1])/1e3, "worst-batch-us")
	b.ReportMetric(float64(after.MemBytes)/(1<<20), "MiB-mem")
	b.ReportMetric(float64(after.ColdBytes)/(1<<20), "MiB-cold")
	b.ReportMetric(float64(after.Entries), "entries")
}

type stateRun struct {
	b      *testing.B
	keyed  state.Keyed
	value  state.Value
	pos    [stateBatch]state.Pos
	delays []int64
}

func (s *stateRun) batch(ks []state.Key) {
	t0 := threadNs()
	if err := s.value.Prefetch(ks, s.pos[:]); err != nil {
		s.b.Fatal(err)
	}
	for i, k := range ks {
		var x [28]byte
		v, _, err := s.value.Load(s.pos[i], k)
		if err != nil {
			s.b.Fatal(err)
		}
		copy(x[:], v)
		binary.LittleEndian.PutUint64(x[:], binary.LittleEndian.Uint64(x[:])+1)
		if err := s.value.Store(s.pos[i], k, x[:]); err != nil {
			s.b.Fatal(err)
		}
	}
	if _, err := s.keyed.Step(); err != nil {
		s.b.Fatal(err)
	}
	if len(s.delays) < cap(s.delays) || len(s.delays) < 1<<20 {
		s.delays = append(s.delays, threadNs()-t0)
	}
}
