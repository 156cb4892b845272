package instrument

// stretch is a run of instructions that are executed together: no branch leads into its middle. Leaving
// early through br_if, or a trap, does not end it, for its parts are charged at its start.
type stretch struct {
	pos    int   // where its charge goes
	weight int   // fuel, with what was folded in
	own    int   // fuel of its own instructions
	parent int32 // a stretch that is always executed before, once for each execution of this; -1: none
	nexts  int32 // calls of next that stand before it
	check  bool  // the charge is followed by the test
}

type editKind uint8

const (
	editCharge   editKind = iota // insert the charge of stretch arg
	editIndex                    // replace an index by arg
	editBulk                     // insert the charge of the operand on top of the stack; arg: right shift
	editGrow                     // replace memory.grow or table.grow by a charged one; arg: left shift
	editNextCode                 // replace a call of next by its code
)

// edit changes a body: cut bytes from pos on are replaced.
type edit struct {
	pos, cut int
	kind     editKind
	arg      uint32
}

// openBlock is a block of the function being metered.
type openBlock struct {
	op       byte
	dead     bool  // the block as a whole is never run
	targeted bool  // a branch leads to its label
	entry    int32 // stretch that leads into it
	head     int32 // stretch at the head of a loop
}

// meter plans the changes of one body after another.
type meter struct {
	reader
	fuel     bool
	exact    bool              // no folding
	imports  uint32            // functions below this index are host calls
	redirect map[uint32]uint32 // function indices to replace
	inline   bool

	stretches []stretch
	edits     []edit
	blocks    []openBlock
	current   int32
	nexts     int32
	dead      bool
	leaf      bool // no calls, loops, or charges by operand so far
	temps     bool // the two extra locals are needed
	sites     int  // calls of next in this body
	last      instr
}

// plan reads the instructions between pos and end and leaves edits in order of position.
func (m *meter) plan() {
	m.stretches, m.edits, m.blocks = m.stretches[:0], m.edits[:0], m.blocks[:0]
	m.nexts, m.dead, m.leaf, m.temps, m.sites, m.last = 0, false, true, false, 0, instr{}
	m.begin(m.pos, -1, weightEntry, true)
	m.blocks = append(m.blocks, openBlock{op: opBlock})
	var in instr
	for m.pos < m.end {
		m.decode(&in)
		if w := weights[in.op]; w > 0 && !m.dead {
			m.add(int(w))
		}
		m.visit(&in)
		m.last = in
	}
	switch {
	case m.fuel && !m.exact:
		m.fold()
	case !m.fuel:
		m.dropCharges()
	}
}

func (m *meter) add(weight int) {
	s := &m.stretches[m.current]
	s.own += weight
	s.weight += weight
}

// begin starts a stretch at pos and plans its charge.
func (m *meter) begin(pos int, parent int32, weight int, check bool) {
	m.current = int32(len(m.stretches))
	m.stretches = append(m.stretches, stretch{pos: pos, weight: weight, own: weight, parent: parent,
		nexts: m.nexts, check: check})
	m.edits = append(m.edits, edit{pos: pos, kind: editCharge, arg: uint32(m.current)})
}

func (m *meter) visit(in *instr) {
	switch in.op {
	case opUnreachable, opReturn:
		m.dead = true
	case opBlock, opLoop, opIf:
		m.enter(in)
	case opElse:
		b := &m.blocks[len(m.blocks)-1]
		b.op = opElse
		if b.dead {
			return
		}
		b.targeted = b.targeted || !m.dead // falling out of the first arm leads to the end
		m.dead = false
		m.begin(in.end, b.entry, 0, false)
	case opEnd:
		m.leave(in)
	case opBr:
		m.target(in.imm)
		m.dead = true
	case opBrIf:
		m.target(in.imm)
		if !m.dead {
			m.begin(in.end, m.current, 0, false)
		}
	case opBrTable:
		for n := in.imm + 1; n > 0; n-- {
			m.target(m.u32())
		}
		in.end = m.pos
		m.dead = true
	case opCall:
		m.call(in)
	case opCallIndirect:
		m.leaf = false
	case opRefFunc:
		if to, ok := m.redirect[in.imm]; ok {
			m.edits = append(m.edits, edit{in.pos + 1, in.end - in.pos - 1, editIndex, to})
		}
	case opMemoryGrow:
		m.grow(in, pageShift)
	case opPrefixFC:
		m.bulk(in)
	}
}

func (m *meter) target(depth uint32) {
	if !m.dead {
		m.blocks[len(m.blocks)-1-int(depth)].targeted = true
	}
}

