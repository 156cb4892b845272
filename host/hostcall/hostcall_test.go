package hostcall

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

type word struct{ v uint64 }

func (w *word) Get() uint64  { return w.v }
func (w *word) Set(v uint64) { w.v = v }

const (
	memoryBytes = 4096
	mask        = '?'
)

// guest is a memory filled with a mask, a cursor at record 3 of 8, and an Env that lists its calls.
type guest struct {
	*Scope
	env  *enginetest.Env
	fuel *word
	base []byte // the memory before the call
}

func newGuest() *guest {
	g := &guest{env: enginetest.NewEnv(), fuel: &word{1 << 30}}
	g.Scope = &Scope{Env: g.env, Memory: bytes.Repeat([]byte{mask}, memoryBytes), Cursor: &word{3}, Fuel: g.fuel, N: 8}
	g.base = bytes.Clone(g.Memory)
	return g
}

// call runs a host function; a trap comes back as err.
func (g *guest) call(module, name string, args ...uint64) (result uint64, err error) {
	f, ok := Lookup(module, name)
	if !ok {
		panic("no " + module + "." + name)
	}
	stack := make([]uint64, max(len(f.Params), len(f.Results), 1))
	if copy(stack, args) != len(f.Params) {
		panic(fmt.Sprintf("%s takes %d arguments, got %d", name, len(f.Params), len(args)))
	}
	defer func() {
		if x := recover(); x != nil {
			a, ok := x.(*Abort)
			if !ok {
				panic(x)
			}
			err = a
		}
	}()
	f.Call(g.Scope, stack)
	return stack[0], nil
}

func (g *guest) write(at int, s string) { copy(g.Memory[at:], s) }

// changed gives the bytes that the call has written, as "at: bytes".
func (g *guest) changed() string {
	var b strings.Builder
	for i := 0; i < len(g.Memory); {
		j := i
		for j < len(g.Memory) && g.Memory[j] != g.base[j] {
			j++
		}
		if j > i {
			fmt.Fprintf(&b, "%d: %q ", i, g.Memory[i:j])
		}
		i = j + 1
	}
	return strings.TrimSpace(b.String())
}

func neg(s abi.Status) uint64 { return uint64(uint32(int32(s))) }

