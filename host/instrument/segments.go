package instrument

// constExpr reads a constant expression of type want.
func (v *validator) constExpr(want ValType) {
	at := v.pos
	op := v.byte()
	have := unknown
	switch op {
	case opI32Const:
		v.signed(32)
		have = I32
	case opI64Const:
		v.signed(64)
		have = I64
	case opF32Const:
		v.bytes(4, "f32 constant")
		have = F32
	case opF64Const:
		v.bytes(8, "f64 constant")
		have = F64
	case opRefNull:
		have = v.refType()
	case opRefFunc:
		v.declared[v.funcIndex()] = struct{}{}
		have = FuncRef
	case opGlobalGet:
		have = v.constGlobal()
	case opEnd:
		fail(at, CodeConstExpr, "constant expression is empty, expected a value of type %s", want)
	default:
		fail(at, CodeConstExpr, "instruction 0x%02x is not allowed in a constant expression", op)
	}
	if have != want {
		fail(at, CodeType, "constant expression has type %s, expected %s", have, want)
	}
	end := v.pos
	if b := v.byte(); b != opEnd {
		fail(end, CodeConstExpr, "constant expression goes on with 0x%02x, expected one instruction and end", b)
	}
}

// constGlobal reads the global of a constant expression: an imported constant.
func (v *validator) constGlobal() ValType {
	at := v.pos
	i := v.u32()
	if uint64(i) >= uint64(v.importedGlobals) {
		fail(at, CodeIndex, "constant expression names global %d, there are %d imported ones", i, v.importedGlobals)
	}
	if g := v.mod.Globals[i]; g.Mutable {
		fail(at, CodeConstExpr, "constant expression names global %d, which can change", i)
	}
	return v.mod.Globals[i].Type
}

func (v *validator) elements() {
	for n := v.counted("element segments", "segments", 2, 0, v.lim.Segments); n > 0; n-- {
		v.elems = append(v.elems, v.element())
	}
}

// element reads one element segment. Flag bits: 1 not active, 2 table index (or declarative), 4 items are
// expressions.
func (v *validator) element() ValType {
	at := v.pos
	flags := v.u32()
	if flags > 7 {
		fail(at, CodeMalformed, "element segment has flags %d, expected 0 to 7", flags)
	}
	active, withIndex, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
	table := uint32(0)
	if active {
		if withIndex {
			table = v.u32()
		}
		if uint64(table) >= uint64(len(v.mod.Tables)) {
			fail(at, CodeIndex, "element segment names table %d, there are %d", table, len(v.mod.Tables))
		}
		v.constExpr(I32)
	}
	elem := FuncRef
	if flags&3 != 0 {
		kindAt := v.pos
		if exprs {
			elem = v.refType()
		} else if k := v.byte(); k != 0 {
			fail(kindAt, CodeMalformed, "element kind is 0x%02x, expected 0", k)
		}
	}
	if active && v.mod.Tables[table].Elem != elem {
		fail(at, CodeType, "element segment of type %s for a table of type %s", elem, v.mod.Tables[table].Elem)
	}
	for n := v.counted("items of an element segment", "segment-items", 1, 0, v.lim.SegmentItems); n > 0; n-- {
		if exprs {
			v.constExpr(elem)
		} else {
			v.declared[v.funcIndex()] = struct{}{}
		}
	}
	return elem
}

func (v *validator) data() {
	for n := v.counted("data segments", "segments", 2, 0, v.lim.Segments); n > 0; n-- {
		at := v.pos
		flags := v.u32()
		if flags > 2 {
			fail(at, CodeMalformed, "data segment has flags %d, expected 0 to 2", flags)
		}
		if flags == 1 {
			v.mod.PassiveSegments = true
		} else {
			memory := uint32(0)
			if flags == 2 {
				memory = v.u32()
			}
			if uint64(memory) >= uint64(len(v.mod.Memories)) {
				fail(at, CodeIndex, "data segment names memory %d, there are %d", memory, len(v.mod.Memories))
			}
			v.constExpr(I32)
		}
		v.bytes(v.u32(), "data segment")
		v.mod.DataSegments++
	}
}

func (v *validator) code() {
	at := v.pos
	n := v.count("bodies", 3)
	if want := len(v.mod.Funcs) - v.mod.ImportedFuncs; int(n) != want {
		fail(at, CodeCount, "%d bodies for %d declared functions", n, want)
	}
	if v.failed {
		// Bodies refer to what could not be read: judging them would only repeat that.
		v.pos = v.end
		return
	}
	v.mod.bodies = make([]span, 0, n)
	sectionEnd := v.end
	c := &bodyChecker{v: v}
	for i := uint32(0); i < n && len(v.problems) < maxProblems; i++ {
		start := v.pos
		size := v.u32()
		if uint64(size) > uint64(v.left()) {
			fail(start, CodeTruncated, "body of function %d is %d bytes long, only %d are left", i, size, v.left())
		}
		body := span{v.pos, v.pos + int(size)}
		v.mod.bodies = append(v.mod.bodies, body)
		v.mod.LargestBody = max(v.mod.LargestBody, int(size))
		v.end = body.end
		v.guard(func() { c.check(uint32(v.mod.ImportedFuncs) + i) })
		v.pos, v.end = body.end, sectionEnd
	}
	if len(v.problems) >= maxProblems {
		v.pos = v.end
	}
}
