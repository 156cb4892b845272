package instrument

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// join puts sections behind a header.
func join(sections ...[]byte) []byte { return append(bytes.Clone(wt.Header), wt.Code(sections...)...) }

// oneBody is a module with a function () -> () of this body, a memory, a table and a global constant.
func oneBody(body ...[]byte) []byte {
	m := &wt.Module{Memories: []wt.Memory{{Min: 1}}, Tables: []wt.Table{{Min: 1}}}
	m.Global(wt.I32, false, wt.I32Const(1))
	m.ExportFunc("f", nil, nil, []byte{wt.I32, wt.I64}, body...)
	return m.Bytes()
}

var voidType = wt.Section(1, wt.Vec([]byte{0x60, 0, 0}))

type refusal struct {
	name    string
	wasm    []byte
	code    string
	section string
	says    string // part of the message
}

// refusals are modules that must be refused: M1 to M29 of the list of bad inputs as far as they are the
// validator's, and one for each rule of the type checker.
func refusals() []refusal {
	nested := func(n int) []byte {
		return oneBody(wt.Times(n, wt.Block(wt.Void)), wt.Times(n, wt.End))
	}
	labels := make([]uint32, 1_000_000)
	twoTypes := wt.Section(1, wt.Vec([]byte{0x60, 0, 0}))
	named := func(name string) []byte {
		m := &wt.Module{}
		m.ExportFunc(name, nil, nil, nil)
		return m.Bytes()
	}
	importing := func(kind ...byte) []byte {
		return join(voidType, wt.Section(2, wt.Vec(wt.Code(wt.Name("mr"), wt.Name("x"), kind))))
	}
	return []refusal{
		{"M1 empty", nil, CodeEmpty, "header", "empty"},
		{"M2 text", []byte("hello, world"), CodeMagic, "header", "00 61 73 6d"},
		{"M3 version 2", []byte("\x00asm\x02\x00\x00\x00"), CodeVersion, "header", "expected 1"},
		{"M3 component", []byte("\x00asm\x0d\x00\x01\x00"), CodeComponent, "header", "core module"},
		{"M4 header cut", []byte("\x00asm\x01"), CodeTruncated, "header", "header"},
		{"M4 type section cut", join([]byte{1, 10, 1}), CodeTruncated, "type", "10 bytes"},
		{"M5 trailing bytes", append(oneBody(), 1, 2, 3), CodeTruncated, "type", ""},
		{"M5 trailing bytes in a section", join(wt.Section(1, []byte{1, 0x60, 0, 0, 9})), CodeSectionLength, "type", "1 bytes are left"},
		{"M6 gzip", []byte("\x1f\x8b\x08\x00aaaaaaaa"), CodeMagic, "header", "gzip"},
		{"M6 zstd", []byte("\x28\xb5\x2f\xfdaaaaaaaa"), CodeMagic, "header", "zstd"},
		{"M7 too large", make([]byte, 8<<20+1), "limit-module", "header", "8388608"},
		{"M9 function count lies", join(voidType, wt.Section(3, wt.U32(1<<27))), "limit-functions", "function", "134217728"},
		{"M9 type count lies", join(wt.Section(1, wt.U32(9_999))), CodeTruncated, "type", "9999 types"},
		{"M9 body count lies", join(wt.Section(10, wt.U32(1<<27))), CodeTruncated, "code", "134217728 bodies"},
		{"M9 data count lies", join(wt.Section(12, wt.U32(1<<27))), CodeDataCount, "data", "134217728"},
		{"M10 overlong LEB", join(wt.Section(1, []byte{0x81, 0x80, 0x80, 0x80, 0x80, 0})), CodeLEB, "type", "32 bits"},
		{"M10 large LEB", join(wt.Section(1, []byte{0xff, 0xff, 0xff, 0xff, 0x1f})), CodeLEB, "type", "32 bits"},
		{"M10 i32.const too long", oneBody([]byte{0x41, 0x80, 0x80, 0x80, 0x80, 0x08}, wt.Drop), CodeLEB, "code", "signed"},
		{"M11 duplicate section", join(voidType, twoTypes), CodeSectionOrder, "type", "second"},
		{"M11 order", join(wt.Section(3, []byte{0}), voidType), CodeSectionOrder, "type", "behind"},
		{"M11 unknown section", join([]byte{14, 0}), CodeSectionID, "header", "14"},
		{"M12 operand type", oneBody(wt.I64Const(1), wt.I32Eqz, wt.Drop), CodeType, "code", "takes i32, the operand has type i64"},
		{"M12 missing operand", oneBody(wt.I32Add, wt.Drop), CodeStack, "code", "empty"},
		{"M12 left over", oneBody(wt.I32Const(1)), CodeStack, "code", "left over"},
		{"M13 2^26 locals", join(voidType, wt.Section(3, []byte{1, 0}),
			wt.Section(10, wt.Vec([]byte{8, 1, 0x80, 0x80, 0x80, 0x20, wt.I64, 0x0b, 0x0b}))), "limit-locals", "code", "67108864"},
		{"M14 nesting", nested(100_000), "limit-nesting", "code", "4097"},
		{"M15 br_table", oneBody(wt.I32Const(0), wt.BrTable(labels...)), "limit-br-table", "code", "8192"},
		{"M16 functions", join(voidType, wt.Section(3, append(wt.U32(1_000_000), make([]byte, 1_000_000)...))), "limit-functions", "function", "1000000"},
		{"M17 table minimum", join(wt.Section(4, []byte{1, wt.FuncRef, 0, 0xff, 0xff, 0x7f})), "limit-table", "table", "65536"},
		{"M18 memory minimum", join(wt.Section(5, wt.Vec([]byte{0, 0x81, 8}))), "limit-memory", "memory", "1025"},
		{"M19 memory64", join(wt.Section(5, []byte{1, 4, 1})), CodeFeature, "memory", "memory64"},
		{"M19 threads", join(wt.Section(5, []byte{1, 3, 1, 1})), CodeFeature, "memory", "threads"},
		{"M19 SIMD", oneBody(wt.Op(0xfd, 0x0f)), CodeFeature, "code", "SIMD"},
		{"M19 GC", oneBody(wt.Op(0xfb, 0)), CodeFeature, "code", "garbage"},
		{"M19 atomics", oneBody(wt.Op(0xfe, 0)), CodeFeature, "code", "threads"},
		{"M19 exceptions", oneBody(wt.Op(0x1f, 0x40, 0)), CodeFeature, "code", "exception"},
		{"M19 tail call", oneBody(wt.Op(0x12, 0)), CodeFeature, "code", "tail"},
		{"M19 two memories", join(wt.Section(5, []byte{2, 0, 1, 0, 1})), CodeFeature, "memory", "multi-memory"},
		{"M19 tag section", join(wt.Section(13, []byte{0})), CodeFeature, "tag", "exception"},
		{"M28 reserved export", named("__mr_fuel"), CodeReserved, "export", "__mr_fuel"},
		{"M29 bad UTF-8", named("a\xff"), CodeUTF8, "export", "UTF-8"},
		{"imported memory", importing(2, 0, 1), CodeImportKind, "import", "memory"},
		{"imported global", importing(3, wt.I32, 0), CodeImportKind, "import", "global"},
		{"import of no type", importing(0, 7), CodeIndex, "import", "type 7"},
		{"unknown opcode", oneBody(wt.Op(0x27)), CodeOpcode, "code", "0x27"},
		{"unknown opcode after prefix", oneBody(wt.Op(0xfc, 18)), CodeOpcode, "code", "18"},
		{"global one past the end", oneBody(wt.I32Const(0), wt.GlobalSet(1)), CodeIndex, "code", "global 1"},
		{"call one past the end", oneBody(wt.Call(1)), CodeIndex, "code", "function 1"},
		{"set of a constant", oneBody(wt.I32Const(0), wt.GlobalSet(0)), CodeImmutable, "code", "constant"},
		{"no such local", oneBody(wt.LocalGet(2), wt.Drop), CodeIndex, "code", "local 2"},
		{"no such label", oneBody(wt.Br(1)), CodeIndex, "code", "label 1"},
		{"else without if", oneBody(wt.Block(wt.Void), wt.Else, wt.End), CodeControl, "code", "else"},
		{"block not closed", oneBody(wt.Block(wt.Void)), CodeControl, "code", "1 blocks open"},
		{"if without else gives a value", oneBody(wt.I32Const(1), wt.If(wt.I32), wt.I32Const(1), wt.End, wt.Drop), CodeType, "code", "without else"},
		{"alignment", oneBody(wt.I32Const(0), wt.Op(0x28, 3, 0), wt.Drop), CodeAlign, "code", "2^3"},
		{"undeclared ref.func", undeclaredRef(), CodeUndeclared, "code", "declares"},
		{"select of references", oneBody(wt.Op(0xd0, 0x70), wt.Op(0xd0, 0x70), wt.I32Const(0), wt.Op(0x1b), wt.Drop), CodeType, "code", "numbers"},
		{"br_table arities", oneBody(wt.Block(wt.I32), wt.I32Const(1), wt.I32Const(1), wt.BrTable(0, 1), wt.End, wt.Drop), CodeType, "code", "br_table"},
		{"data.drop without count", oneBody(wt.Op(0xfc, 9, 0)), CodeDataCount, "code", "data count"},
		{"dead code still has types", oneBody(wt.Unreachable, wt.I64Const(1), wt.I32Eqz, wt.Drop), CodeType, "code", "i64"},
		{"export twice", exportTwice(), CodeDuplicate, "export", "twice"},
		{"export of nothing", join(wt.Section(7, wt.Vec(wt.Code(wt.Name("x"), []byte{0, 3})))), CodeIndex, "export", "function 3"},
		{"start with a parameter", startWithParam(), CodeStart, "start", "() -> ()"},
		{"constant expression adds", join(wt.Section(6, wt.Vec(wt.Code([]byte{wt.I32, 0}, wt.I32Const(1), wt.I32Const(1), wt.I32Add, wt.End)))), CodeConstExpr, "global", "0x41"},
		{"constant expression's type", join(wt.Section(6, wt.Vec(wt.Code([]byte{wt.I32, 0}, wt.I64Const(1), wt.End)))), CodeType, "global", "i64"},
		{"bodies missing", join(voidType, wt.Section(3, []byte{1, 0})), CodeCount, "code", "1 functions"},
		{"maximum under minimum", join(wt.Section(5, []byte{1, 1, 2, 1})), CodeRange, "memory", "minimum"},
		{"stack of values", oneBody(wt.Times(40_000, wt.I32Const(0)), wt.Unreachable), "limit-stack", "code", "32768"},
	}
}

