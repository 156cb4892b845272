package instrument

// instruction checks the instruction c.op, whose immediates follow.
func (c *bodyChecker) instruction() {
	if c.control() {
		return
	}
	op, v := c.op, c.v
	switch {
	case op == opCall:
		t := v.mod.FuncType(c.funcIndex())
		c.popAll(t.Params)
		c.pushAll(t.Results)
	case op == opCallIndirect:
		c.callIndirect()
	case op == opDrop:
		c.pop()
	case op == opSelect:
		c.selectUntyped()
	case op == opSelectTyped:
		if n := v.u32(); n != 1 {
			c.fail(CodeMalformed, "select with %d types, expected 1", n)
		}
		t := v.valType()
		c.popType(I32)
		c.popType(t)
		c.popType(t)
		c.push(t)
	case op >= opLocalGet && op <= opLocalTee:
		c.local()
	case op == opGlobalGet || op == opGlobalSet:
		c.global()
	case op == opTableGet:
		t := c.table(v.u32())
		c.popType(I32)
		c.push(t)
	case op == opTableSet:
		c.popType(c.table(v.u32()))
		c.popType(I32)
		v.mod.ChangesTables = true
	case op >= opLoadFirst && op <= opStoreLast:
		c.access()
	case op == opMemorySize || op == opMemoryGrow:
		c.memory()
		if op == opMemoryGrow {
			c.branch(2)
			c.popType(I32)
		}
		c.push(I32)
	case op >= opI32Const && op <= opF64Const:
		c.constant()
	case op == opRefNull:
		c.push(v.refType())
	case op == opRefIsNull:
		if t := c.pop(); t != unknown && !t.isRef() {
			c.fail(CodeType, "ref.is_null takes a reference, the operand has type %s", t)
		}
		c.push(I32)
	case op == opRefFunc:
		i := c.funcIndex()
		if _, ok := v.declared[i]; !ok {
			c.fail(CodeUndeclared, "ref.func of function %d, which no export, global or element segment declares", i)
		}
		c.push(FuncRef)
	case op == opPrefixFC:
		c.prefixed()
	case numericOps[op].operands > 0:
		c.numeric(numericOps[op])
	default:
		if f := featureOf(op); f != "" {
			c.fail(CodeFeature, "uses %s (instruction 0x%02x), which is not accepted", f, op)
		}
		c.fail(CodeOpcode, "unknown instruction 0x%02x", op)
	}
}

func (c *bodyChecker) numeric(n numeric) {
	for i := 0; i < n.operands; i++ {
		c.popType(n.in)
	}
	c.push(n.out)
}

func (c *bodyChecker) funcIndex() uint32 {
	i := c.v.u32()
	if uint64(i) >= uint64(len(c.v.mod.Funcs)) {
		c.fail(CodeIndex, "function %d does not exist, there are %d", i, len(c.v.mod.Funcs))
	}
	return i
}

func (c *bodyChecker) callIndirect() {
	v := c.v
	ti := v.u32()
	if uint64(ti) >= uint64(len(v.mod.Types)) {
		c.fail(CodeIndex, "type %d does not exist, there are %d", ti, len(v.mod.Types))
	}
	if e := c.table(v.u32()); e != FuncRef {
		c.fail(CodeType, "call_indirect through a table of type %s, expected funcref", e)
	}
	c.popType(I32)
	c.popAll(v.mod.Types[ti].Params)
	c.pushAll(v.mod.Types[ti].Results)
}

func (c *bodyChecker) selectUntyped() {
	c.popType(I32)
	a := c.pop()
	b := c.pop()
	if a.isRef() || b.isRef() {
		c.fail(CodeType, "select without a type takes numbers, the operands have types %s and %s", b, a)
	}
	if a != b && a != unknown && b != unknown {
		c.fail(CodeType, "select takes two operands of one type, they have types %s and %s", b, a)
	}
	if a == unknown {
		a = b
	}
	c.push(a)
}

func (c *bodyChecker) local() {
	i := c.v.u32()
	if uint64(i) >= uint64(len(c.locals)) {
		c.fail(CodeIndex, "local %d does not exist, there are %d", i, len(c.locals))
	}
	t := c.locals[i]
	if c.op != opLocalGet {
		c.popType(t)
	}
	if c.op != opLocalSet {
		c.push(t)
	}
}

func (c *bodyChecker) global() {
	i := c.v.u32()
	if uint64(i) >= uint64(len(c.v.mod.Globals)) {
		c.fail(CodeIndex, "global %d does not exist, there are %d", i, len(c.v.mod.Globals))
	}
	g := c.v.mod.Globals[i]
	if c.op == opGlobalGet {
		c.push(g.Type)
		return
	}
	if !g.Mutable {
		c.fail(CodeImmutable, "global.set of global %d, which is constant", i)
	}
	c.popType(g.Type)
}