// TestCalls: parameters reach the Env, results and bytes reach the guest, and nothing else is written.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    []uint64
		before  func(g *guest)
		result  uint64
		calls   string
		changed string
	}{
		{name: "get", args: []uint64{0, 0, 0, 100, 8}, before: func(g *guest) { g.env.Values["0/"] = []byte("12345") },
			result: 5, calls: `get 3 0 ""`, changed: `100: "12345"`},
		{name: "get", args: []uint64{0, 0, 0, 100, 5}, before: func(g *guest) { g.env.Values["0/"] = []byte("12345") },
			result: 5, calls: `get 3 0 ""`, changed: `100: "12345"`},
		{name: "get", args: []uint64{0, 0, 0, 100, 4}, before: func(g *guest) { g.env.Values["0/"] = []byte("12345") },
			result: 5, calls: `get 3 0 ""`},
		{name: "get", args: []uint64{0, 0, 0, 100, 4}, before: func(g *guest) { g.env.Values["0/"] = nil },
			result: 0, calls: `get 3 0 ""`},
		{name: "get", args: []uint64{1, 10, 2, memoryBytes, 0}, result: uint64(1<<64 - 1), calls: `get 3 1 "??"`},
		{name: "get", args: []uint64{0, 0, abi.MaxStateValueBytes + 1, 0, 0}, result: uint64(1<<64 - 5)},
		{name: "put", args: []uint64{1, 10, 2, 20, 3}, calls: `put 3 1 "??" "???"`},
		{name: "put", args: []uint64{7, 0, 0, 0, 0}, result: neg(abi.StatusBadArg), calls: `put 3 7 "" ""`},
		{name: "put", args: []uint64{1<<32 | 1, 1<<32 | 10, 1<<32 | 2, 20, 3}, calls: `put 3 1 "??" "???"`}, // upper halves don't count
		{name: "put", args: []uint64{0, 0, 0, 0, abi.MaxStateValueBytes + 1}, result: neg(abi.StatusLimit)},
		{name: "delete", args: []uint64{1, 10, 2}, calls: `delete 3 1 "??"`},
		{name: "clear", args: []uint64{1}, calls: `clear 3 1`},
		{name: "clear", args: []uint64{0xffffffff}, result: neg(abi.StatusBadArg), calls: `clear 3 -1`},
		{name: "append", args: []uint64{1, 10, 4}, calls: `append 3 1 "????"`},
		{name: "scan", args: []uint64{1, 10, 1}, result: 0, calls: `scan 3 1 "?"`},
		{name: "scan_close", args: []uint64{5}, result: neg(abi.StatusBadArg), calls: `scan_close 3 5`},
		{name: "timer_set", args: []uint64{0, 10, 2, uint64(1<<64 - 5)}, calls: `timer_set 3 0 "??" -5`},
		{name: "timer_set", args: []uint64{2, 10, 2, 5}, result: neg(abi.StatusBadArg)},
		{name: "timer_set", args: []uint64{1, 0, abi.MaxTimerNameBytes + 1, 5}, result: neg(abi.StatusLimit)},
		{name: "timer_delete", args: []uint64{1, 10, 0, 7}, calls: `timer_delete 3 1 "" 7`},
		{name: "emit", args: []uint64{64, 44, 9}, before: func(g *guest) {
			g.write(64, string(abi.AppendRecord(nil, &abi.Record{Value: []byte("????")})))
		}, calls: `emit 3 44 bytes at 9`},
		{name: "emit", args: []uint64{64, 44, 0}, result: neg(abi.StatusBadArg)},
		{name: "emit", args: []uint64{0, abi.MaxRecordBytes + 1, 0}, result: neg(abi.StatusLimit)},
		{name: "fail", args: []uint64{10, 3}, calls: `fail 3 "???"`},
		{name: "log", args: []uint64{2, 10, 3}, calls: `log 3 2 "???"`},
		{name: "log", args: []uint64{99, 10, 3}, calls: `log 3 1 "???"`},
		{name: "metric", args: []uint64{10, 3, uint64(1<<64 - 2)}, before: func(g *guest) { g.write(10, "a_1") }, calls: `metric 3 "a_1" -2`},
		{name: "metric", args: []uint64{10, 3, 1}, result: neg(abi.StatusBadArg)},
		{name: "metric", args: []uint64{10, 0, 1}, result: neg(abi.StatusBadArg)},
		{name: "metric", args: []uint64{10, MaxMetricNameBytes + 1, 1}, result: neg(abi.StatusLimit)},
		{name: "random", args: []uint64{10, 0}, calls: `random 3 0`},
		{name: "random", args: []uint64{0, MaxRandomBytes + 1}, result: neg(abi.StatusLimit)},
	} {
		t.Run(fmt.Sprint(c.name, c.args), func(t *testing.T) {
			g := newGuest()
			if c.before != nil {
				c.before(g)
				g.base = bytes.Clone(g.Memory)
			}
			got, err := g.call("mr", c.name, c.args...)
			f, _ := Lookup("mr", c.name)
			if err != nil || len(f.Results) > 0 && got != c.result {
				t.Fatalf("result %#x, %v, expected %#x", got, err, c.result)
			}
			if calls := strings.Join(g.env.Calls, "; "); calls != c.calls {
				t.Errorf("calls %q, expected %q", calls, c.calls)
			}
			if changed := g.changed(); changed != c.changed {
				t.Errorf("changed %s, expected %s", changed, c.changed)
			}
		})
	}
}

// ranges lists which parameters of each call are (pointer, length), and the size of what fixed-size
// pointers lead to.
var ranges = map[string][][2]int{
	"mr.get": {{1, 2}, {3, 4}}, "mr.put": {{1, 2}, {3, 4}}, "mr.delete": {{1, 2}}, "mr.append": {{1, 2}},
	"mr.scan": {{1, 2}}, "mr.scan_next": {{1, 2}}, "mr.timer_set": {{1, 2}}, "mr.timer_delete": {{1, 2}},
	"mr.emit": {{0, 1}}, "mr.fail": {{0, 1}}, "mr.log": {{1, 2}}, "mr.metric": {{0, 1}}, "mr.random": {{0, 1}},
	"wasi_snapshot_preview1.random_get": {{0, 1}}, "wasi_snapshot_preview1.fd_write": {{1, 2}},
	"wasi_snapshot_preview1.poll_oneoff": {{0, 2}, {1, 2}},
}

