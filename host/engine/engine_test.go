package engine

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

func newEngine(t testing.TB, o Options) *Engine {
	t.Helper()
	e, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if n := e.Modules(); n != 0 {
			t.Errorf("%d modules are still compiled at the end", n)
		}
	})
	return e
}

// kitchen is an instance of the guest that does what its records ask for.
type kitchen struct {
	testing.TB
	*Guest
	env *enginetest.Env
}

func newKitchen(t testing.TB, o Options, io guestop.InstanceOptions) *kitchen {
	t.Helper()
	m, err := newEngine(t, o).Compile(context.Background(), cases.Module("kitchen"), nil)
	if err != nil {
		t.Fatal(err)
	}
	env := enginetest.NewEnv()
	g, err := m.New(env, io)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if err := m.(*Module).Close(); err != nil {
			t.Error(err)
		}
	})
	return &kitchen{t, g.(*Guest), env}
}

func (k *kitchen) fill(function, kind uint32, values ...string) int {
	k.Helper()
	block := enginetest.Block(enginetest.Values(values...), function)
	in, err := k.In(len(block))
	if err != nil {
		k.Fatal(err)
	}
	if copy(in, block) != len(block) {
		k.Fatalf("In gave %d bytes, expected %d", len(in), len(block))
	}
	return len(block)
}

// ask calls once and expects all records to be done.
func (k *kitchen) ask(values ...string) []abi.Record {
	k.Helper()
	o := k.Call(k.fill(0, 0, values...), 0)
	if o.Fault != nil {
		k.Fatal(o.Fault)
	}
	if o.Yielded || int(o.Consumed) != len(values) {
		k.Fatalf("outcome %+v for %d records", o, len(values))
	}
	return enginetest.Frames(k.Out())
}

// fault calls once and expects a fault at a record.
func (k *kitchen) fault(kind guestop.FaultKind, record int, values ...string) *guestop.Fault {
	k.Helper()
	o := k.Call(k.fill(0, 0, values...), 0)
	if o.Fault == nil {
		k.Fatalf("no fault, outcome %+v", o)
	}
	if o.Fault.Kind != kind || o.Fault.Record != record {
		k.Fatalf("fault %q at record %d, expected %q at %d: %v", o.Fault.Kind, o.Fault.Record, kind, record, o.Fault)
	}
	return o.Fault
}

func (k *kitchen) reset() {
	k.Helper()
	if err := k.Reset(); err != nil {
		k.Fatal(err)
	}
}

func TestEcho(t *testing.T) {
	for name, o := range map[string]Options{"compiler": {}, "interpreter": {Interpreter: true}} {
		t.Run(name, func(t *testing.T) {
			k := newKitchen(t, o, guestop.InstanceOptions{})
			for range 3 {
				out := k.ask("ehello", "e", "eworld")
				if len(out) != 3 || string(out[0].Value) != "hello" || string(out[2].Value) != "world" {
					t.Fatalf("output %+v", out)
				}
				if out[2].Cause != 2 || out[2].Pos.Offset != 2 {
					t.Errorf("cause %d, position %v, expected 2", out[2].Cause, out[2].Pos)
				}
			}
		})
	}
}

func TestEmptyBlock(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	if out := k.ask(); len(out) != 0 {
		t.Fatalf("output %v of no records", out)
	}
}

// TestTrap is C039 at this level: the fault names what is needed to find it, and the next record works.
func TestTrap(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	f := k.fault(guestop.FaultTrap, 2, "ea", "wlast words\n", "b", "ec")
	if f.Message != "unreachable" || f.Module != k.code.digest || f.Export != abi.ExportProcess {
		t.Errorf("fault %+v", f)
	}
	if len(f.Stack) < 3 || !strings.HasPrefix(f.Stack[0], "explode(") || !strings.HasPrefix(f.Stack[1], "user(") || !strings.HasPrefix(f.Stack[2], "mr_process(") {
		t.Errorf("stack %q, expected explode, user, mr_process", f.Stack)
	}
	if f.Stderr != "last words\n" {
		t.Errorf("stderr %q", f.Stderr)
	}
	if got := k.env.Calls; len(got) != 1 || got[0] != `log 1 2 "last words"` {
		t.Errorf("calls %q", got)
	}
	k.reset()
	if out := k.ask("ea", "ec"); len(out) != 2 {
		t.Fatalf("output after a reset: %v", out)
	}
	if k.Resets() != 1 {
		t.Errorf("%d resets, expected 1", k.Resets())
	}
}

