// Package wasmtest assembles WebAssembly modules in Go, so that tests need no toolchain: a Module with
// its sections as slices, functions that return the bytes of instructions, and a seeded generator of
// valid programs.
package wasmtest

// Value types.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
	Void      byte = 0x40 // block type without results
)

// Kinds of imports and exports.
const (
	KindFunc   byte = 0
	KindTable  byte = 1
	KindMemory byte = 2
	KindGlobal byte = 3
)

// Type is a function type.
type Type struct{ Params, Results []byte }

// Import is an imported function.
type Import struct {
	Module, Name string
	Type         uint32
}

// Func is a function; its Body has no final end.
type Func struct {
	Type   uint32
	Locals []byte // one type each
	Body   []byte
}

// Table is a table of funcref unless Elem says otherwise.
type Table struct {
	Elem     byte
	Min, Max uint32 // Max 0: none
}

// Memory is in pages.
type Memory struct{ Min, Max uint32 } // Max 0: none

// Global is a global; Init is a constant expression without its end.
type Global struct {
	Type    byte
	Mutable bool
	Init    []byte
}

// Export is an export.
type Export struct {
	Name  string
	Kind  byte
	Index uint32
}

// Elem is an active segment of table 0, or a passive one.
type Elem struct {
	Passive bool
	Offset  uint32
	Funcs   []uint32
}

// Data is an active segment, or a passive one.
type Data struct {
	Passive bool
	Offset  uint32
	Bytes   []byte
}

// Custom is a custom section, written last.
type Custom struct {
	Name  string
	Bytes []byte
}

// Module is a module under construction.
type Module struct {
	Types     []Type
	Imports   []Import
	Funcs     []Func
	Tables    []Table
	Memories  []Memory
	Globals   []Global
	Exports   []Export
	Start     *uint32
	Elems     []Elem
	DataCount bool
	Datas     []Data
	Customs   []Custom
}

// Type returns the index of the type with these parameters and results, adding it if need be.
func (m *Module) Type(params, results []byte) uint32 {
	for i, t := range m.Types {
		if string(t.Params) == string(params) && string(t.Results) == string(results) {
			return uint32(i)
		}
	}
	m.Types = append(m.Types, Type{params, results})
	return uint32(len(m.Types) - 1)
}

// Import adds an imported function and returns its index. All imports come before the first Func.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	if len(m.Funcs) > 0 {
		panic("wasmtest: import after a function")
	}
	m.Imports = append(m.Imports, Import{module, name, m.Type(params, results)})
	return uint32(len(m.Imports) - 1)
}

// Func adds a function and returns its index.
func (m *Module) Func(params, results, locals []byte, body ...[]byte) uint32 {
	m.Funcs = append(m.Funcs, Func{m.Type(params, results), locals, Code(body...)})
	return uint32(len(m.Imports) + len(m.Funcs) - 1)
}

// ExportFunc adds a function and exports it.
func (m *Module) ExportFunc(name string, params, results, locals []byte, body ...[]byte) uint32 {
	i := m.Func(params, results, locals, body...)
	m.Export(name, KindFunc, i)
	return i
}

// Export adds an export.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.Exports = append(m.Exports, Export{name, kind, index})
}

// Global adds a global and returns its index.
func (m *Module) Global(t byte, mutable bool, init []byte) uint32 {
	m.Globals = append(m.Globals, Global{t, mutable, init})
	return uint32(len(m.Globals) - 1)
}
