package instrument

import "fmt"

// ValType is the type of a value, encoded as in the binary format.
type ValType byte

// Types of values; unknown is what unreachable code leaves on the stack.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
	unknown   ValType = 0
)

// String gives the name in the text format.
func (t ValType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case FuncRef:
		return "funcref"
	case ExternRef:
		return "externref"
	case unknown:
		return "unknown"
	}
	return fmt.Sprintf("0x%02x", byte(t))
}

func (t ValType) isRef() bool { return t == FuncRef || t == ExternRef }

// Kind is the kind of an import or export, encoded as in the binary format.
type Kind byte

// Kinds.
const (
	KindFunc Kind = iota
	KindTable
	KindMemory
	KindGlobal
)

// String gives the kind's name.
func (k Kind) String() string {
	if k > KindGlobal {
		return fmt.Sprintf("kind %d", byte(k))
	}
	return [...]string{"function", "table", "memory", "global"}[k]
}

// FuncType is the type of a function.
type FuncType struct{ Params, Results []ValType }

// String gives (i32, i64) -> (i32).
func (t FuncType) String() string {
	list := func(ts []ValType) string {
		s := "("
		for i, x := range ts {
			if i > 0 {
				s += ", "
			}
			s += x.String()
		}
		return s + ")"
	}
	return list(t.Params) + " -> " + list(t.Results)
}

// Equal compares parameter and result types.
func (t FuncType) Equal(o FuncType) bool {
	return string(asBytes(t.Params)) == string(asBytes(o.Params)) &&
		string(asBytes(t.Results)) == string(asBytes(o.Results))
}

func asBytes(ts []ValType) []byte {
	b := make([]byte, len(ts))
	for i, t := range ts {
		b[i] = byte(t)
	}
	return b
}

// Import is one import. Type is set for functions.
type Import struct {
	Module, Name string
	Kind         Kind
	Type         FuncType
	Offset       int
}

// Export is one export. Type is set for functions.
type Export struct {
	Name   string
	Kind   Kind
	Index  uint32
	Type   FuncType
	Offset int
}

// LimitsType are the bounds of a table (entries) or memory (64 KiB pages).
type LimitsType struct {
	Min, Max uint32
	HasMax   bool
}

// TableType is a table.
type TableType struct {
	Elem ValType
	LimitsType
}

// GlobalType is a global.
type GlobalType struct {
	Type    ValType
	Mutable bool
}

// Module is what a valid module contains. Index spaces begin with the imports.
type Module struct {
	Types         []FuncType
	Imports       []Import
	Funcs         []uint32 // type index of each function
	ImportedFuncs int      // how many of Funcs are imports
	Tables        []TableType
	Memories      []LimitsType
	Globals       []GlobalType
	Exports       []Export
	Customs       map[string][]byte // contents of custom sections, the first of each name; not copied
	FuncNames     map[uint32]string // from the name section
	HasStart      bool
	Start         uint32 // function index, if HasStart

	DataSegments    int
	PassiveSegments bool // passive data segments or memory.init: data segments must be kept
	ChangesTables   bool // table.set, grow, fill, copy or init: a memory image does not hold it all
	DropsSegments   bool // data.drop or elem.drop: the same
	LargestBody     int  // bytes
	DeepestNesting  int  // blocks open at once

	sections []section
	bodies   []span // of the functions that are not imported
	size     int
}

type span struct{ start, end int }

// section is a section's contents; customs among them.
type section struct {
	id   byte
	name string // of a custom section
	span
}

// FuncName names a function for people: its name in the name section, or an export's name, or its index.
func (m *Module) FuncName(index uint32) string {
	if n, ok := m.FuncNames[index]; ok && n != "" {
		return n
	}
	if int(index) < m.ImportedFuncs {
		n := uint32(0)
		for _, imp := range m.Imports {
			if imp.Kind != KindFunc {
				continue
			}
			if n == index {
				return imp.Module + "." + imp.Name
			}
			n++
		}
	}
	for _, e := range m.Exports {
		if e.Kind == KindFunc && e.Index == index {
			return e.Name
		}
	}
	return fmt.Sprintf("func[%d]", index)
}

// FuncType is the type of function index.
func (m *Module) FuncType(index uint32) FuncType { return m.Types[m.Funcs[index]] }

// Export finds an export by name and kind.
func (m *Module) Export(name string, kind Kind) (Export, bool) {
	for _, e := range m.Exports {
		if e.Name == name && e.Kind == kind {
			return e, true
		}
	}
	return Export{}, false
}