// TestWildPointers is the first half of C042: every range outside the memory is refused before the Env or
// the memory is touched.
func TestWildPointers(t *testing.T) {
	for name, pairs := range ranges {
		module, call, _ := strings.Cut(name, ".")
		for _, pair := range pairs {
			for _, wild := range [][2]uint64{{0xfffffff0, 0x20}, {0, 0xffffffff}, {memoryBytes - 1, 2}, {memoryBytes, 1}, {0xffffffff, 1}, {memoryBytes + 1, 0}, {0xffffffff, 0xffffffff}, {0x80000000, 0x80000000}} {
				if wild[1] == 0 && (call == "fd_write" || call == "poll_oneoff" || call == "metric") {
					continue // no vectors, no name: another status
				}
				g := newGuest()
				f, _ := Lookup(module, call)
				args := make([]uint64, len(f.Params))
				args[pair[0]], args[pair[1]] = wild[0], wild[1]
				if call == "fd_write" {
					args[0] = 1
				}
				got, err := g.call(module, call, args...)
				if len(g.env.Calls) > 0 || g.changed() != "" {
					t.Errorf("%s%x: calls %q, changed %s", name, args, g.env.Calls, g.changed())
				}
				if len(f.Results) == 0 {
					var a *Abort
					if !errors.As(err, &a) || a.Kind != guestop.FaultProtocol {
						t.Errorf("%s%x: %v, expected a trap", name, args, err)
					}
				} else if got != neg(abi.StatusBadPointer) && got != neg(abi.StatusLimit) && got != uint64(1<<64-4) && got != uint64(1<<64-5) && got != errnoFault && got != errnoInval {
					t.Errorf("%s%x: result %#x", name, args, got)
				}
			}
		}
	}
}

// TestFixedPointers: pointers to results of fixed size.
func TestFixedPointers(t *testing.T) {
	for _, c := range []struct {
		name string
		args []uint64
		at   int
		size uint64
	}{
		{"clock_time_get", []uint64{0, 0, 0}, 2, 8}, {"clock_res_get", []uint64{0, 0}, 1, 8},
		{"fd_fdstat_get", []uint64{1, 0}, 1, 24}, {"args_sizes_get", []uint64{0, 100}, 0, 4}, {"args_sizes_get", []uint64{100, 0}, 1, 4},
		{"environ_sizes_get", []uint64{0, 100}, 0, 4}, {"fd_write", []uint64{1, 0, 0, 0}, 3, 4},
	} {
		for ptr, want := range map[uint64]uint64{memoryBytes - c.size: 0, memoryBytes - c.size + 1: errnoFault, memoryBytes: errnoFault, 0xffffffff: errnoFault} {
			g := newGuest()
			c.args[c.at] = ptr
			if got, err := g.call(wasi, c.name, c.args...); got != want || err != nil {
				t.Errorf("%s%d: %d, %v, expected %d", c.name, c.args, got, err, want)
			}
		}
	}
}

// TestNoRecord: outside any record the Env is told so.
func TestNoRecord(t *testing.T) {
	for name, change := range map[string]func(g *guest){
		"no call":    func(g *guest) { g.First, g.N = 0, 0 },
		"before":     func(g *guest) { g.Cursor.Set(uint64(0xffffffff)) },
		"not begun":  func(g *guest) { g.First = 4 },
		"after last": func(g *guest) { g.Cursor.Set(8) },
	} {
		g := newGuest()
		change(g)
		if r := g.Record(); r != -1 {
			t.Errorf("%s: record %d", name, r)
		}
		if _, err := g.call("mr", "put", 0, 0, 0, 0, 0); err != nil || g.env.Calls[0] != `put -1 0 "" ""` {
			t.Errorf("%s: %q, %v", name, g.env.Calls, err)
		}
		if _, err := g.call("mr", "fail", 0, 0); err == nil {
			t.Errorf("%s: fail doesn't trap", name)
		}
	}
}

