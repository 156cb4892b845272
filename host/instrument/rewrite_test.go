package instrument

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

var i32s = []byte{wt.I32}

// batchGuest calls next as an SDK does: process(first, n) returns the index consumed. Record i burns
// i*burn turns of a loop and record trap traps.
func batchGuest(burn, trap int32) *wt.Module {
	m := &wt.Module{}
	next := m.Import("mr", "next", i32s, i32s)
	user := m.Func(i32s, nil, i32s,
		wt.LocalGet(0), wt.I32Const(trap), wt.I32Eq, wt.If(wt.Void), wt.Unreachable, wt.End,
		wt.LocalGet(0), wt.I32Const(burn), wt.I32Mul, wt.LocalSet(1),
		wt.Block(wt.Void), wt.Loop(wt.Void), wt.LocalGet(1), wt.I32Eqz, wt.BrIf(1),
		wt.LocalGet(1), wt.I32Const(1), wt.I32Sub, wt.LocalSet(1), wt.Br(0), wt.End, wt.End)
	m.ExportFunc("process", []byte{wt.I32, wt.I32}, i32s, nil,
		wt.Loop(wt.Void),
		wt.LocalGet(0), wt.Call(next), wt.If(wt.Void), wt.LocalGet(0), wt.Return, wt.End,
		wt.LocalGet(0), wt.LocalGet(1), wt.I32GeU, wt.If(wt.Void), wt.LocalGet(0), wt.Return, wt.End,
		wt.LocalGet(0), wt.Call(user), wt.LocalGet(0), wt.I32Const(1), wt.I32Add, wt.LocalSet(0), wt.Br(0), wt.End,
		wt.Unreachable)
	m.ExportFunc("bad", i32s, i32s, nil, wt.LocalGet(0), wt.Call(next))
	return m
}

func eachForm(t *testing.T, wasm []byte, f func(t *testing.T, i *instance)) {
	for _, inline := range []bool{false, true} {
		for _, interpreter := range []bool{false, true} {
			t.Run(fmt.Sprintf("inline=%v/interpreter=%v", inline, interpreter), func(t *testing.T) {
				r := rewrite(t, wasm, Options{Fuel: true, InlineNext: inline})
				f(t, newEngine(t, interpreter).instance(t, r.Wasm))
			})
		}
	}
}

const plenty = 1 << 40

func TestNextBillsTheSameForEveryCut(t *testing.T) {
	const n = 64
	eachForm(t, batchGuest(3, -1).Bytes(), func(t *testing.T, i *instance) {
		bill := func(cut int) (total int64) {
			for first := 0; first < n; first += cut {
				i.begin(plenty, 1_000_000, plenty, first)
				r, err := i.call("process", uint64(first), uint64(first+cut))
				if err != nil || int(r[0]) != first+cut {
					t.Fatalf("process: %v, %v", r, err)
				}
				if i.get(GlobalCursor) != int64(first+cut) || i.get(GlobalPrologue) < 0 {
					t.Fatalf("cursor %d, prologue %d", i.get(GlobalCursor), i.get(GlobalPrologue))
				}
				total += plenty - i.get(GlobalQuantum)
			}
			return total
		}
		one := bill(1)
		if one < n*(n-1)/2*3*5 {
			t.Fatalf("64 records were billed %d units, they ran more instructions", one)
		}
		for _, cut := range []int{2, 16, 64} {
			if b := bill(cut); b != one {
				t.Errorf("batches of %d are billed %d, batches of 1 %d", cut, b, one)
			}
		}
	})
}

func TestNextYieldsWhenTheQuantumIsSpent(t *testing.T) {
	eachForm(t, batchGuest(100, -1).Bytes(), func(t *testing.T, i *instance) {
		first, yields := 0, 0
		for first < 100 {
			i.begin(plenty, 1_000_000, 50_000, first)
			r, err := i.call("process", uint64(first), 100)
			if err != nil {
				t.Fatal(err)
			}
			if int(r[0]) <= first {
				t.Fatalf("no progress at %d", first)
			}
			if q := i.get(GlobalQuantum); int(r[0]) < 100 && (q > 0 || q < -150_000) {
				t.Fatalf("yielded at %d with quantum %d", r[0], q)
			}
			first = int(r[0])
			yields++
		}
		if yields < 10 {
			t.Errorf("%d calls for about 3,000,000 units at 50,000 a call", yields)
		}
	})
}

func TestFaultsAreToldApart(t *testing.T) {
	eachForm(t, batchGuest(1000, 40).Bytes(), func(t *testing.T, i *instance) {
		// Record 20 needs about 20 * 1000 * 8 units.
		i.begin(1000, 150_000, plenty, 0)
		_, err := i.call("process", 0, 64)
		if c := i.get(GlobalCursor); err == nil || i.get(GlobalFuel) >= 0 || c < 15 || c > 30 {
			t.Errorf("out of fuel: err %v, fuel %d, cursor %d", err, i.get(GlobalFuel), c)
		}
		i.begin(1000, plenty, plenty, 30)
		_, err = i.call("process", 30, 64)
		if err == nil || i.get(GlobalFuel) < 0 || i.get(GlobalMisuse) != 0 || i.get(GlobalCursor) != 40 {
			t.Errorf("own trap: err %v, fuel %d, cursor %d", err, i.get(GlobalFuel), i.get(GlobalCursor))
		}
		for name, prepare := range map[string]func() uint64{
			"index skipped":  func() uint64 { i.begin(1000, 1000, 1000, 0); return 1 },
			"index repeated": func() uint64 { i.begin(1000, 1000, 1000, 5); return 4 },
			"no quantum":     func() uint64 { i.begin(1000, 1000, 0, 0); return 0 },
		} {
			arg := prepare()
			if _, err := i.call("bad", arg); err == nil || i.get(GlobalMisuse) != 1 || i.get(GlobalFuel) < 0 {
				t.Errorf("%s: err %v, misuse %d, fuel %d", name, err, i.get(GlobalMisuse), i.get(GlobalFuel))
			}
		}
		i.begin(1000, 1000, 1000, 0)
		i.set(GlobalStop, StopNow)
		if _, err := i.call("process", 0, 1); err == nil || i.get(GlobalFuel) < 0 || i.get(GlobalMisuse) == 1 {
			t.Errorf("stopped: err %v, fuel %d", err, i.get(GlobalFuel))
		}
	})
}

func TestStopReachesALoopWithoutCalls(t *testing.T) {
	m := &wt.Module{}
	m.ExportFunc("loop", nil, nil, nil, wt.Loop(wt.Void), wt.Br(0), wt.End)
	r := rewrite(t, m.Bytes(), DefaultOptions())
	i := newEngine(t, false).instance(t, r.Wasm)
	// A collection that begins now would wait for the guest, and the timer with it: the fuel ends that.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	i.begin(10_000_000_000, 0, 0, 0)
	started := time.Now()
	timer := time.AfterFunc(50*time.Millisecond, func() { i.set(GlobalStop, StopNow) })
	defer timer.Stop()
	_, err := i.call("loop")
	if err == nil || i.get(GlobalFuel) < 0 {
		t.Fatalf("err %v, fuel %d", err, i.get(GlobalFuel))
	}
	if d := time.Since(started); d > 2*time.Second {
		t.Errorf("stopped after %v", d)
	}
}
