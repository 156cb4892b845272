package instrument

// block is an open block of a function: its types and the operand stack below it.
type block struct {
	op          byte // opBlock (also the function itself), opLoop, opIf, opElse
	unreachable bool // the rest of the block is never run: operands may be taken from nowhere
	height      int  // operands below the block
	params      []ValType
	results     []ValType
}

// labelTypes are what a branch to the block takes along.
func (b *block) labelTypes() []ValType {
	if b.op == opLoop {
		return b.params
	}
	return b.results
}

// bodyChecker type-checks function bodies, one after another, with the algorithm of the specification's
// appendix: a stack of operand types and a stack of open blocks. It keeps both stacks between bodies.
type bodyChecker struct {
	v        *validator
	fn       uint32
	locals   []ValType
	stack    []ValType
	blocks   []block
	targets  int // of the function's br_tables
	branches int // as Limits.Branches counts them
	op       byte
	at       int // of the instruction being checked
	function FuncType
}

func (c *bodyChecker) fail(code, format string, args ...any) {
	fail(c.at, code, "%s: %s", c.where(), sprint(format, args...))
}

func (c *bodyChecker) where() string {
	if name := c.v.mod.FuncNames[c.fn]; name != "" {
		return sprint("function %d (%s)", c.fn, name)
	}
	return sprint("function %d", c.fn)
}

// check reads the body between v.pos and v.end.
func (c *bodyChecker) check(fn uint32) {
	v := c.v
	c.fn, c.at, c.op, c.targets, c.branches = fn, v.pos, 0, 0, 0
	if n := v.end - v.pos; n > v.lim.BodyBytes {
		c.failLimit("body", "bytes of the body", uint64(n), v.lim.BodyBytes)
	}
	c.function = v.mod.FuncType(fn)
	c.readLocals()
	c.stack, c.blocks = c.stack[:0], c.blocks[:0]
	c.open(opBlock, nil, c.function.Results)
	for len(c.blocks) > 0 {
		c.at = v.pos
		if v.pos >= v.end {
			c.fail(CodeControl, "body ends with %d blocks open", len(c.blocks))
		}
		c.op = v.byte()
		c.instruction()
	}
	if v.squares += c.branches * c.branches; v.squares > v.lim.BranchSquares {
		c.failLimit("branch-squares", "sum of the squares of the functions' branches", uint64(v.squares), v.lim.BranchSquares)
	}
	if v.pos != v.end {
		c.at = v.pos
		c.fail(CodeSectionLength, "%d bytes are left over at the end of the body", v.end-v.pos)
	}
}

func (c *bodyChecker) failLimit(name, what string, have uint64, limit int) {
	failLimit(c.at, name, c.where()+": "+what, have, limit)
}

func (c *bodyChecker) readLocals() {
	v := c.v
	c.locals = append(c.locals[:0], c.function.Params...)
	for groups := v.count("local groups", 2); groups > 0; groups-- {
		c.at = v.pos
		n := v.u32()
		t := v.valType()
		if total := uint64(n) + uint64(len(c.locals)); total > uint64(v.lim.Locals) {
			c.failLimit("locals", "locals", total, v.lim.Locals)
		}
		for ; n > 0; n-- {
			c.locals = append(c.locals, t)
		}
	}
}

func (c *bodyChecker) push(t ValType) {
	if len(c.stack) >= c.v.lim.OperandStack {
		c.failLimit("stack", "operands on the stack", uint64(len(c.stack)+1), c.v.lim.OperandStack)
	}
	c.stack = append(c.stack, t)
}

func (c *bodyChecker) pushAll(ts []ValType) {
	for _, t := range ts {
		c.push(t)
	}
}

// pop takes an operand of any type.
func (c *bodyChecker) pop() ValType {
	b := &c.blocks[len(c.blocks)-1]
	if len(c.stack) == b.height {
		if b.unreachable {
			return unknown
		}
		c.fail(CodeStack, "instruction 0x%02x takes an operand, the stack of its block is empty", c.op)
	}
	t := c.stack[len(c.stack)-1]
	c.stack = c.stack[:len(c.stack)-1]
	return t
}

// popType takes an operand of type want.
func (c *bodyChecker) popType(want ValType) ValType {
	have := c.pop()
	if have != want && have != unknown && want != unknown {
		c.fail(CodeType, "instruction 0x%02x takes %s, the operand has type %s", c.op, want, have)
	}
	return have
}

func (c *bodyChecker) popAll(ts []ValType) {
	for i := len(ts) - 1; i >= 0; i-- {
		c.popType(ts[i])
	}
}

// branch counts what makes compiling a function dear.
func (c *bodyChecker) branch(n int) {
	if c.branches += n; c.branches > c.v.lim.Branches {
		c.failLimit("branches", "blocks and branches", uint64(c.branches), c.v.lim.Branches)
	}
}