func (m *meter) enter(in *instr) {
	b := openBlock{op: in.op, dead: m.dead, entry: m.current}
	if !m.dead && in.op != opBlock {
		if in.op == opLoop {
			m.begin(in.end, m.current, 1, true)
			b.head = m.current
			m.leaf = false
		} else {
			m.begin(in.end, m.current, 0, false)
		}
	}
	m.blocks = append(m.blocks, b)
}

func (m *meter) leave(in *instr) {
	b := m.blocks[len(m.blocks)-1]
	m.blocks = m.blocks[:len(m.blocks)-1]
	if b.dead || len(m.blocks) == 0 {
		m.dead = b.dead
		return
	}
	falls := !m.dead
	switch b.op {
	case opLoop:
		if !b.targeted {
			m.stretches[b.head].check = false // runs once: an ordinary block
		} else {
			m.stretches[b.head].parent = -1
		}
		m.dead = !falls
		if b.targeted && falls {
			m.begin(in.end, b.entry, 0, false)
		}
	case opBlock:
		m.dead = !falls && !b.targeted
		if b.targeted {
			m.begin(in.end, b.entry, 0, false)
		}
	default: // if, with or without else
		m.dead = b.op == opElse && !falls && !b.targeted
		if !m.dead {
			m.begin(in.end, b.entry, 0, false)
		}
	}
}

func (m *meter) call(in *instr) {
	to, isNext := m.redirect[in.imm]
	if isNext {
		kind := editIndex
		pos, cut := in.pos+1, in.end-in.pos-1
		if m.inline && !m.dead {
			kind, pos, cut = editNextCode, in.pos, in.end-in.pos
			m.temps = true
		}
		m.edits = append(m.edits, edit{pos, cut, kind, to})
		m.sites++
		m.nexts++
	}
	m.leaf = false
	if m.dead {
		return
	}
	if isNext {
		m.begin(in.end, -1, 0, false)
	} else if in.imm < m.imports {
		m.add(weightHostCall - weightCall)
	}
}

// bulk charges instructions whose work depends on the operand on top of the stack.
func (m *meter) bulk(in *instr) {
	if in.sub != fcTableGrow || m.dead || !m.fuel {
		defer m.normalise(in)
	}
	if m.dead {
		return
	}
	shift := uint32(0)
	switch in.sub {
	case fcMemoryInit, fcMemoryCopy, fcMemoryFill:
		shift = bulkShift
	case fcTableInit, fcTableCopy, fcTableFill:
	case fcTableGrow:
		m.grow(in, 0)
		return
	default:
		return
	}
	m.add(weightBulk)
	if m.last.op == opI32Const && m.last.end == in.pos && m.last.imm <= constBulkMax {
		m.add(int(m.last.imm >> shift))
		return
	}
	m.leaf = false
	if m.fuel {
		m.temps = true
		m.edits = append(m.edits, edit{in.pos, 0, editBulk, shift})
	}
}

// normalise writes a padded opcode in its shortest form: wazero's compiler knows fc 8a 00, its
// interpreter does not.
func (m *meter) normalise(in *instr) {
	n := 1
	for m.buf[in.pos+n] >= 0x80 {
		n++
	}
	if n > 1 {
		m.edits = append(m.edits, edit{in.pos + 1, n, editIndex, in.sub})
	}
}

func (m *meter) grow(in *instr, shift uint32) {
	if m.dead {
		return
	}
	m.leaf = false
	if in.op == opPrefixFC {
		m.add(weightGrow)
	}
	if m.fuel {
		m.temps = true
		m.edits = append(m.edits, edit{in.pos, in.end - in.pos, editGrow, shift})
	}
}

// fold moves the weight of short stretches to the ones that lead to them, so that most branches cost no
// charge of their own. A stretch and its parent lie in the same loop, so each execution is still paid;
// what is not executed after all is paid too, at most foldBudget or as much as the parent itself weighs.
// No weight moves over a call of next: it belongs to the record it is spent for.
func (m *meter) fold() {
	total := 0
	for i := len(m.stretches) - 1; i > 0; i-- {
		s := &m.stretches[i]
		total += s.weight
		if s.check || s.parent < 0 || s.weight == 0 {
			continue
		}
		p := &m.stretches[s.parent]
		if p.nexts != s.nexts || s.weight > foldWeight || p.weight-p.own+s.weight > max(foldBudget, p.own) {
			continue
		}
		p.weight += s.weight
		total -= s.weight
		s.weight = 0
	}
	if first := &m.stretches[0]; m.leaf && total+first.weight <= leafWithoutCheck {
		first.check = false
	}
}

// dropCharges is for code without fuel.
func (m *meter) dropCharges() {
	for i := range m.stretches {
		m.stretches[i].weight, m.stretches[i].check = 0, false
	}
}
