package instrument

func (v *validator) valType() ValType {
	at := v.pos
	switch t := ValType(v.byte()); t {
	case I32, I64, F32, F64, FuncRef, ExternRef:
		return t
	case 0x7b:
		fail(at, CodeFeature, "uses SIMD (type v128), which is not accepted")
	default:
		fail(at, CodeMalformed, "0x%02x is no value type", byte(t))
	}
	return unknown
}

func (v *validator) refType() ValType {
	at := v.pos
	t := ValType(v.byte())
	if !t.isRef() {
		fail(at, CodeMalformed, "0x%02x is no reference type, expected funcref or externref", byte(t))
	}
	return t
}

// counted reads the length of a section's vector and holds it against a limit, with what is there already.
func (v *validator) counted(what, limitName string, minBytes, already, limit int) uint32 {
	at := v.pos
	n := v.u32()
	if uint64(n)+uint64(already) > uint64(limit) {
		failLimit(at, limitName, what, uint64(n)+uint64(already), limit)
	}
	if uint64(n)*uint64(minBytes) > uint64(v.left()) {
		fail(at, CodeTruncated, "%d %s announced, %d bytes are left for them", n, what, v.left())
	}
	return n
}

func (v *validator) types() {
	for n := v.counted("types", "types", 3, 0, v.lim.Types); n > 0; n-- {
		at := v.pos
		switch form := v.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			fail(at, CodeFeature, "uses garbage collection (type form 0x%02x), which is not accepted", form)
		default:
			fail(at, CodeMalformed, "0x%02x is no function type, expected 0x60", form)
		}
		var t FuncType
		t.Params = v.valTypes("parameters of a type", "params", v.lim.Params)
		t.Results = v.valTypes("results of a type", "results", v.lim.Results)
		v.mod.Types = append(v.mod.Types, t)
	}
}

func (v *validator) valTypes(what, limitName string, limit int) []ValType {
	n := v.counted(what, limitName, 1, 0, limit)
	if n == 0 {
		return nil
	}
	ts := make([]ValType, n)
	for i := range ts {
		ts[i] = v.valType()
	}
	return ts
}

func (v *validator) typeIndex() uint32 {
	at := v.pos
	i := v.u32()
	if int(i) >= len(v.mod.Types) {
		fail(at, CodeIndex, "type %d does not exist, there are %d", i, len(v.mod.Types))
	}
	return i
}

func (v *validator) imports() {
	for n := v.counted("imports", "imports", 4, 0, v.lim.Imports); n > 0; n-- {
		imp := Import{Offset: v.pos}
		imp.Module = v.name(v.lim.NameBytes)
		imp.Name = v.name(v.lim.NameBytes)
		at := v.pos
		imp.Kind = Kind(v.byte())
		switch imp.Kind {
		case KindFunc:
			t := v.typeIndex()
			imp.Type = v.mod.Types[t]
			v.mod.Funcs = append(v.mod.Funcs, t)
			v.mod.ImportedFuncs++
		case KindTable:
			v.mod.Tables = append(v.mod.Tables, TableType{v.refType(), v.limits("table")})
		case KindMemory:
			v.mod.Memories = append(v.mod.Memories, v.limits("memory"))
		case KindGlobal:
			v.mod.Globals = append(v.mod.Globals, v.globalType())
			v.importedGlobals++
		case 4:
			fail(at, CodeFeature, "import %s.%s uses exception handling, which is not accepted", imp.Module, imp.Name)
		default:
			fail(at, CodeMalformed, "import %s.%s has kind %d, expected 0 to 3", imp.Module, imp.Name, byte(imp.Kind))
		}
		if imp.Kind != KindFunc {
			v.report(failure{imp.Offset, CodeImportKind,
				sprint("imports the %s %s.%s, hosts offer functions only", imp.Kind, imp.Module, imp.Name)})
		}
		v.guard(func() { v.reserved(imp.Offset, imp.Name) })
		v.mod.Imports = append(v.mod.Imports, imp)
	}
	if n := len(v.mod.Funcs); n > v.lim.Functions {
		failLimit(v.pos, "functions", "functions", uint64(n), v.lim.Functions)
	}
}

func (v *validator) functions() {
	n := v.counted("functions", "functions", 1, len(v.mod.Funcs), v.lim.Functions)
	for ; n > 0; n-- {
		v.mod.Funcs = append(v.mod.Funcs, v.typeIndex())
	}
}