func undeclaredRef() []byte {
	m := &wt.Module{}
	m.Func(nil, nil, nil, wt.RefFunc(0), wt.Drop)
	return m.Bytes()
}

func exportTwice() []byte {
	m := &wt.Module{}
	m.ExportFunc("f", nil, nil, nil)
	m.Export("f", wt.KindFunc, 0)
	return m.Bytes()
}

func startWithParam() []byte {
	m := &wt.Module{Start: new(uint32)}
	m.Func(i32s, nil, nil)
	return m.Bytes()
}

func TestBadModulesAreRefusedByName(t *testing.T) {
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			started := time.Now()
			_, err := Validate(r.wasm, DefaultLimits())
			took := time.Since(started)
			runtime.ReadMemStats(&after)
			var v *ValidationError
			if !errors.As(err, &v) {
				t.Fatalf("err %v, expected a refusal with %s", err, r.code)
			}
			found := false
			for _, p := range v.Problems {
				found = found || p.Code == r.code && p.Section == r.section && strings.Contains(p.Message, r.says)
				if p.Offset < 0 || p.Offset > len(r.wasm) {
					t.Errorf("offset %d outside the module", p.Offset)
				}
			}
			if !found {
				t.Errorf("expected %s in the %s section saying %q, got\n%v", r.code, r.section, r.says, err)
			}
			if took > 2*time.Second {
				t.Errorf("took %v", took)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
				t.Errorf("allocated %d bytes for a module of %d", used, len(r.wasm))
			}
		})
	}
}