func (c *bodyChecker) open(op byte, params, results []ValType) {
	if n := len(c.blocks); n > c.v.lim.Nesting {
		c.failLimit("nesting", "blocks open at once", uint64(n), c.v.lim.Nesting)
	}
	c.blocks = append(c.blocks, block{op: op, height: len(c.stack), params: params, results: results})
	c.v.mod.DeepestNesting = max(c.v.mod.DeepestNesting, len(c.blocks)-1)
	c.pushAll(params)
}

// close ends the innermost block and takes its results from the stack.
func (c *bodyChecker) close() block {
	b := c.blocks[len(c.blocks)-1]
	c.popAll(b.results)
	if len(c.stack) != b.height {
		c.fail(CodeStack, "%d operands are left over at the end of a block", len(c.stack)-b.height)
	}
	c.blocks = c.blocks[:len(c.blocks)-1]
	return b
}

func (c *bodyChecker) setUnreachable() {
	b := &c.blocks[len(c.blocks)-1]
	c.stack = c.stack[:b.height]
	b.unreachable = true
}

// label reads a label index and returns the types a branch to it takes along.
func (c *bodyChecker) label() []ValType {
	depth := c.v.u32()
	if uint64(depth) >= uint64(len(c.blocks)) {
		c.fail(CodeIndex, "label %d does not exist, %d blocks are open", depth, len(c.blocks))
	}
	return c.blocks[len(c.blocks)-1-int(depth)].labelTypes()
}

var singleResults = map[ValType][]ValType{
	I32: {I32}, I64: {I64}, F32: {F32}, F64: {F64}, FuncRef: {FuncRef}, ExternRef: {ExternRef}}

// blockType reads the type of a block.
func (c *bodyChecker) blockType() (params, results []ValType) {
	v := c.v
	if v.pos < v.end {
		switch b := v.buf[v.pos]; {
		case b == blockVoid:
			v.pos++
			return nil, nil
		case b&0xc0 == 0x40: // one byte, negative: a value type
			return nil, singleResults[v.valType()]
		}
	}
	i := v.signed(33)
	if i < 0 || i >= int64(len(v.mod.Types)) {
		c.fail(CodeIndex, "block has type %d, there are %d types", i, len(v.mod.Types))
	}
	t := v.mod.Types[i]
	return t.Params, t.Results
}

// control checks the instructions that open, close and leave blocks; false: it is none of them.
func (c *bodyChecker) control() bool {
	switch c.op {
	case opUnreachable:
		c.setUnreachable()
	case opNop:
	case opBlock, opLoop, opIf:
		params, results := c.blockType()
		if c.branch(1); c.op == opLoop {
			c.branch(3) // its test is a block more
		}
		if c.op == opIf {
			c.popType(I32)
		}
		c.popAll(params)
		c.open(c.op, params, results)
	case opElse:
		if c.blocks[len(c.blocks)-1].op != opIf {
			c.fail(CodeControl, "else without if")
		}
		b := c.close()
		c.open(opElse, b.params, b.results)
	case opEnd:
		b := c.close()
		if b.op == opIf && string(asBytes(b.params)) != string(asBytes(b.results)) {
			c.fail(CodeType, "if without else has parameters %v and results %v, which must be equal", b.params, b.results)
		}
		if len(c.blocks) > 0 {
			c.pushAll(b.results)
		}
	case opBr:
		c.popAll(c.label())
		c.setUnreachable()
	case opBrIf:
		c.branch(1)
		types := c.label()
		c.popType(I32)
		c.popAll(types)
		c.pushAll(types)
	case opBrTable:
		c.branchTable()
	case opReturn:
		c.popAll(c.function.Results)
		c.setUnreachable()
	default:
		return false
	}
	return true
}

func (c *bodyChecker) branchTable() {
	v := c.v
	n := v.u32()
	if uint64(n) > uint64(v.lim.BranchTable) {
		c.failLimit("br-table", "targets of a br_table", uint64(n), v.lim.BranchTable)
	}
	if c.targets += int(n) + 1; c.targets > v.lim.BranchTargets {
		c.failLimit("br-targets", "targets of all br_tables", uint64(c.targets), v.lim.BranchTargets)
	}
	if v.targets += int(n) + 1; v.targets > v.lim.TableTargets {
		c.failLimit("table-targets", "targets of the module's br_tables", uint64(v.targets), v.lim.TableTargets)
	}
	c.popType(I32)
	height, arity := len(c.stack), -1
	for i := uint32(0); i <= n; i++ {
		types := c.label()
		if arity >= 0 && len(types) != arity {
			c.fail(CodeType, "targets of a br_table take %d and %d operands", arity, len(types))
		}
		arity = len(types)
		// Each target is held against the same operands: what popping cuts off is still in the array.
		c.popAll(types)
		c.stack = c.stack[:height]
	}
	c.setUnreachable()
}
