package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	w "github.com/millrace-io/millrace/host/instrument/wasmtest"
	"github.com/millrace-io/millrace/operators/guestop"
)

var (
	i32s = func(n int) []byte { return []byte(strings.Repeat(string([]byte{w.I32}), n)) }
	none []byte
)

const smallest = `{"abi":0,"functions":[{"name":"f","kind":"map"}]}`

// assemble makes a module that keeps the contract and drops every record; change may add to it, before
// the functions and after them.
func assemble(before, after func(m *w.Module)) []byte {
	m := &w.Module{Memories: []w.Memory{{Min: 32}}}
	next := m.Import("mr", "next", i32s(1), i32s(1))
	if before != nil {
		before(m)
	}
	bump := m.Global(w.I32, true, w.I32Const(1024))
	m.ExportFunc(abi.ExportVersion, none, none, nil)
	m.ExportFunc(abi.ExportAlloc, i32s(1), i32s(1), nil,
		w.GlobalGet(bump), w.GlobalGet(bump), w.LocalGet(0), w.Op(0x6a), w.GlobalSet(bump))
	const in, out, first, n = 0, 2, 4, 5
	m.ExportFunc(abi.ExportProcess, i32s(5), i32s(1), i32s(1),
		w.LocalGet(in), w.I32Load(abi.BlockN), w.LocalSet(n),
		w.Block(w.Void), w.Loop(w.Void),
		w.LocalGet(first), w.Call(next), w.BrIf(1),
		w.LocalGet(first), w.LocalGet(n), w.Op(0x4f), w.BrIf(1),
		w.LocalGet(first), w.I32Const(1), w.Op(0x6a), w.LocalSet(first), w.Br(0),
		w.Op(0x0b), w.Op(0x0b),
		w.LocalGet(out), w.LocalGet(first), w.I32Store(abi.OutConsumed),
		w.LocalGet(out), w.I32Const(0), w.I32Store(abi.OutBytes),
		w.LocalGet(out), w.I32Const(0), w.I32Store(abi.OutFrames),
		w.LocalGet(first), w.LocalGet(n), w.Op(0x49))
	m.Export(abi.ExportMemory, w.KindMemory, 0)
	m.Customs = []w.Custom{{Name: abi.DescriptorSection, Bytes: []byte(smallest)}}
	if after != nil {
		after(m)
	}
	return m.Bytes()
}

