package hostile

import (
	"bytes"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// Refused returns the modules that no compiler may ever see.
func Refused() []Guest {
	refused := func(name, doc, code string, wasm []byte) Guest {
		return Guest{name, doc, FaultRefused, code, wasm}
	}
	targets := make([]uint32, 1_000_000)
	void := wt.Section(1, wt.Vec([]byte{0x60, 0, 0}))
	raw := func(sections ...[]byte) []byte { return append(bytes.Clone(wt.Header), wt.Code(sections...)...) }
	return []Guest{
		refused("locals", "2^26 locals in 36 bytes", "limit-locals", raw(void, wt.Section(3, []byte{1, 0}),
			wt.Section(10, wt.Vec([]byte{8, 1, 0x80, 0x80, 0x80, 0x20, wt.I64, 0x0b, 0x0b})))),
		refused("nesting", "100,000 nested blocks", "limit-nesting",
			on(nil, wt.Times(100_000, wt.Block(wt.Void)), wt.Times(100_000, wt.End))),
		refused("br-table", "a br_table of a million targets", "limit-br-table",
			on(nil, wt.I32Const(0), wt.BrTable(targets...))),
		refused("br-tables", "many br_tables of 8,000 targets", "limit-br-targets",
			on(nil, wt.Times(20, wt.Block(wt.Void), wt.I32Const(0), wt.BrTable(targets[:8_000]...), wt.End))),
		refused("table-targets", "so many br_tables that compiling them takes a minute", "limit-table-targets", manyFunctions(80,
			wt.Block(wt.Void), wt.I32Const(0), wt.BrTable(targets[:8_000]...), wt.End)),
		refused("chained-ifs", "60,000 ifs one after another: compiled in quadratic time", "limit-branches",
			on(nil, wt.Times(60_000, wt.I32Const(1), wt.If(wt.Void), wt.End))),
		refused("chained-loops", "5,000 loops one after another", "limit-branches",
			on(nil, wt.Times(5_000, wt.Loop(wt.Void), wt.I32Const(0), wt.BrIf(0), wt.End))),
		refused("chained-fills", "60,000 memory.fill, each with a test behind its charge", "limit-branches",
			on(nil, wt.Times(60_000, wt.I32Const(0), wt.I32Const(0), wt.LocalGet(0), wt.MemoryFill))),
		refused("many-chains", "100 functions of 3,000 ifs each", "limit-branch-squares", manyFunctions(100,
			wt.Times(3_000, wt.I32Const(1), wt.If(wt.Void), wt.End))),
		refused("functions", "a million functions announced and declared", "limit-functions",
			raw(void, wt.Section(3, append(wt.U32(1_000_000), make([]byte, 1_000_000)...)))),
		refused("type-count", "2^27 types announced in 5 bytes", "limit-types", raw(wt.Section(1, wt.U32(1<<27)))),
		refused("function-count", "2^27 functions announced in 5 bytes", "limit-functions", raw(void, wt.Section(3, wt.U32(1<<27)))),
		refused("body-count", "2^27 bodies announced in 5 bytes", "truncated", raw(void, wt.Section(10, wt.U32(1<<27)))),
		refused("section-length", "a section longer than the module", "truncated", raw([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0})),
		refused("table-minimum", "a table of 400 million entries", "limit-table",
			raw(wt.Section(4, wt.Code([]byte{1, wt.FuncRef, 0}, wt.U32(400_000_000))))),
		refused("memory-minimum", "a memory of 4 GiB", "limit-memory", raw(wt.Section(5, wt.Code([]byte{1, 0}, wt.U32(65_536))))),
		refused("forged-fuel", "global.set of the index that the rewriter's first global will have", "index",
			on(nil, wt.I64Const(1<<60), wt.GlobalSet(1))),
		refused("forged-name", "exports a name of the rewriter", "reserved", forgedName()),
	}
}

func forgedName() []byte {
	g := newGuest()
	g.Export("__mr_fuel", wt.KindGlobal, g.heap)
	return g.finish(g.attackOn(nil))
}

// manyFunctions has n functions of the same body.
func manyFunctions(n int, body ...[]byte) []byte {
	g := newGuest()
	for ; n > 0; n-- {
		g.Func(nil, nil, nil, body...)
	}
	return g.finish(g.attackOn(nil))
}
