package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

func u32(vs ...uint32) string { return enginetest.U32(vs...) }

// TestFaultsUnderYields cuts a block in many calls by a small quantum: the fault is found at the same
// record, and the outputs before it are the same.
func TestFaultsUnderYields(t *testing.T) {
	const n, bad = 96, 61
	for kind, request := range map[guestop.FaultKind]string{guestop.FaultTrap: "b", guestop.FaultFuel: "l"} {
		for _, quantum := range []int64{1, 10_000, 100_000, 1 << 40} {
			t.Run(fmt.Sprintf("%s/%d", kind, quantum), func(t *testing.T) {
				k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerRecord: 1 << 20, FuelPerCall: quantum})
				values := make([]string, n)
				for i := range values {
					values[i] = "q" + u32(1000)
				}
				values[bad] = request
				size := k.fill(0, 0, values...)
				outputs, calls := 0, 0
				for first := uint32(0); ; calls++ {
					o := k.Call(size, first)
					if o.Fault != nil {
						if o.Fault.Kind != kind || o.Fault.Record != bad {
							t.Fatalf("fault %v at record %d, expected %s at %d", o.Fault, o.Fault.Record, kind, bad)
						}
						break
					}
					if !o.Yielded || o.Consumed <= first || o.Consumed > bad {
						t.Fatalf("outcome %+v from record %d", o, first)
					}
					outputs += len(enginetest.Frames(k.Out()))
					first = o.Consumed
				}
				if quantum == 1 && calls != bad {
					t.Errorf("%d calls with a quantum of one, expected a record in each of %d", calls, bad)
				}
				if quantum < 1<<40 && outputs == 0 {
					t.Error("no outputs before the fault")
				}
			})
		}
	}
}

// TestFuelDoesNotDependOnTheCut adds up the fuel of the calls: records cost the same however they are
// cut; a call adds the same prologue and end each time.
func TestFuelDoesNotDependOnTheCut(t *testing.T) {
	values := make([]string, 64)
	for i := range values {
		values[i] = "q" + u32(uint32(100+i*37))
	}
	bill := func(quantum int64) (sum int64, calls int64) {
		k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerCall: quantum})
		size := k.fill(0, 0, values...)
		for first := uint32(0); ; {
			o := k.Call(size, first)
			if o.Fault != nil {
				t.Fatal(o.Fault)
			}
			sum, calls = sum+o.Fuel, calls+1
			if !o.Yielded {
				return sum, calls
			}
			first = o.Consumed
		}
	}
	whole, one := bill(1 << 40)
	each, many := bill(1)
	some, few := bill(20_000)
	if one != 1 || many < 64 || few <= 2 || few >= 60 {
		t.Fatalf("calls %d, %d, %d", one, few, many)
	}
	perCall := (each - whole) / (many - one)
	if got := whole + perCall*(few-one); got != some || whole+perCall*(many-one) != each {
		t.Errorf("fuel %d in 1 call, %d in %d, %d in %d: not a constant per call", whole, some, few, each, many)
	}
}

func TestYieldFromAHostCall(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	k.env.On = func(call string) {
		if strings.HasPrefix(call, "clear") {
			if c := k.Cursor(); c != 1 {
				t.Errorf("cursor %d, expected 1", c)
			}
			k.Yield()
		}
	}
	size := k.fill(0, 0, "ea", "x"+u32(4, 0), "eb", "ec")
	o := k.Call(size, 0)
	if o.Fault != nil || !o.Yielded || o.Consumed != 2 || o.Fuel <= 0 || o.Fuel > 100_000 {
		t.Fatalf("outcome %+v, fault %v", o, o.Fault)
	}
	if o = k.Call(size, 2); o.Fault != nil || o.Yielded || o.Consumed != 4 || len(enginetest.Frames(k.Out())) != 2 {
		t.Fatalf("outcome %+v, fault %v", o, o.Fault)
	}
	if k.Cursor() != -1 {
		t.Errorf("cursor %d outside a call", k.Cursor())
	}
}

func TestOutputBufferFull(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{OutputBytes: 4096})
	values := make([]string, 20)
	for i := range values {
		values[i] = "e" + strings.Repeat("x", 500)
	}
	size, seen, calls := k.fill(0, 0, values...), 0, 0
	for first := uint32(0); ; calls++ {
		o := k.Call(size, first)
		if o.Fault != nil {
			t.Fatal(o.Fault)
		}
		for _, r := range enginetest.Frames(k.Out()) {
			if int(r.Cause) != seen {
				t.Fatalf("output of record %d, expected %d", r.Cause, seen)
			}
			seen++
		}
		if !o.Yielded {
			break
		}
		first = o.Consumed
	}
	if seen != 20 || calls < 4 {
		t.Errorf("%d outputs in %d calls", seen, calls+1)
	}
}