func compile(t *testing.T, wasm []byte, d *abi.Descriptor) (guestop.Module, error) {
	t.Helper()
	m, err := newEngine(t, Options{FuelPerInit: 64 << 20}).Compile(context.Background(), wasm, d)
	if err == nil {
		t.Cleanup(func() {
			if err := m.(*Module).Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return m, err
}

func run(t *testing.T, m guestop.Module, values ...string) guestop.Outcome {
	t.Helper()
	g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	block := enginetest.Block(enginetest.Values(values...), 0)
	in, err := g.In(len(block))
	if err != nil {
		t.Fatal(err)
	}
	copy(in, block)
	return g.Call(len(block), 0)
}

func TestAssembled(t *testing.T) {
	m, err := compile(t, assemble(nil, nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := run(t, m, "a", "b"); o.Fault != nil || o.Consumed != 2 {
		t.Fatalf("outcome %+v, fault %v", o, o.Fault)
	}
}

// TestRefused is C046 and the refusal of C043: all problems at once, with what was expected.
func TestRefused(t *testing.T) {
	renamed := func(from, to string) func(m *w.Module) {
		return func(m *w.Module) {
			for i := range m.Exports {
				if m.Exports[i].Name == from {
					m.Exports[i].Name = to
				}
			}
		}
	}
	for name, c := range map[string]struct {
		wasm []byte
		want []string
	}{
		"text":       {[]byte("(module)"), []string{"not a WebAssembly|magic"}},
		"nothing":    {nil, []string{"empty"}},
		"no exports": {(&w.Module{}).Bytes(), []string{"mr_abi_v0 () -> () is missing", "mr_alloc (i32) -> (i32) is missing", "mr_process (i32, i32, i32, i32, i32) -> (i32) is missing", `"memory" of the linear memory`}},
		"signature": {assemble(nil, func(m *w.Module) {
			m.Funcs[2].Type, m.Funcs[2].Body = m.Type(i32s(1), i32s(1)), w.I32Const(0)
			m.Funcs[2].Locals = i32s(5)
		}), []string{"export mr_process has type (i32) -> (i32), expected (i32, i32, i32, i32, i32) -> (i32)"}},
		"typos": {assemble(func(m *w.Module) {
			m.Import("env", "stat_get", i32s(1), i32s(1))
			m.Import("mr", "timerset", i32s(1), none)
			m.Import("mr", "put", i32s(4), i32s(1))
			m.Import("wasi_snapshot_preview1", "sock_accept", i32s(3), i32s(1))
		}, renamed(abi.ExportAlloc, "mr_aloc")), []string{
			"import env.stat_get is not offered",
			"import mr.timerset is not offered, did you mean mr.timer_set",
			"import mr.put has type (i32, i32, i32, i32) -> (i32), expected (i32, i32, i32, i32, i32) -> (i32)",
			"sock_accept is not offered",
			"export mr_alloc (i32) -> (i32) is missing, did you mean mr_aloc?",
		}},
		"version":  {assemble(nil, renamed(abi.ExportVersion, "mr_abi_v7")), []string{"mr_abi_v0 () -> () is missing", "built for ABI v7, this host runs v0"}},
		"reserved": {assemble(nil, renamed(abi.ExportVersion, "__mr_fuel")), []string{"__mr_fuel"}},
		"command":  {command(), []string{"the module is a command", "-buildmode=c-shared"}},
		"large":    {assemble(nil, func(m *w.Module) { m.Memories[0].Min = 10_000 }), []string{"memory"}},
		"times": {described(`{"abi":0,"functions":[{"name":"f","kind":"process","keyed":true,"states":[{"name":"s","kind":"value","ttl":{"ms":0}},{"name":"t","kind":"map","ttl":{"ms":5,"domain":"wall"}},{"name":"u","kind":"list","ttl":{"ms":5,"refresh":"look"}}]},{"name":"w","kind":"watermark","keyed":true}]}`),
			[]string{"state s: a TTL is at least 1 ms", "state t: the domain of a TTL", "state u: the refresh of a TTL", "a watermark function has no key"}},
		"descriptor": {described(`{"abi":0,"functions":[{"name":"f","kind":"mapp"},{"name":"f","kind":"process","states":[{"name":"s","kind":"tree"}]}]}`), []string{`kind "mapp" is unknown`, "did you mean map", `name "f" is empty or used twice`, `kind "tree"`, "not keyed"}},
		"json":       {described(`{"abi":`), []string{"is not a descriptor"}},
		"silent":     {assemble(nil, func(m *w.Module) { m.Customs = nil }), []string{"doesn't say what it offers"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := compile(t, c.wasm, nil)
			var r *Refused
			if !errors.As(err, &r) {
				t.Fatalf("error %v, expected a *Refused", err)
			}
			for _, want := range c.want {
				found := false
				for _, alternative := range strings.Split(want, "|") {
					found = found || strings.Contains(err.Error(), alternative)
				}
				if !found {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			report, err := Inspect(c.wasm)
			if err != nil || name != "silent" && len(report.Problems) < len(r.Problems) {
				t.Errorf("inspect: %v, problems %q", err, report.Problems)
			}
		})
	}
}

func command() []byte {
	m := &w.Module{Memories: []w.Memory{{Min: 1}}}
	m.ExportFunc("_start", none, none, nil)
	m.Export(abi.ExportMemory, w.KindMemory, 0)
	return m.Bytes()
}

func described(json string) []byte {
	return assemble(nil, func(m *w.Module) { m.Customs[0].Bytes = []byte(json) })
}

// exporting replaces the descriptor section by mr_describe with a body.
func exporting(body ...[]byte) []byte {
	return assemble(nil, func(m *w.Module) {
		m.Customs = nil
		m.Datas = []w.Data{{Offset: 16, Bytes: []byte(smallest)}}
		m.ExportFunc(abi.ExportDescribe, none, []byte{w.I64}, nil, body...)
	})
}

func TestDescriptorSources(t *testing.T) {
	m, err := compile(t, exporting(w.I64Const(16<<32|int64(len(smallest)))), nil)
	if err != nil || m.Descriptor().Functions[0].Name != "f" {
		t.Fatalf("by %s: %v", abi.ExportDescribe, err)
	}
	given := &abi.Descriptor{Functions: []abi.Function{{Name: "given", Kind: abi.FunctionMap}}}
	m, err = compile(t, assemble(nil, func(m *w.Module) { m.Customs = nil }), given)
	if err != nil || m.Descriptor().Functions[0].Name != "given" {
		t.Fatalf("given: %v", err)
	}
	if m, err = compile(t, assemble(nil, nil), given); err != nil || m.Descriptor().Functions[0].Name != "f" {
		t.Fatalf("the module's own comes first: %v", err)
	}
	for text, body := range map[string][]byte{
		"out of fuel":        w.Code(w.Loop(w.Void), w.Br(0), w.Op(0x0b), w.Op(0x00)),
		"unreachable":        w.Op(0x00),
		"outside the memory": w.I64Const(-1<<32 | 100),
		"at most":            w.I64Const(16<<32 | 1<<31),
		"is not a":           w.I64Const(16<<32 | 5),
	} {
		if _, err := compile(t, exporting(body), nil); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, expected %q", err, text)
		}
	}
}

// TestStart: the start section runs under fuel, before _initialize, and next traps in it.
func TestStart(t *testing.T) {
	with := func(body ...[]byte) []byte {
		return assemble(nil, func(m *w.Module) {
			f := m.Func(none, none, nil, body...)
			m.Start = &f
			m.ExportFunc(abi.ExportInitialize, none, none, nil, // traps unless the start section has run
				w.I32Const(8), w.I32Load(0), w.Op(0x45), w.If(w.Void), w.Op(0x00), w.Op(0x0b))
		})
	}
	m, err := compile(t, with(w.I32Const(8), w.I32Const(1), w.I32Store(0)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := run(t, m, "a"); o.Fault != nil {
		t.Fatal(o.Fault)
	}
	for kind, body := range map[guestop.FaultKind][]byte{
		guestop.FaultFuel:     w.Code(w.Loop(w.Void), w.Br(0), w.Op(0x0b)),
		guestop.FaultTrap:     w.Op(0x00),
		guestop.FaultProtocol: w.Code(w.I32Const(0), w.Call(0), w.Op(0x1a)),
	} {
		m, err := compile(t, with(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
		var f *guestop.Fault
		if !errors.As(err, &f) || f.Kind != kind || f.Record != -1 {
			t.Errorf("error %v, expected %s outside any record", err, kind)
		}
	}
}

// TestBadAlloc: what mr_alloc returns is checked.
func TestBadAlloc(t *testing.T) {
	for _, p := range []int32{0, -1, -16, 32*pageBytes - 8, 32*pageBytes - 256<<10, 33 * pageBytes} {
		m, err := compile(t, assemble(nil, func(m *w.Module) { m.Funcs[1].Body = w.I32Const(p) }), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
		var f *guestop.Fault
		if !errors.As(err, &f) || f.Kind != guestop.FaultProtocol {
			t.Errorf("mr_alloc gives %#x: error %v", uint32(p), err)
		}
	}
}

// TestTableChangerIsReplaced: an image doesn't hold tables, so such a module gets a new instance.
func TestTableChangerIsReplaced(t *testing.T) {
	m, err := compile(t, assemble(nil, func(m *w.Module) {
		m.Tables = []w.Table{{Elem: w.FuncRef, Min: 1, Max: 4}}
		m.Func(none, none, nil, w.Op(0xd0, w.FuncRef), w.I32Const(1), w.TableGrow(0), w.Op(0x1a))
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for range 2 {
		before := g.(*Guest).module
		if err := g.Reset(); err != nil {
			t.Fatal(err)
		}
		if g.(*Guest).module == before {
			t.Error("reset in place")
		}
	}
}

func TestInspect(t *testing.T) {
	r, err := Inspect(cases.Module("kitchen"))
	if err != nil || len(r.Problems) > 0 {
		t.Fatal(err, r.Problems)
	}
	if r.ABI != 0 || r.Descriptor.Name != "kitchen" || r.Functions < 5 || r.RewrittenBytes == 0 || r.NextCalls == 0 || !r.ResetsInPlace || r.Memory.MinBytes == 0 {
		t.Errorf("report %+v", r)
	}
	if !contains(r.Imports, "mr.get (i32, i32, i32, i32, i32) -> (i64)") || !contains(r.Exports, "mr_process (i32, i32, i32, i32, i32) -> (i32)") || !contains(r.Exports, "memory memory") {
		t.Errorf("imports %q, exports %q", r.Imports, r.Exports)
	}
}

// buildGoGuest compiles testdata/goguest with the Go that runs the test.
func buildGoGuest(t *testing.T) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a Go guest")
	}
	out := filepath.Join(t.TempDir(), "guest.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, "./testdata/goguest")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

func newGoGuest(t *testing.T, m guestop.Module) *kitchen {
	t.Helper()
	env := enginetest.NewEnv()
	g, err := m.New(env, guestop.InstanceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return &kitchen{t, g.(*Guest), env}
}

// TestGoGuest is C043 with a real runtime: a package-level map filled in init, on every instance, and
// instances that went back to an image give the outputs and the bill of a fresh one.
func TestGoGuest(t *testing.T) {
	m, err := compile(t, buildGoGuest(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	used, fresh := newGoGuest(t, m), newGoGuest(t, m)
	for i := range 4 {
		out := used.ask("one", "two", "nine")
		if string(out[0].Value) != "1 init 1" || string(out[1].Value) != "2 init 1" || string(out[2].Value) != "0 init 1" {
			t.Fatalf("instance %d: %q %q %q", i, out[0].Value, out[1].Value, out[2].Value)
		}
		f := used.fault(guestop.FaultTrap, 1, "one", "panic")
		if !strings.Contains(f.Stderr, "panic: as asked") || !strings.Contains(strings.Join(f.Stack, "\n"), "mr_process") {
			t.Fatalf("fault %v", f)
		}
		used.reset()
	}
	size := used.Memory()
	used.ask("grow")
	if used.Memory() <= size {
		t.Fatal("memory did not grow")
	}
	used.reset()
	if used.Memory() != size {
		t.Fatalf("%d bytes of memory after a reset, expected %d", used.Memory(), size)
	}
	sameFrom(t, used, fresh)
}

// sameFrom gives both the same records and expects the same outputs, fuel and memory.
func sameFrom(t *testing.T, a, b *kitchen) {
	t.Helper()
	for i := range 50 {
		values := []string{"one", fmt.Sprint("number ", i), "two", strings.Repeat("long ", i)}
		bill := func(k *kitchen) string {
			o := k.Call(k.fill(0, 0, values...), 0)
			if o.Fault != nil {
				t.Fatal(o.Fault)
			}
			return fmt.Sprintf("fuel %d, memory %d, outputs %x", o.Fuel, k.Memory(), k.Out())
		}
		if x, y := bill(a), bill(b); x != y {
			t.Fatalf("call %d: %s, a fresh instance: %s", i, x, y)
		}
	}
}

// TestImageIsExact is the same for a small guest.
func TestImageIsExact(t *testing.T) {
	used, fresh := newKitchen(t, Options{}, guestop.InstanceOptions{}), newKitchen(t, Options{}, guestop.InstanceOptions{})
	for _, before := range []string{"b", "c", "G" + u32(5), "l", "m", "c"} {
		used.Call(used.fill(0, 0, "c", before), 0)
		used.reset()
	}
	for range 10 {
		values := []string{"c", "e123", "q" + u32(77), "G" + u32(1), "s", "c"}
		bill := func(k *kitchen) string {
			o := k.Call(k.fill(0, 0, values...), 0)
			if o.Fault != nil {
				t.Fatal(o.Fault)
			}
			return fmt.Sprintf("fuel %d, memory %d, outputs %x", o.Fuel, k.Memory(), k.Out())
		}
		if x, y := bill(used), bill(fresh); x != y {
			t.Fatalf("%s, a fresh instance: %s", x, y)
		}
	}
}

// TestResetWhoseInitialisationFails: the fault comes out, and the instance is closed for good.
func TestResetWhoseInitialisationFails(t *testing.T) {
	m, err := compile(t, assemble(func(m *w.Module) { m.Import("mr", "random", i32s(2), i32s(1)) }, func(m *w.Module) {
		m.ExportFunc(abi.ExportInitialize, none, none, nil, // traps if the first random byte is not 0
			w.I32Const(8), w.I32Const(1), w.Call(1), w.Op(0x1a),
			w.I32Const(8), w.I32Load8U(0), w.If(w.Void), w.Op(0x00), w.Op(0x0b))
	}), nil)
	if err != nil {
		t.Fatal(err)
	}
	env := &fixedRandom{Env: enginetest.NewEnv()}
	g, err := m.New(env, guestop.InstanceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	env.b = 1
	var f *guestop.Fault
	if err := g.Reset(); !errors.As(err, &f) || f.Export != abi.ExportInitialize {
		t.Fatalf("error %v", err)
	}
	if err := g.Reset(); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v of the next reset", err)
	}
	g.Stop()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

type fixedRandom struct {
	*enginetest.Env
	b byte
}

func (r *fixedRandom) Random(_ int, b []byte) {
	for i := range b {
		b[i] = r.b
	}
}

// TestData: what is in memory from the start, in every way to get there, and segments outside it.
func TestData(t *testing.T) {
	build := func(datas ...w.Data) []byte {
		return assemble(nil, func(m *w.Module) {
			m.Datas = datas
			m.ExportFunc(abi.ExportInitialize, none, none, nil, // traps unless the u32 at 65,534 is "abcd"
				w.I32Const(65534), w.I32Load(0), w.I32Const(0x64636261), w.Op(0x47), w.If(w.Void), w.Op(0x00), w.Op(0x0b))
		})
	}
	for name, c := range map[string]struct {
		wasm []byte
		text string
	}{
		"one":                {build(w.Data{Offset: 65534, Bytes: []byte("abcd")}), ""},
		"overlapping":        {build(w.Data{Offset: 65530, Bytes: []byte("________")}, w.Data{Offset: 65534, Bytes: []byte("abcd")}), ""},
		"with a passive one": {build(w.Data{Offset: 65534, Bytes: []byte("abcd")}, w.Data{Passive: true, Bytes: []byte("x")}), ""},
		"at the end":         {build(w.Data{Offset: 65534, Bytes: []byte("abcd")}, w.Data{Offset: 32*pageBytes - 2, Bytes: []byte("ab")}), ""},
		"outside":            {build(w.Data{Offset: 32*pageBytes - 2, Bytes: []byte("abc")}), "outside the memory"},
		"far outside":        {build(w.Data{Offset: 0xfffffff0, Bytes: []byte("abc")}), "outside the memory"},
		"none":               {build(), "unreachable"},
	} {
		m, err := compile(t, c.wasm, nil)
		if err == nil {
			var g guestop.Guest
			if g, err = m.New(enginetest.NewEnv(), guestop.InstanceOptions{}); err == nil {
				for range 3 {
					err = errors.Join(err, g.Reset())
				}
				err = errors.Join(err, g.Close())
			}
		}
		if c.text == "" && err != nil || c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: error %v, expected %q", name, err, c.text)
		}
	}
}

// TestCommittedModules: every module in the tree is accepted, starts and takes an empty block.
func TestCommittedModules(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../examples/*/*.wasm", "../../guests/cases/*/*.wasm"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 2 {
		t.Fatalf("modules %q", files)
	}
	for _, file := range files {
		wasm, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := Inspect(wasm); err != nil || len(r.Problems) > 0 || r.Descriptor == nil || !r.ResetsInPlace {
			t.Errorf("%s: %v, problems %q, descriptor %v", file, err, r.Problems, r.Descriptor)
			continue
		}
		m, err := compile(t, wasm, nil)
		if err != nil {
			t.Fatal(err)
		}
		if o := run(t, m); o.Fault != nil || o.Consumed != 0 {
			t.Errorf("%s: outcome %+v, fault %v", file, o, o.Fault)
		}
	}
}