func TestScanNext(t *testing.T) {
	g := newGuest()
	g.env.Values = map[string][]byte{"1/a": []byte("1"), "1/b": {}, "1/c": bytes.Repeat([]byte("x"), 100), "1/d": []byte("4")}
	it, _ := g.call("mr", "scan", 1, 0, 0)
	entry := func(k, v string) string {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(k)))
		return string(binary.LittleEndian.AppendUint32(b, uint32(len(v)))) + k + v
	}
	next := func(capacity uint64) (int32, string) {
		copy(g.Memory, bytes.Repeat([]byte{mask}, memoryBytes))
		n, err := g.call("mr", "scan_next", it, 64, capacity)
		if err != nil {
			t.Fatal(err)
		}
		if tail := g.Memory[64+capacity:]; !bytes.Equal(tail, bytes.Repeat([]byte{mask}, len(tail))) {
			t.Fatal("written behind the buffer")
		}
		return int32(uint32(n)), string(g.Memory[64:])
	}
	if n, _ := next(3); n != int32(abi.StatusTooSmall) || g.changed() != "" {
		t.Fatalf("3 bytes: %d, changed %s", n, g.changed())
	}
	if n, b := next(9); n != int32(abi.StatusTooSmall) || binary.LittleEndian.Uint32([]byte(b)) != 10 || b[4] != mask {
		t.Fatalf("9 bytes: %d, size %x", n, b[:8])
	}
	if n, b := next(10 + 9 + 8); n != 19 || b[:19] != entry("a", "1")+entry("b", "") {
		t.Fatalf("two entries: %d %q", n, b[:27])
	}
	if n, b := next(50); n != int32(abi.StatusTooSmall) || binary.LittleEndian.Uint32([]byte(b)) != 109 {
		t.Fatalf("a large one: %d", n)
	}
	if n, b := next(109); n != 109 || b[:109] != entry("c", strings.Repeat("x", 100)) {
		t.Fatalf("exactly: %d", n)
	}
	if n, b := next(1000); n != 10 || b[:10] != entry("d", "4") {
		t.Fatalf("the last: %d", n)
	}
	for range 2 {
		if n, _ := next(0); n != 0 {
			t.Fatalf("at the end: %d", n)
		}
	}
}

// TestFuel: bytes handled by the host are paid for.
func TestFuel(t *testing.T) {
	g := newGuest()
	g.Memory = make([]byte, 1<<20)
	before := g.fuel.v
	if _, err := g.call("mr", "put", 0, 0, 0, 0, 1<<19); err != nil {
		t.Fatal(err)
	}
	if paid := before - g.fuel.v; paid != 1<<19/16 {
		t.Errorf("%d units for half a MiB", paid)
	}
	before = g.fuel.v
	if _, err := g.call("mr", "put", 0, 0, 0, 0, 100); err != nil || g.fuel.v != before {
		t.Errorf("%d units for 100 bytes, %v", before-g.fuel.v, err)
	}
}

