package ordered

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/statetest"
)

func config(tb testing.TB, cold bool, limit int64) state.PartConfig {
	dir := tb.TempDir()
	return state.PartConfig{
		Operator: "op", Descriptor: state.Descriptor{Name: "m", Kind: abi.StateMap},
		Range: state.Range{Hi: state.Slots}, Hasher: state.Hasher{Seed: 7}, Dir: dir, Cold: cold, Limit: limit,
		FS: state.OS{}, Objects: statetest.NewObjects(tb.TempDir()), Log: slog.New(slog.DiscardHandler),
	}
}

func openStore(tb testing.TB, cfg state.PartConfig, env *coldpebble.Env) *Store {
	tb.Helper()
	s, err := Open(cfg, env)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

func openTimers(tb testing.TB, cfg state.PartConfig) *Timers {
	tb.Helper()
	cfg.Descriptor = state.Descriptor{Name: "timers", Kind: "timers"}
	t, err := OpenTimers(cfg, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := t.Close(); err != nil {
			tb.Error(err)
		}
	})
	return t
}

func freeze(tb testing.TB, p state.Part) state.StateSnapshot {
	tb.Helper()
	c, err := p.Freeze()
	if err != nil {
		tb.Fatal(err)
	}
	<-c.Done()
	s, err := c.Result()
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func key(h state.Hasher, k []byte) state.Key { return state.Key{Hash: h.Hash(k), Bytes: k} }

// cpu is the CPU time of the process and of the calling thread, in ns.
type cpu struct{ all, task int64 }

func cpuNow() cpu {
	read := func(who int) int64 {
		var r syscall.Rusage
		_ = syscall.Getrusage(who, &r) // cannot fail for oneself
		return r.Utime.Nano() + r.Stime.Nano()
	}
	const thread = 1 // RUSAGE_THREAD
	return cpu{read(syscall.RUSAGE_SELF), read(thread)}
}

// measure locks the benchmark to its thread and, when the returned function is called, reports CPU ns per
// op of the task's thread alone and of everything.
func measure(b *testing.B) func() {
	runtime.LockOSThread()
	b.ResetTimer()
	start := cpuNow()
	return func() {
		now := cpuNow()
		runtime.UnlockOSThread()
		b.ReportMetric(float64(now.all-start.all)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(float64(now.task-start.task)/float64(b.N), "task-ns/op")
	}
}

func coldEnvFor(tb testing.TB) *coldpebble.Env {
	e := coldpebble.New(filepath.Join(tb.TempDir(), "cold"), coldpebble.Options{})
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// flip changes a byte in the first third of a file.
func flip(tb testing.TB, path string) {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	b[len(b)/3] ^= 0x40
	if err := os.WriteFile(path, b, 0o644); err != nil {
		tb.Fatal(err)
	}
}
