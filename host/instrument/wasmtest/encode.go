package wasmtest

import "encoding/binary"

// Header is what each module begins with.
var Header = []byte{0, 'a', 's', 'm', 1, 0, 0, 0}

// U32 is an unsigned LEB128.
func U32(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// S64 is a signed LEB128.
func S64(v int64) []byte {
	var d []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(d, b)
		}
		d = append(d, b|0x80)
	}
}

// Vec is a vector: the number of items, then the items.
func Vec(items ...[]byte) []byte { return Code(append([][]byte{U32(uint32(len(items)))}, items...)...) }

// Name is a byte vector.
func Name(s string) []byte { return append(U32(uint32(len(s))), s...) }

// Section is a section of any contents, lying ones too.
func Section(id byte, body []byte) []byte {
	return append(append([]byte{id}, U32(uint32(len(body)))...), body...)
}

// Body is an entry of the code section.
func Body(locals []byte, body []byte) []byte {
	var groups [][]byte
	for i := 0; i < len(locals); {
		j := i
		for j < len(locals) && locals[j] == locals[i] {
			j++
		}
		groups = append(groups, append(U32(uint32(j-i)), locals[i]))
		i = j
	}
	b := Code(Vec(groups...), body, []byte{0x0b})
	return append(U32(uint32(len(b))), b...)
}

func limits(lo, hi uint32) []byte {
	if hi == 0 {
		return append([]byte{0}, U32(lo)...)
	}
	return append(append([]byte{1}, U32(lo)...), U32(hi)...)
}

// each encodes a section as a vector of what f makes of the items; nothing if there are none.
func each[T any](id byte, items []T, f func(T) []byte) []byte {
	if len(items) == 0 {
		return nil
	}
	list := make([][]byte, len(items))
	for i, x := range items {
		list[i] = f(x)
	}
	return Section(id, Vec(list...))
}

// Bytes encodes the module.
func (m *Module) Bytes() []byte {
	d := append([]byte(nil), Header...)
	d = append(d, each(1, m.Types, func(t Type) []byte {
		return Code([]byte{0x60}, Name(string(t.Params)), Name(string(t.Results)))
	})...)
	d = append(d, each(2, m.Imports, func(i Import) []byte {
		return Code(Name(i.Module), Name(i.Name), []byte{KindFunc}, U32(i.Type))
	})...)
	d = append(d, each(3, m.Funcs, func(f Func) []byte { return U32(f.Type) })...)
	d = append(d, each(4, m.Tables, func(t Table) []byte {
		if t.Elem == 0 {
			t.Elem = FuncRef
		}
		return append([]byte{t.Elem}, limits(t.Min, t.Max)...)
	})...)
	d = append(d, each(5, m.Memories, func(x Memory) []byte { return limits(x.Min, x.Max) })...)
	d = append(d, each(6, m.Globals, func(g Global) []byte {
		b := []byte{g.Type, 0}
		if g.Mutable {
			b[1] = 1
		}
		return Code(b, g.Init, []byte{0x0b})
	})...)
	d = append(d, each(7, m.Exports, func(e Export) []byte { return Code(Name(e.Name), []byte{e.Kind}, U32(e.Index)) })...)
	if m.Start != nil {
		d = append(d, Section(8, U32(*m.Start))...)
	}
	d = append(d, each(9, m.Elems, encodeElem)...)
	if m.DataCount {
		d = append(d, Section(12, U32(uint32(len(m.Datas))))...)
	}
	d = append(d, each(10, m.Funcs, func(f Func) []byte { return Body(f.Locals, f.Body) })...)
	d = append(d, each(11, m.Datas, func(x Data) []byte {
		if x.Passive {
			return Code([]byte{1}, Name(string(x.Bytes)))
		}
		return Code([]byte{0}, I32Const(int32(x.Offset)), []byte{0x0b}, Name(string(x.Bytes)))
	})...)
	for _, c := range m.Customs {
		d = append(d, Section(0, append(Name(c.Name), c.Bytes...))...)
	}
	return d
}

func encodeElem(e Elem) []byte {
	list := make([][]byte, len(e.Funcs))
	for i, f := range e.Funcs {
		list[i] = U32(f)
	}
	if e.Passive {
		return Code([]byte{1, 0}, Vec(list...))
	}
	return Code([]byte{0}, I32Const(int32(e.Offset)), []byte{0x0b}, Vec(list...))
}
