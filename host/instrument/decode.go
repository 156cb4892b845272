package instrument

// instr is one instruction of a valid body.
type instr struct {
	pos, end int // in the module
	op       byte
	sub      uint32 // opcode behind 0xfc
	imm      uint32 // first immediate: a label, function, type, local or i32 constant
}

// skipLEB steps over n integers.
func (r *reader) skipLEB(n int) {
	for ; n > 0; n-- {
		for r.buf[r.pos] >= 0x80 {
			r.pos++
		}
		r.pos++
	}
}

// decode reads the next instruction of a body that Validate has accepted; it checks nothing. For br_table
// pos stays behind the opcode's own count, which is imm, so that the caller reads the labels.
func (r *reader) decode(in *instr) {
	in.pos, in.op, in.sub, in.imm = r.pos, r.buf[r.pos], 0, 0
	r.pos++
	switch op := in.op; {
	case op == opBlock || op == opLoop || op == opIf:
		r.skipLEB(1)
	case op == opBr || op == opBrIf || op == opCall || op == opRefFunc:
		in.imm = r.u32()
	case op == opBrTable:
		in.imm = r.u32()
		return
	case op == opCallIndirect || op >= opLoadFirst && op <= opStoreLast:
		r.skipLEB(2)
	case op >= opLocalGet && op <= opTableSet, op == opI64Const:
		r.skipLEB(1)
	case op == opMemorySize || op == opMemoryGrow || op == opRefNull:
		r.pos++
	case op == opI32Const:
		in.imm = uint32(r.signed(32))
	case op == opF32Const:
		r.pos += 4
	case op == opF64Const:
		r.pos += 8
	case op == opSelectTyped:
		r.pos += 2
	case op == opPrefixFC:
		in.sub = r.u32()
		switch in.sub {
		case 0, 1, 2, 3, 4, 5, 6, 7:
		case fcMemoryInit, fcMemoryCopy, fcTableInit, fcTableCopy:
			r.skipLEB(2)
		default:
			r.skipLEB(1)
		}
	}
	in.end = r.pos
}
