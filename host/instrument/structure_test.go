package instrument

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

func TestStartBecomesAnExport(t *testing.T) {
	e := newEngine(t, false)
	i := e.instance(t, rewrite(t, everySection().Bytes(), DefaultOptions()).Wasm)
	if len(e.calls) != 0 {
		t.Fatalf("the start function ran at instantiation: %v", e.calls)
	}
	if _, err := i.call(ExportStart); err == nil || i.get(GlobalFuel) >= 0 {
		t.Errorf("ran without fuel: err %v, fuel %d", err, i.get(GlobalFuel))
	}
	i.begin(100, 0, 0, 0)
	if _, err := i.call(ExportStart); err != nil || len(e.calls) != 1 {
		t.Errorf("err %v, calls %v", err, e.calls)
	}
	if used := 100 - i.get(GlobalFuel); used < weightHostCall || used > weightHostCall+10 {
		t.Errorf("used %d units for one host call", used)
	}
}

// next is reached by call, export, table and ref.func in a global, and is the inner one each time.
func TestEveryWayToNextIsRedirected(t *testing.T) {
	m := everySection()
	m.ExportFunc("viaRef", i32s, i32s, nil,
		wt.I32Const(1), wt.GlobalGet(1), wt.Op(0x26, 0), // table.set 0
		wt.LocalGet(0), wt.I32Const(1), wt.CallIndirect(m.Type(i32s, i32s)))
	m.ExportFunc("viaCode", i32s, i32s, nil,
		wt.I32Const(1), wt.RefFunc(0), wt.Op(0x26, 0),
		wt.LocalGet(0), wt.I32Const(1), wt.CallIndirect(m.Type(i32s, i32s)))
	m.ExportFunc("viaTable", i32s, i32s, nil, wt.LocalGet(0), wt.I32Const(0), wt.CallIndirect(m.Type(i32s, i32s)))
	r := rewrite(t, m.Bytes(), DefaultOptions())
	i := newEngine(t, false).instance(t, r.Wasm)
	for _, name := range []string{"next", "viaRef", "viaCode", "viaTable"} {
		i.begin(plenty, plenty, plenty, 7)
		if _, err := i.call(name, 7); err != nil || i.get(GlobalCursor) != 7 {
			t.Errorf("%s: err %v, cursor %d", name, err, i.get(GlobalCursor))
		}
		if _, err := i.call(name, 9); err == nil || i.get(GlobalMisuse) != 1 {
			t.Errorf("%s: next(9) after next(7): err %v", name, err)
		}
	}
	if r.FuncName(r.NextFunc) != "mr.next" || r.FuncName(3) != "run" || r.NextCalls != 1 {
		t.Errorf("names %q, %q, %d calls", r.FuncName(r.NextFunc), r.FuncName(3), r.NextCalls)
	}
}

func TestHiddenGlobalsAreExported(t *testing.T) {
	m := &wt.Module{}
	m.Global(wt.I32, false, wt.I32Const(1))
	m.Global(wt.I32, true, wt.I32Const(2))
	m.Global(wt.F64, true, wt.F64Const(2.5))
	m.Export("mine", wt.KindGlobal, 2)
	r := rewrite(t, m.Bytes(), DefaultOptions())
	want := []Global{{1, I32, "__mr_g1"}, {2, F64, "mine"}}
	if len(r.Globals) != 2 || r.Globals[0] != want[0] || r.Globals[1] != want[1] {
		t.Fatalf("globals %v, expected %v", r.Globals, want)
	}
	i := newEngine(t, false).instance(t, r.Wasm)
	if i.get("__mr_g1") != 2 || api.DecodeF64(i.ExportedGlobal("mine").Get()) != 2.5 {
		t.Errorf("values %d, %v", i.get("__mr_g1"), i.ExportedGlobal("mine"))
	}
}

func TestTablesAndMemoriesGrowWithinTheirLimits(t *testing.T) {
	m := &wt.Module{Memories: []wt.Memory{{Min: 1, Max: 65536}}, Tables: []wt.Table{{Min: 10}}}
	m.ExportFunc("table", i32s, i32s, nil, wt.Op(0xd0, wt.FuncRef), wt.LocalGet(0), wt.TableGrow(0))
	m.ExportFunc("memory", i32s, i32s, nil, wt.LocalGet(0), wt.MemoryGrow)
	i := newEngine(t, false).instance(t, rewrite(t, m.Bytes(), Options{Fuel: true, TableEntries: 1000}).Wasm)
	for _, c := range []struct {
		fn       string
		by       uint64
		want     int32
		min, max int64 // fuel
	}{
		{"table", 990, 10, 990, 1100}, {"table", 1, -1, 1, 100}, {"table", 1 << 31, -1, 1, 100},
		{"memory", 3, 1, 3 << 10, 3<<10 + 100}, {"memory", 65_535, -1, 1, 100}, {"memory", 1020, 4, 1020 << 10, 1021 << 10},
		{"memory", 1, -1, 1, 100},
	} {
		i.begin(plenty, 0, 0, 0)
		r, err := i.call(c.fn, c.by)
		if err != nil || int32(r[0]) != c.want {
			t.Errorf("%s.grow(%d) = %v, %v, expected %d", c.fn, c.by, r, err, c.want)
		}
		if used := plenty - i.get(GlobalFuel); used < c.min || used > c.max {
			t.Errorf("%s.grow(%d) took %d units, expected %d to %d", c.fn, c.by, used, c.min, c.max)
		}
	}
}