func TestFaultOutsideRecords(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	o := k.Call(k.fill(1, 0, "ea"), 0)
	if o.Fault == nil || o.Fault.Record != -1 || o.Fault.Kind != guestop.FaultTrap {
		t.Fatalf("outcome %+v", o)
	}
}

// TestLoop is C040: a loop without end stops by its fuel, at its record, and leaves no goroutine.
func TestLoop(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerRecord: 1 << 20})
	k.fault(guestop.FaultFuel, 1, "ea", "l", "eb")
	k.reset()
	before := runtime.NumGoroutine()
	for range 100 {
		k.fault(guestop.FaultFuel, 1, "ea", "l", "eb")
		k.reset()
	}
	waitForGoroutines(t, before)
}

func TestRecursion(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerRecord: 1 << 40})
	f := k.fault(guestop.FaultTrap, 0, "r")
	if !strings.Contains(f.Message, "stack overflow") {
		t.Errorf("message %q", f.Message)
	}
	k.reset()
	k.ask("ea")
}

// TestStop: compiled code can't be preempted, so a garbage collection that begins while it runs holds up
// every goroutine, the one that stops it too, until the record's fuel is spent. None begins here.
func TestStop(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerRecord: 1 << 33})
	go func() {
		for !k.calling.Load() {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
		k.Stop()
	}()
	k.fault(guestop.FaultStopped, 0, "l")
	k.fault(guestop.FaultStopped, -1, "ea") // and it stays so
	k.reset()
	k.ask("ea")
}

// TestMemoryLimit is C041.
func TestMemoryLimit(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{MemoryBytes: 16 << 20})
	before := residentKiB(t)
	f := k.fault(guestop.FaultMemory, 1, "ea", "m")
	if !strings.Contains(f.Message, "the limit is 16384 KiB") {
		t.Errorf("message %q", f.Message)
	}
	if rise := residentKiB(t) - before; rise > 32<<10 {
		t.Errorf("resident memory rose by %d KiB, at most 32 MiB expected", rise)
	}
	k.reset()
	if k.Memory() > 2<<20 {
		t.Errorf("%d bytes of memory after a reset", k.Memory())
	}
	k.ask("ea")

	m := &Module{code: k.code, descriptor: k.code.descriptor}
	for _, bytes := range []int64{-1, 1, pageBytes - 1, abi.MaxMemoryBytes + 1, 13107200 * pageBytes} {
		if _, err := m.New(k.env, guestop.InstanceOptions{MemoryBytes: bytes}); err == nil || !strings.Contains(err.Error(), "memory limit") {
			t.Errorf("limit of %d bytes: error %v", bytes, err)
		}
	}
	if _, err := m.New(k.env, guestop.InstanceOptions{MemoryBytes: pageBytes}); err == nil || !strings.Contains(err.Error(), "starts with") {
		t.Errorf("limit below the initial memory: error %v", err)
	}
}

func residentKiB(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc")
	}
	var size, resident int
	for i, f := range strings.Fields(string(b))[:2] {
		n := 0
		for _, c := range f {
			n = n*10 + int(c-'0')
		}
		if i == 0 {
			size = n
		} else {
			resident = n
		}
	}
	_ = size
	return resident * os.Getpagesize() / 1024
}

// TestInitialised is C043: _initialize ran once in every instance, also in replaced ones.
func TestInitialised(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	check := func(want uint32) {
		t.Helper()
		v := k.ask("c")[0].Value
		if got := binary.LittleEndian.Uint32(v); got != 1 {
			t.Fatalf("_initialize ran %d times", got)
		}
		if got := binary.LittleEndian.Uint32(v[4:]); got != want {
			t.Fatalf("counter %d, expected %d", got, want)
		}
	}
	check(1)
	check(2)
	for range 3 { // replaced, then twice back to the image
		k.reset()
		check(1)
		check(2)
	}
	k.ask("G" + enginetest.U32(3))
	k.reset() // grown: replaced
	check(1)
}