// table returns the element type of table i.
func (c *bodyChecker) table(i uint32) ValType {
	if uint64(i) >= uint64(len(c.v.mod.Tables)) {
		c.fail(CodeIndex, "table %d does not exist, there are %d", i, len(c.v.mod.Tables))
	}
	return c.v.mod.Tables[i].Elem
}

// memory reads a memory index, which must be the single byte 0.
func (c *bodyChecker) memory() {
	if b := c.v.byte(); b != 0 {
		c.fail(CodeFeature, "uses multi-memory (memory 0x%02x), which is not accepted", b)
	}
	c.needMemory()
}

func (c *bodyChecker) needMemory() {
	if len(c.v.mod.Memories) == 0 {
		c.fail(CodeIndex, "instruction 0x%02x needs a memory, the module has none", c.op)
	}
}

func (c *bodyChecker) access() {
	a := accesses[c.op-opLoadFirst]
	align := c.v.u32()
	c.v.u32()
	if align >= 64 && align < 128 {
		c.fail(CodeFeature, "uses multi-memory, which is not accepted")
	}
	if align > a.align {
		c.fail(CodeAlign, "alignment 2^%d of instruction 0x%02x is above the natural 2^%d", align, c.op, a.align)
	}
	c.needMemory()
	if c.op >= opStoreFirst {
		c.popType(a.value)
		c.popType(I32)
		return
	}
	c.popType(I32)
	c.push(a.value)
}

func (c *bodyChecker) constant() {
	v := c.v
	switch c.op {
	case opI32Const:
		v.signed(32)
		c.push(I32)
	case opI64Const:
		v.signed(64)
		c.push(I64)
	case opF32Const:
		v.bytes(4, "f32 constant")
		c.push(F32)
	default:
		v.bytes(8, "f64 constant")
		c.push(F64)
	}
}

// prefixed checks the instructions behind 0xfc.
func (c *bodyChecker) prefixed() {
	v := c.v
	sub := v.u32()
	if sub >= fcMemoryInit {
		c.branch(2) // the test of its charge
	}
	switch sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		c.numeric(truncSat[sub])
	case fcMemoryInit:
		c.dataSegment()
		c.memory()
		c.popSame(I32, 3)
		v.mod.PassiveSegments = true
	case fcDataDrop:
		c.dataSegment()
		v.mod.DropsSegments = true
	case fcMemoryCopy:
		c.memory()
		c.memory()
		c.popSame(I32, 3)
	case fcMemoryFill:
		c.memory()
		c.popSame(I32, 3)
	default:
		c.tableBulk(sub)
	}
}

func (c *bodyChecker) tableBulk(sub uint32) {
	v := c.v
	switch sub {
	case fcTableInit:
		e := c.elemSegment()
		if t := c.table(v.u32()); t != e {
			c.fail(CodeType, "table.init from a segment of type %s to a table of type %s", e, t)
		}
		c.popSame(I32, 3)
	case fcElemDrop:
		c.elemSegment()
		v.mod.DropsSegments = true
		return
	case fcTableCopy:
		dst := c.table(v.u32())
		if src := c.table(v.u32()); src != dst {
			c.fail(CodeType, "table.copy from a table of type %s to one of type %s", src, dst)
		}
		c.popSame(I32, 3)
	case fcTableGrow:
		t := c.table(v.u32())
		c.popType(I32)
		c.popType(t)
		c.push(I32)
	case fcTableSize:
		c.table(v.u32())
		c.push(I32)
		return
	case fcTableFill:
		t := c.table(v.u32())
		c.popType(I32)
		c.popType(t)
		c.popType(I32)
	default:
		c.fail(CodeOpcode, "unknown instruction 0xfc %d", sub)
	}
	v.mod.ChangesTables = true
}

func (c *bodyChecker) popSame(t ValType, n int) {
	for ; n > 0; n-- {
		c.popType(t)
	}
}

func (c *bodyChecker) dataSegment() {
	i := c.v.u32()
	if c.v.dataCount < 0 {
		c.fail(CodeDataCount, "names data segment %d, but the module has no data count section", i)
	}
	if int64(i) >= int64(c.v.dataCount) {
		c.fail(CodeIndex, "data segment %d does not exist, there are %d", i, c.v.dataCount)
	}
}

func (c *bodyChecker) elemSegment() ValType {
	i := c.v.u32()
	if uint64(i) >= uint64(len(c.v.elems)) {
		c.fail(CodeIndex, "element segment %d does not exist, there are %d", i, len(c.v.elems))
	}
	return c.v.elems[i]
}