func TestStdio(t *testing.T) {
	g := newGuest()
	write := func(fd uint64, parts ...string) uint64 {
		at := 1024
		for i, p := range parts {
			binary.LittleEndian.PutUint32(g.Memory[8*i:], uint32(at))
			binary.LittleEndian.PutUint32(g.Memory[8*i+4:], uint32(len(p)))
			g.write(at, p)
			at += len(p)
		}
		n, err := g.call(wasi, "fd_write", fd, 0, uint64(len(parts)), 512)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := write(2, "half ", "a line"); n != errnoSuccess || len(g.env.Calls) != 0 || binary.LittleEndian.Uint32(g.Memory[512:]) != 11 {
		t.Fatalf("errno %d, calls %q", n, g.env.Calls)
	}
	write(1, "out\n")
	write(2, "\nmore\nrest")
	g.Stdio.Flush(g.Scope)
	want := []string{`log 3 1 "out"`, `log 3 2 "half a line"`, `log 3 2 "more"`, `log 3 2 "rest"`}
	if fmt.Sprint(g.env.Calls) != fmt.Sprint(want) {
		t.Errorf("calls %q, expected %q", g.env.Calls, want)
	}
	if tail := g.Stdio.Tail(); tail != "half a lineout\n\nmore\nrest" {
		t.Errorf("tail %q", tail)
	}
	if n := write(3, "x"); n != errnoBadFD {
		t.Errorf("fd 3: errno %d", n)
	}
	g.env.Calls = nil
	write(2, strings.Repeat("y", 2000)+"\n")
	if len(g.env.Calls) != 1 || len(g.env.Calls[0]) > abi.MaxLogLineBytes+20 {
		t.Errorf("%d calls for a long line", len(g.env.Calls))
	}
}

func TestPoll(t *testing.T) {
	g := newGuest()
	clear(g.Memory[:96])
	binary.LittleEndian.PutUint64(g.Memory, 77)
	binary.LittleEndian.PutUint64(g.Memory[48:], 88)
	g.Memory[56] = 1 // fd_read
	if n, err := g.call(wasi, "poll_oneoff", 0, 1024, 2, 512); n != errnoSuccess || err != nil {
		t.Fatal(n, err)
	}
	ev := g.Memory[1024:]
	if binary.LittleEndian.Uint64(ev) != 77 || ev[8] != 0 || binary.LittleEndian.Uint64(ev[32:]) != 88 || ev[40] != errnoBadFD || ev[42] != 1 || ev[64] != mask {
		t.Errorf("events %x", ev[:72])
	}
}

func TestUnrewrittenNextTraps(t *testing.T) {
	if _, err := newGuest().call("mr", "next", 0); err == nil {
		t.Error("no trap")
	}
}

// TestArbitraryArguments: no call panics otherwise than by an Abort, whatever a guest passes.
func TestArbitraryArguments(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	pick := func() uint64 {
		switch rng.IntN(4) {
		case 0:
			return uint64(rng.IntN(8))
		case 1:
			return uint64(rng.IntN(memoryBytes + 10))
		case 2:
			return uint64(^uint32(rng.IntN(64)))
		}
		return rng.Uint64()
	}
	defer func() {
		if x := recover(); x != nil {
			t.Fatalf("seed %d: %v", seed, x)
		}
	}()
	for _, name := range Names() {
		module, call, _ := strings.Cut(name, ".")
		f, _ := Lookup(module, call)
		g := newGuest()
		g.env.Quiet = true
		for range 3000 {
			for i := range 64 {
				g.Memory[rng.IntN(memoryBytes)] = byte(rng.Uint32() >> (i % 24))
			}
			args := make([]uint64, len(f.Params))
			for i := range args {
				args[i] = pick()
			}
			_, _ = g.call(module, call, args...)
		}
		if len(g.Memory) != memoryBytes {
			t.Fatal("memory replaced")
		}
	}
}

func TestNoAllocations(t *testing.T) {
	g := newGuest()
	g.env.Quiet = true
	g.Env = quiet{g.env}
	for name, args := range map[string][]uint64{"get": {0, 0, 0, 100, 8}, "put": {0, 0, 0, 100, 8}, "timer_set": {0, 0, 3, 9}, "log": {1, 0, 5}, "random": {0, 8}} {
		f, _ := Lookup("mr", name)
		stack := make([]uint64, 8)
		if n := testing.AllocsPerRun(100, func() {
			copy(stack, args)
			f.Call(g.Scope, stack)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// quiet is an Env whose calls allocate nothing.
type quiet struct{ guestop.Env }

func (quiet) Get(int, int, []byte) ([]byte, abi.Status)   { return nil, abi.StatusAbsent }
func (quiet) Put(int, int, []byte, []byte) abi.Status     { return 0 }
func (quiet) TimerSet(int, int, []byte, int64) abi.Status { return 0 }
func (quiet) Log(int, int, []byte)                        {}
func (quiet) Random(int, []byte)                          {}

// TestSignaturesMatchTheContract compares the table with what abi/version.go states.
func TestSignaturesMatchTheContract(t *testing.T) {
	i, l := api.ValueTypeI32, api.ValueTypeI64
	for name, want := range map[string][2][]api.ValueType{
		abi.CallNext: {{i}, {i}}, abi.CallFail: {{i, i}, nil}, abi.CallGet: {{i, i, i, i, i}, {l}}, abi.CallPut: {{i, i, i, i, i}, {i}},
		abi.CallDelete: {{i, i, i}, {i}}, abi.CallClear: {{i}, {i}}, abi.CallAppend: {{i, i, i}, {i}}, abi.CallScan: {{i, i, i}, {i}},
		abi.CallScanNext: {{i, i, i}, {i}}, abi.CallScanClose: {{i}, {i}}, abi.CallTimerSet: {{i, i, i, l}, {i}}, abi.CallTimerDelete: {{i, i, i, l}, {i}},
		abi.CallEmit: {{i, i, i}, {i}}, abi.CallLog: {{i, i, i}, nil}, abi.CallMetric: {{i, i, l}, {i}}, abi.CallRandom: {{i, i}, {i}},
	} {
		f, ok := Lookup(abi.ImportModule, name)
		if !ok || Signature(want[0], want[1]) != f.Signature() {
			t.Errorf("%s: %v, expected %s", name, f, Signature(want[0], want[1]))
		}
	}
}