func TestBulkInstructionsAreChargedByLength(t *testing.T) {
	m := &wt.Module{Memories: []wt.Memory{{Min: 16}}}
	m.ExportFunc("fill", i32s, nil, nil, wt.I32Const(0), wt.I32Const(1), wt.LocalGet(0), wt.MemoryFill)
	m.ExportFunc("padded", i32s, nil, nil, wt.I32Const(0), wt.I32Const(64), wt.LocalGet(0), wt.Op(0xfc, 0x8a, 0x00, 0, 0))
	m.ExportFunc("constant", nil, nil, nil, wt.I32Const(0), wt.I32Const(64), wt.I32Const(800), wt.MemoryCopy)
	for _, interpreter := range []bool{false, true} {
		i := newEngine(t, interpreter).instance(t, rewrite(t, m.Bytes(), DefaultOptions()).Wasm)
		for _, c := range []struct {
			fn   string
			args []uint64
			len  int64
		}{{"fill", []uint64{1 << 20}, 1 << 20}, {"padded", []uint64{1 << 19}, 1 << 19}, {"constant", nil, 800}} {
			i.begin(plenty, 0, 0, 0)
			if _, err := i.call(c.fn, c.args...); err != nil {
				t.Fatal(err)
			}
			if used := plenty - i.get(GlobalFuel); used < c.len>>bulkShift || used > c.len>>bulkShift+40 {
				t.Errorf("%s of %d bytes took %d units", c.fn, c.len, used)
			}
		}
		i.begin(1000, 0, 0, 0)
		if _, err := i.call("fill", 1<<20); err == nil || i.get(GlobalFuel) >= 0 {
			t.Errorf("filled 1 MiB on 1,000 units: err %v", err)
		}
		if b, _ := i.Memory().ReadByte(1 << 19); b != 1 {
			continue
		}
		i.Memory().WriteByte(5, 9)
		if _, err := i.call("fill", 1<<20); err == nil {
			t.Error("filled again without fuel")
		} else if b, _ := i.Memory().ReadByte(5); b != 9 {
			t.Error("the fill ran before its charge was tested")
		}
	}
}

func TestCustomSectionsAndDataSegments(t *testing.T) {
	wasm := everySection().Bytes()
	m, err := Validate(wasm, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Customs["mr.descriptor"], []byte(`{"abi":0}`)) || !m.HasStart || !m.PassiveSegments {
		t.Errorf("module %+v", m)
	}
	r, _ := Rewrite(wasm, m, DefaultOptions())
	if !bytes.Contains(r.Wasm, []byte("mr.descriptor")) || bytes.Contains(r.Wasm, []byte("producers")) {
		t.Error("expected the section mr.descriptor and no other custom section")
	}
	if _, err := Rewrite(wasm, m, Options{DropData: true}); err == nil || !strings.Contains(err.Error(), "data segments") {
		t.Errorf("passive segments dropped: err %v", err)
	}
	plain := &wt.Module{Memories: []wt.Memory{{Min: 1}}, Datas: []wt.Data{{Bytes: []byte("secret")}}}
	plain.Export("memory", wt.KindMemory, 0)
	if image := rewrite(t, plain.Bytes(), Options{DropData: true}).Wasm; bytes.Contains(image, []byte("secret")) {
		t.Error("data segments are still there")
	}
	if _, err := Rewrite(wasm[:len(wasm)-1], m, DefaultOptions()); err == nil {
		t.Error("rewrote bytes that were not validated")
	}
}

func TestNextOfAnotherTypeIsRefused(t *testing.T) {
	m := &wt.Module{}
	m.Import("mr", "next", nil, nil)
	mod, err := Validate(m.Bytes(), DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Rewrite(m.Bytes(), mod, DefaultOptions()); err == nil || !strings.Contains(err.Error(), "(i32) -> (i32)") {
		t.Errorf("err %v", err)
	}
}

// A module without any of the sections that the rewriter extends, and the empty module.
func TestMissingSectionsAreMade(t *testing.T) {
	only := &wt.Module{}
	only.Import("mr", "next", i32s, i32s)
	for name, wasm := range map[string][]byte{"import only": only.Bytes(), "empty": wt.Header} {
		r := rewrite(t, wasm, DefaultOptions())
		i := newEngine(t, false).instance(t, r.Wasm)
		if i.get(GlobalCursor) != -1 || i.get(GlobalPrologue) != -1 || i.get(GlobalFuel) != 0 {
			t.Errorf("%s: initial values", name)
		}
		if err := i.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