// Every prefix of a module with all sections is refused, without reading past its end.
func TestEveryTruncationIsRefused(t *testing.T) {
	whole := everySection().Bytes()
	if _, err := Validate(whole, DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	accepted := map[int]bool{}
	for n := range whole {
		cut := append([]byte(nil), whole[:n:n]...)
		if _, err := Validate(cut, DefaultLimits()); err == nil {
			accepted[n] = true
		}
	}
	// A module may end after a section if what follows is not needed.
	for n := range accepted {
		if n != 8 && !sectionEnds(whole)[n] {
			t.Errorf("accepted the first %d bytes", n)
		}
	}
}

func sectionEnds(wasm []byte) map[int]bool {
	ends := map[int]bool{}
	r := &reader{buf: wasm, pos: 8, end: len(wasm)}
	for r.left() > 0 {
		r.byte()
		r.bytes(r.u32(), "section")
		ends[r.pos] = true
	}
	return ends
}

func everySection() *wt.Module {
	m := &wt.Module{Memories: []wt.Memory{{Min: 1, Max: 65536}}, Tables: []wt.Table{{Min: 4}}, DataCount: true, Start: new(uint32)}
	next := m.Import("mr", "next", i32s, i32s)
	log := m.Import("env", "log", i32s, nil)
	m.Global(wt.I64, true, wt.I64Const(5))
	m.Global(wt.FuncRef, true, wt.RefFunc(next))
	*m.Start = m.ExportFunc("init", nil, nil, nil, wt.I32Const(7), wt.Call(log))
	m.ExportFunc("run", i32s, i32s, []byte{wt.I64},
		wt.LocalGet(0), wt.Call(next), wt.LocalGet(0), wt.I32Const(2), wt.CallIndirect(m.Type(i32s, i32s)), wt.I32Add)
	m.Export("memory", wt.KindMemory, 0)
	m.Export("next", wt.KindFunc, next)
	m.Elems = []wt.Elem{{Funcs: []uint32{next, log}}, {Passive: true, Funcs: []uint32{next}}}
	m.Datas = []wt.Data{{Offset: 8, Bytes: []byte("hello")}, {Passive: true, Bytes: []byte("there")}}
	m.Customs = []wt.Custom{{Name: "mr.descriptor", Bytes: []byte(`{"abi":0}`)}, {Name: "producers", Bytes: []byte("x")}}
	return m
}

func TestSeveralProblemsComeInOneAnswer(t *testing.T) {
	m := &wt.Module{}
	m.ExportFunc("__mr_stop", nil, nil, nil, wt.I32Add)
	m.Func(nil, nil, nil, wt.Op(0xfd, 0x0f))
	m.Func(nil, nil, nil, wt.LocalGet(3), wt.Drop)
	_, err := Validate(m.Bytes(), DefaultLimits())
	var v *ValidationError
	if !errors.As(err, &v) {
		t.Fatal(err)
	}
	for _, code := range []string{CodeReserved, CodeStack, CodeFeature, CodeIndex} {
		if !v.Has(code) {
			t.Errorf("no %s in\n%v", code, err)
		}
	}
	if !strings.Contains(err.Error(), "function 2") {
		t.Errorf("function 2 is not named in\n%v", err)
	}
}

func TestLimitsAreInclusive(t *testing.T) {
	l := DefaultLimits()
	for name, build := range map[string]func(n int) []byte{
		"nesting":  func(n int) []byte { return oneBody(wt.Times(n, wt.Block(wt.Void)), wt.Times(n, wt.End)) },
		"br-table": func(n int) []byte { return oneBody(wt.I32Const(0), wt.BrTable(make([]uint32, n+1)...)) },
		"branches": func(n int) []byte { return oneBody(wt.Times(n, wt.I32Const(1), wt.If(wt.Void), wt.End)) },
		"stack":    func(n int) []byte { return oneBody(wt.Times(n, wt.I32Const(0)), wt.Unreachable) },
		"locals": func(n int) []byte {
			m := &wt.Module{}
			m.Func(nil, nil, bytes.Repeat([]byte{wt.F64}, n))
			return m.Bytes()
		},
		"params": func(n int) []byte {
			m := &wt.Module{}
			m.Func(bytes.Repeat([]byte{wt.F64}, n), nil, nil)
			return m.Bytes()
		},
		"functions": func(n int) []byte {
			m := &wt.Module{Types: []wt.Type{{}}, Funcs: make([]wt.Func, n)}
			return m.Bytes()
		},
		"globals": func(n int) []byte {
			m := &wt.Module{}
			for i := 0; i < n; i++ {
				m.Global(wt.I32, true, wt.I32Const(1))
			}
			return m.Bytes()
		},
		"tables": func(n int) []byte { return (&wt.Module{Tables: make([]wt.Table, n)}).Bytes() },
		"memory": func(n int) []byte { return (&wt.Module{Memories: []wt.Memory{{Min: uint32(n)}}}).Bytes() },
	} {
		limit := map[string]int{"nesting": l.Nesting, "br-table": l.BranchTable, "stack": l.OperandStack,
			"locals": l.Locals, "branches": l.Branches, "params": l.Params, "functions": l.Functions, "globals": l.Globals,
			"tables": l.Tables, "memory": l.MemoryPages}[name]
		if _, err := Validate(build(limit), l); err != nil {
			t.Errorf("%s at the limit: %v", name, err)
		}
		_, err := Validate(build(limit+1), l)
		var v *ValidationError
		if !errors.As(err, &v) || !v.Has(CodeLimit+name) || !strings.Contains(err.Error(), fmt.Sprint(limit)) {
			t.Errorf("%s above the limit: %v", name, err)
		}
	}
}

func TestLimitsThatNoEngineHonoursAreRefused(t *testing.T) {
	l := DefaultLimits()
	l.MemoryPages = 13_107_200
	if _, err := Validate(oneBody(), l); err == nil || !strings.Contains(err.Error(), "13107200") {
		t.Errorf("err %v", err)
	}
}
