package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	w "github.com/millrace-io/millrace/host/instrument/wasmtest"
	"github.com/millrace-io/millrace/operators/guestop"
)

// variants makes modules that differ in one constant.
func variants(n int) [][]byte {
	var ms [][]byte
	for i := range n {
		ms = append(ms, assemble(nil, func(m *w.Module) { m.Datas = []w.Data{{Offset: 64, Bytes: fmt.Appendf(nil, "module %d", i)}} }))
	}
	return ms
}

// TestHammer is C044: tasks that compile, instantiate, call, fault, reset and close different modules at
// once, while others come and go. Run it with -race.
func TestHammer(t *testing.T) {
	const tasks, modules = 16, 10
	cycles := 1000 / tasks
	if testing.Short() {
		cycles = 10
	}
	ctx := context.Background()
	e := newEngine(t, Options{})
	wasm := append(variants(modules-1), cases.Module("kitchen"))
	goroutines := runtime.NumGoroutine()
	heap := heapBytes()
	var wg sync.WaitGroup
	errs := make(chan error, tasks)
	for task := range tasks {
		wg.Go(func() {
			for c := range cycles {
				if err := cycle(ctx, e, wasm[(task+c)%modules], (task+c)%modules == modules-1); err != nil {
					errs <- fmt.Errorf("task %d, cycle %d: %w", task, c, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	if n := e.Modules(); n != 0 {
		t.Errorf("%d modules left", n)
	}
	waitForGoroutines(t, goroutines)
	if now := heapBytes(); now > heap+heap/5+1<<20 {
		t.Errorf("heap of %d bytes, %d before", now, heap)
	}
}

// waitForGoroutines gives those that have finished their work time to end.
func waitForGoroutines(t *testing.T, want int) {
	t.Helper()
	for range 200 {
		if runtime.NumGoroutine() <= want {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), want)
}

func heapBytes() uint64 {
	for range 3 { // compiled code is freed by finalizers
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func cycle(ctx context.Context, e *Engine, wasm []byte, faulty bool) error {
	m, err := e.Compile(ctx, wasm, nil)
	if err != nil {
		return err
	}
	g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
	if err = errors.Join(err, m.(*Module).Close()); err != nil { // the instance keeps the code
		return err
	}
	if _, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{}); !errors.Is(err, ErrClosed) {
		return fmt.Errorf("a closed module gave an instance, error %v", err)
	}
	values := []string{"ea", "eb"}
	if faulty {
		values[1] = "b"
	}
	block := enginetest.Block(enginetest.Values(values...), 0)
	for range 3 {
		in, err := g.In(len(block))
		if err != nil {
			return err
		}
		copy(in, block)
		switch o := g.Call(len(block), 0); {
		case faulty && (o.Fault == nil || o.Fault.Record != 1):
			return fmt.Errorf("outcome %+v of a faulty block", o)
		case !faulty && o.Fault != nil:
			return o.Fault
		}
		if err := g.Reset(); err != nil {
			return err
		}
	}
	return g.Close()
}

// TestStopHammer stops instances while they run, are reset and are closed.
func TestStopHammer(t *testing.T) {
	m, err := newEngine(t, Options{}).Compile(context.Background(), cases.Module("kitchen"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.(*Module).Close()
	for range 50 {
		g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{FuelPerRecord: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 20 {
				g.Stop()
				runtime.Gosched()
			}
		})
		block := enginetest.Block(enginetest.Values("q"+u32(1000)), 0)
		for range 5 {
			in, err := g.In(len(block))
			if err != nil {
				var f *guestop.Fault
				if !errors.As(err, &f) {
					t.Fatal(err)
				}
			} else {
				copy(in, block)
				if o := g.Call(len(block), 0); o.Fault != nil && o.Fault.Kind != guestop.FaultStopped {
					t.Fatal(o.Fault)
				}
			}
			if err := g.Reset(); err != nil {
				var f *guestop.Fault
				if !errors.As(err, &f) || f.Kind != guestop.FaultStopped {
					t.Fatal(err)
				}
				break // stopped in its initialisation: closed
			}
		}
		wg.Wait()
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInstancesCostWhatTheyTouch: the reserved 64 MiB of each are address space only.
func TestInstancesCostWhatTheyTouch(t *testing.T) {
	m, err := newEngine(t, Options{}).Compile(context.Background(), cases.Module("kitchen"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.(*Module).Close()
	before := residentKiB(t)
	const n = 200
	for range n {
		g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
	}
	if each := (residentKiB(t) - before) / n; each > 200 {
		t.Errorf("an idle instance takes %d KiB, at most 200 expected", each)
	}
}

// TestResetsKeepMemoryAndTimeBounded: a thousand faults leave no more memory than one.
func TestResetsKeepMemoryBounded(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	for range 50 {
		k.fault(guestop.FaultTrap, 0, "b")
		k.reset()
	}
	before := residentKiB(t)
	for i := range 1000 {
		request := "b"
		if i%50 == 0 {
			request = "m" // grows to the limit, so the instance is replaced
		}
		k.Call(k.fill(0, 0, request), 0)
		k.reset()
	}
	if rise := residentKiB(t) - before; rise > 20<<10 {
		t.Errorf("resident memory rose by %d KiB", rise)
	}
}

// TestCache: compiled code is found again; a flipped byte anywhere in an entry leads to the right result.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	use := func() {
		t.Helper()
		k := newKitchen(t, Options{CacheDir: dir}, guestop.InstanceOptions{})
		if out := k.ask("ehello"); string(out[0].Value) != "hello" {
			t.Fatalf("output %q", out[0].Value)
		}
	}
	use()
	files := cacheFiles(t, dir)
	if len(files) != 2 {
		t.Fatalf("files %q, expected code and a seal", files)
	}
	stamp := func() (s string) {
		for _, f := range cacheFiles(t, dir) {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			s += fmt.Sprintln(f, info.Size(), info.ModTime().UnixNano())
		}
		return s
	}
	first := stamp()
	use()
	if now := stamp(); now != first {
		t.Errorf("an intact entry was written again: %s, before %s", now, first)
	}
	for _, f := range files {
		good, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []int{0, len(good) / 3, len(good) / 2, len(good) - 1} {
			bad := append([]byte(nil), good...)
			bad[at] ^= 0x10
			before := stamp()
			if err := os.WriteFile(f, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			use()
			if stamp() == before {
				t.Errorf("%s with byte %d flipped was used", f, at)
			}
			use()
		}
		if err := os.Truncate(f, int64(len(good)/2)); err != nil {
			t.Fatal(err)
		}
		use()
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
		use()
	}
	info, err := os.Stat(filepath.Dir(files[0]))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder mode %v, %v", info.Mode(), err)
	}
}

func cacheFiles(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestVersionNamesTheEngine keeps the constant, part of the cache's key, with the module file.
func TestVersionNamesTheEngine(t *testing.T) {
	b, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "github.com/tetratelabs/" + Version; !strings.Contains(string(b), want) {
		t.Errorf("go.mod has no %s", want)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{FuelPerInit: -1}} {
		if _, err := New(context.Background(), o); err == nil {
			t.Errorf("options %+v are accepted", o)
		}
	}
	m, err := compile(t, assemble(nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []guestop.InstanceOptions{{FuelPerRecord: -1}, {FuelPerCall: -5}, {FuelPerRecord: 1 << 62}, {OutputBytes: 16}, {OutputBytes: abi.MaxOutputBytes + 1}} {
		if _, err := m.New(enginetest.NewEnv(), o); err == nil {
			t.Errorf("options %+v are accepted", o)
		}
	}
}