// TestProtocol: whatever a guest writes into its header, the host finds it out or takes it as it is.
func TestProtocol(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	lie := func(consumed, bytes, frames, status uint32) string { return "h" + u32(consumed, bytes, frames, status) }
	for _, c := range []struct {
		values []string
		text   string
	}{
		{[]string{lie(0, 0, 0, 0)}, "done with 0 of 1"},
		{[]string{lie(0, 0, 0, 1)}, "without having processed any"},
		{[]string{lie(2, 0, 0, 0)}, "expected 0 to 1"},
		{[]string{lie(1, 0, 0, 2)}, "it returned 2"},
		{[]string{lie(1, 0, 0, 0x80000000)}, "it returned -"},
		{[]string{lie(1, 0xfffffff0, 0, 0)}, "bytes of output"},
		{[]string{lie(1, 256<<10-15, 0, 0)}, "bytes of output"},
		{[]string{lie(1, 80, 3, 0)}, "3 frames in 80 bytes"},
		{[]string{"e", lie(1, 0, 0, 0), "e"}, "done with 1 of 3"},
		{[]string{lie(3, 0, 0, 0), "e", "e"}, "the last mr.next was for record 0"},
		{[]string{"H"}, "no header"},
		{[]string{"n" + u32(0), "e"}, "another number than 1"},
		{[]string{"n" + u32(7), "e"}, "another number than 1"},
	} {
		f := k.Call(k.fill(0, 0, c.values...), 0).Fault
		if f == nil || f.Kind != guestop.FaultProtocol || !strings.Contains(f.Message, c.text) {
			t.Errorf("%q: fault %v, expected protocol and %q", c.values, f, c.text)
		}
		if len(k.Out()) != 0 {
			t.Errorf("%q: output after a fault", c.values)
		}
		k.reset()
	}
	k.ask("ea")
}

func TestNextAfterYieldTraps(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{FuelPerCall: 1})
	f := k.Call(k.fill(0, 0, "y", "e", "e", "e"), 0).Fault
	if f == nil || f.Kind != guestop.FaultProtocol || f.Record != -1 || !strings.Contains(f.Message, "after it had asked to yield") {
		t.Fatalf("fault %v", f)
	}
}

// TestRandomHeaders throws arbitrary headers at the check; what it accepts lies inside the buffer.
func TestRandomHeaders(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	pick := func() uint32 {
		switch rng.IntN(4) {
		case 0:
			return uint32(rng.IntN(4))
		case 1:
			return uint32(rng.IntN(300 << 10))
		case 2:
			return ^uint32(rng.IntN(64))
		}
		return rng.Uint32()
	}
	for range 2000 {
		o := k.Call(k.fill(0, 0, "h"+u32(pick(), pick(), pick(), uint32(rng.IntN(3)))), 0)
		if o.Fault == nil && (o.Consumed != 1 || len(k.Out()) > 256<<10-abi.OutHeader) {
			t.Fatalf("seed %d: outcome %+v with %d bytes", seed, o, len(k.Out()))
		}
		if o.Fault != nil && o.Fault.Kind != guestop.FaultProtocol {
			t.Fatalf("seed %d: %v", seed, o.Fault)
		}
	}
}

func TestOtherFaults(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	f := k.fault(guestop.FaultAbort, 1, "ea", "a")
	if f.Message != "no é😀 at a.ts:12:34" {
		t.Errorf("message %q", f.Message)
	}
	k.reset()
	f = k.fault(guestop.FaultTrap, 0, "E"+u32(3))
	if !strings.Contains(f.Message, "proc_exit(3)") {
		t.Errorf("message %q", f.Message)
	}
	k.reset()
	f = k.fault(guestop.FaultTrap, 0, "Wpanic: so it goes")
	if f.Stderr != "panic: so it goes" || f.Message != "unreachable" {
		t.Errorf("stderr %q, message %q", f.Stderr, f.Message)
	}
	k.reset()
	k.env.On = func(call string) {
		panic("no such entry: " + call)
	}
	f = k.fault(guestop.FaultTimeout, 1, "eb", "x"+u32(4, 0))
	if !strings.Contains(f.Message, "a host call panicked: no such entry: ") || len(f.Stack) == 0 || strings.Contains(strings.Join(f.Stack, " "), "goroutine") {
		t.Errorf("message %q, stack %q", f.Message, f.Stack)
	}
	k.env.On = nil
	k.reset()
	k.ask("ea")
}

// TestCopies is C042's second half: the host keeps what it was given, not a view of guest memory.
func TestCopies(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	out := k.ask("s")
	if got := string(k.env.Values["0/"]); got != "AAAA" {
		t.Errorf("state %q, expected AAAA", got)
	}
	if got := string(out[0].Value); got != "ZZZZ" {
		t.Errorf("output %q, expected ZZZZ", got)
	}
	if out := k.ask("g"); string(out[0].Value) != "AAAA" {
		t.Errorf("state read %q, expected AAAA", out[0].Value)
	}
}

// TestClockAndRandom is C045 at this level: both come from the Env.
func TestClockAndRandom(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	k.env.Now = 1_700_000_000_123
	out := k.ask("t", "t")
	if ns := binary.LittleEndian.Uint64(out[0].Value); ns != 1_700_000_000_123_000_000 {
		t.Errorf("clock %d ns", ns)
	}
	a, b := string(out[0].Value[8:16]), string(out[1].Value[8:16])
	if a == b || string(out[0].Value[16:]) != a {
		t.Errorf("random bytes %x %x of record 0, %x of record 1", a, out[0].Value[16:], b)
	}
	k.reset()
	if again := k.ask("t", "t"); string(again[0].Value) != string(out[0].Value) || string(again[1].Value) != string(out[1].Value) {
		t.Error("another time or other random bytes when repeated")
	}
}