// limits reads the bounds of a table or memory.
func (v *validator) limits(what string) LimitsType {
	at := v.pos
	flags := v.byte()
	switch {
	case flags <= 1:
	case flags <= 3:
		fail(at, CodeFeature, "uses threads (shared %s), which is not accepted", what)
	case flags <= 7:
		fail(at, CodeFeature, "uses memory64 (64-bit %s), which is not accepted", what)
	default:
		fail(at, CodeMalformed, "limits of a %s have flags 0x%02x, expected 0 or 1", what, flags)
	}
	l := LimitsType{Min: v.u32(), HasMax: flags == 1}
	if l.HasMax {
		if l.Max = v.u32(); l.Max < l.Min {
			fail(at, CodeRange, "%s has minimum %d above its maximum %d", what, l.Min, l.Max)
		}
	}
	const maxPages = 65_536
	if what == "memory" {
		if l.Min > maxPages || l.HasMax && l.Max > maxPages {
			fail(at, CodeRange, "memory of %d to %d pages, the format allows %d", l.Min, l.Max, maxPages)
		}
		if int(l.Min) > v.lim.MemoryPages {
			failLimit(at, "memory", "pages of memory from the start", uint64(l.Min), v.lim.MemoryPages)
		}
	} else if int64(l.Min) > int64(v.lim.TableEntries) {
		failLimit(at, "table", "entries of a table from the start", uint64(l.Min), v.lim.TableEntries)
	}
	return l
}

func (v *validator) tables() {
	for n := v.counted("tables", "tables", 3, len(v.mod.Tables), v.lim.Tables); n > 0; n-- {
		v.mod.Tables = append(v.mod.Tables, TableType{v.refType(), v.limits("table")})
	}
}

func (v *validator) memories() {
	at := v.pos
	n := v.count("memories", 2)
	if int(n)+len(v.mod.Memories) > v.lim.Memories {
		if n > 1 {
			fail(at, CodeFeature, "uses multi-memory (%d memories), which is not accepted", n)
		}
		failLimit(at, "memories", "memories", uint64(int(n)+len(v.mod.Memories)), v.lim.Memories)
	}
	for ; n > 0; n-- {
		v.mod.Memories = append(v.mod.Memories, v.limits("memory"))
	}
}

func (v *validator) globalType() GlobalType {
	t := v.valType()
	at := v.pos
	m := v.byte()
	switch {
	case m <= 1:
	case m <= 3:
		fail(at, CodeFeature, "uses threads (shared global), which is not accepted")
	default:
		fail(at, CodeMalformed, "mutability of a global is 0x%02x, expected 0 or 1", m)
	}
	return GlobalType{t, m == 1}
}

func (v *validator) globals() {
	n := v.counted("globals", "globals", 4, len(v.mod.Globals), v.lim.Globals)
	for ; n > 0; n-- {
		g := v.globalType()
		v.constExpr(g.Type)
		v.mod.Globals = append(v.mod.Globals, g)
	}
}

func (v *validator) exports() {
	for n := v.counted("exports", "exports", 3, 0, v.lim.Exports); n > 0; n-- {
		e := Export{Offset: v.pos}
		e.Name = v.name(v.lim.NameBytes)
		at := v.pos
		e.Kind = Kind(v.byte())
		e.Index = v.u32()
		space := 0
		switch e.Kind {
		case KindFunc:
			space = len(v.mod.Funcs)
		case KindTable:
			space = len(v.mod.Tables)
		case KindMemory:
			space = len(v.mod.Memories)
		case KindGlobal:
			space = len(v.mod.Globals)
		case 4:
			fail(at, CodeFeature, "export %q uses exception handling, which is not accepted", e.Name)
		default:
			fail(at, CodeMalformed, "export %q has kind %d, expected 0 to 3", e.Name, byte(e.Kind))
		}
		if uint64(e.Index) >= uint64(space) {
			fail(at, CodeIndex, "export %q names %s %d, there are %d", e.Name, e.Kind, e.Index, space)
		}
		if e.Kind == KindFunc {
			e.Type = v.mod.FuncType(e.Index)
			v.declared[e.Index] = struct{}{}
		}
		v.guard(func() { v.reserved(e.Offset, e.Name) })
		if _, twice := v.exported[e.Name]; twice {
			v.report(failure{e.Offset, CodeDuplicate, sprint("exports %q twice", e.Name)})
		}
		v.exported[e.Name] = struct{}{}
		v.mod.Exports = append(v.mod.Exports, e)
	}
}

func (v *validator) start() {
	at := v.pos
	i := v.funcIndex()
	if t := v.mod.FuncType(i); len(t.Params)+len(t.Results) > 0 {
		fail(at, CodeStart, "start function %d has type %s, expected () -> ()", i, t)
	}
	v.mod.HasStart, v.mod.Start = true, i
}

func (v *validator) funcIndex() uint32 {
	at := v.pos
	i := v.u32()
	if int(i) >= len(v.mod.Funcs) {
		fail(at, CodeIndex, "function %d does not exist, there are %d", i, len(v.mod.Funcs))
	}
	return i
}