// TestLargeInput: the buffer grows once more, and small blocks go on.
func TestLargeInput(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{OutputBytes: 2 << 20})
	large := strings.Repeat("x", 1<<20)
	for range 3 {
		if out := k.ask("e" + large); string(out[0].Value) != large {
			t.Fatalf("%d bytes came back", len(out[0].Value))
		}
		k.ask("ea")
	}
	if k.Memory() > 8<<20 {
		t.Errorf("%d bytes of memory: the buffer was allocated over and over", k.Memory())
	}
	small := newKitchen(t, Options{}, guestop.InstanceOptions{MemoryBytes: 1 << 20})
	if _, err := small.In(2 << 20); err == nil || !strings.Contains(err.Error(), string(guestop.FaultMemory)) {
		t.Errorf("error %v", err)
	}
}

func TestStderrTail(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	values := make([]string, 200)
	for i := range values {
		values[i] = fmt.Sprintf("wline %03d %s\n", i, strings.Repeat("-", 50))
	}
	f := k.fault(guestop.FaultTrap, 200, append(values, "b")...)
	if len(f.Stderr) != 4096 || !strings.HasSuffix(f.Stderr, "\n") || !strings.Contains(f.Stderr, "line 199") || strings.Contains(f.Stderr, "line 100") {
		t.Errorf("%d bytes: %q", len(f.Stderr), f.Stderr)
	}
	if len(k.env.Calls) != 200 {
		t.Errorf("%d log lines", len(k.env.Calls))
	}
}

// TestWildPointersFromAGuest makes every host call with ranges outside the memory, through the whole
// engine: a status or a fault, never a panic, and the next record works.
func TestWildPointersFromAGuest(t *testing.T) {
	k := newKitchen(t, Options{}, guestop.InstanceOptions{})
	k.env.Quiet = true
	size := uint32(k.Memory())
	const calls = 19
	for call := range uint32(calls) {
		for _, wild := range [][2]uint32{{0xfffffff0, 0x20}, {0, 0xffffffff}, {size - 1, 2}, {size, 0}, {size, 1}, {0xffffffff, 0xffffffff}} {
			for _, args := range [][]uint32{
				{call, wild[0], wild[1], 0, 0, 0}, {call, 0, wild[0], wild[1], 0, 0}, {call, 1, wild[0], wild[1], wild[0], wild[1]}, {call, 0, 0, 0, wild[0], wild[1]},
			} {
				o := k.Call(k.fill(0, 0, "ea", "x"+u32(args...), "eb"), 0)
				if o.Fault == nil {
					if out := enginetest.Frames(k.Out()); len(out) != 3 || string(out[2].Value) != "b" {
						t.Fatalf("call %d with %x: outputs %v", call, args, out)
					}
					continue
				}
				if o.Fault.Record != 1 || o.Fault.Kind != guestop.FaultProtocol && o.Fault.Kind != guestop.FaultAbort {
					t.Fatalf("call %d with %x: %v", call, args, o.Fault)
				}
				k.reset()
			}
		}
	}
}

// TestInterpreterIsTheSame: outputs, fuel and faults don't depend on the engine.
func TestInterpreterIsTheSame(t *testing.T) {
	sameAs(t, Options{Interpreter: true}, func(told string) string { return told })
}

// sameAs holds what the kitchen does under other options against what it does by default.
func sameAs(t *testing.T, other Options, normal func(string) string) {
	t.Helper()
	limits := guestop.InstanceOptions{FuelPerRecord: 1 << 20, FuelPerCall: 50_000, MemoryBytes: 8 << 20}
	a, b := newKitchen(t, Options{}, limits), newKitchen(t, other, limits)
	for _, last := range []string{"e", "b", "l", "m", "E" + u32(1), "a", "n" + u32(9), "s", "g", "t"} {
		values := []string{"c", "q" + u32(5000), "ehello", "G" + u32(2), "q" + u32(9000), last}
		if x, y := normal(a.tell(values...)), normal(b.tell(values...)); x != y {
			t.Errorf("%q: by default\n%s\nwith %+v\n%s", last, x, other, y)
		}
	}
}

// tell runs a block and says all that came of it.
func (k *kitchen) tell(values ...string) (s string) {
	size := k.fill(0, 0, values...)
	for first := uint32(0); ; {
		o := k.Call(size, first)
		if o.Fault != nil {
			s += fmt.Sprintf("%s at %d: %s, fuel %d, stack %q", o.Fault.Kind, o.Fault.Record, o.Fault.Message, o.Fuel, o.Fault.Stack)
			k.reset()
			return s
		}
		s += fmt.Sprintf("%d %v fuel %d %x\n", o.Consumed, o.Yielded, o.Fuel, k.Out())
		if !o.Yielded {
			return s
		}
		first = o.Consumed
	}
}
