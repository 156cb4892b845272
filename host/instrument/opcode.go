package instrument

// Opcodes that need more than the tables below.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opLoadFirst    = 0x28
	opStoreFirst   = 0x36
	opStoreLast    = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32Eq        = 0x46
	opI32Ne        = 0x47
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Or        = 0x72
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefixFC     = 0xfc

	blockVoid = 0x40
)

// Opcodes behind the prefix 0xfc; 0 to 7 are the saturating truncations.
const (
	fcMemoryInit = 8
	fcDataDrop   = 9
	fcMemoryCopy = 10
	fcMemoryFill = 11
	fcTableInit  = 12
	fcElemDrop   = 13
	fcTableCopy  = 14
	fcTableGrow  = 15
	fcTableSize  = 16
	fcTableFill  = 17
)

// numeric is the type of an instruction without immediates: up to two operands of one type, one result.
type numeric struct {
	operands int // 0: no such instruction
	in, out  ValType
}

// numericOps are the instructions 0x45 to 0xc4.
var numericOps = buildNumeric()

func buildNumeric() (t [256]numeric) {
	set := func(from, to int, operands int, in, out ValType) {
		for i := from; i <= to; i++ {
			t[i] = numeric{operands, in, out}
		}
	}
	set(0x45, 0x45, 1, I32, I32) // eqz, comparisons
	set(0x46, 0x4f, 2, I32, I32)
	set(0x50, 0x50, 1, I64, I32)
	set(0x51, 0x5a, 2, I64, I32)
	set(0x5b, 0x60, 2, F32, I32)
	set(0x61, 0x66, 2, F64, I32)
	set(0x67, 0x69, 1, I32, I32) // arithmetic
	set(0x6a, 0x78, 2, I32, I32)
	set(0x79, 0x7b, 1, I64, I64)
	set(0x7c, 0x8a, 2, I64, I64)
	set(0x8b, 0x91, 1, F32, F32)
	set(0x92, 0x98, 2, F32, F32)
	set(0x99, 0x9f, 1, F64, F64)
	set(0xa0, 0xa6, 2, F64, F64)
	set(0xa7, 0xa7, 1, I64, I32) // conversions
	set(0xa8, 0xa9, 1, F32, I32)
	set(0xaa, 0xab, 1, F64, I32)
	set(0xac, 0xad, 1, I32, I64)
	set(0xae, 0xaf, 1, F32, I64)
	set(0xb0, 0xb1, 1, F64, I64)
	set(0xb2, 0xb3, 1, I32, F32)
	set(0xb4, 0xb5, 1, I64, F32)
	set(0xb6, 0xb6, 1, F64, F32)
	set(0xb7, 0xb8, 1, I32, F64)
	set(0xb9, 0xba, 1, I64, F64)
	set(0xbb, 0xbb, 1, F32, F64)
	set(0xbc, 0xbc, 1, F32, I32) // reinterpretations
	set(0xbd, 0xbd, 1, F64, I64)
	set(0xbe, 0xbe, 1, I32, F32)
	set(0xbf, 0xbf, 1, I64, F64)
	set(0xc0, 0xc1, 1, I32, I32) // sign extension
	set(0xc2, 0xc4, 1, I64, I64)
	return t
}

// truncSat are the instructions 0xfc 0 to 7.
var truncSat = [8]numeric{
	{1, F32, I32}, {1, F32, I32}, {1, F64, I32}, {1, F64, I32},
	{1, F32, I64}, {1, F32, I64}, {1, F64, I64}, {1, F64, I64},
}

// access is a load or store: the type of the value and the log2 of its natural alignment.
type access struct {
	value ValType
	align uint32
}

// accesses are the instructions 0x28 to 0x3e.
var accesses = [...]access{
	{I32, 2}, {I64, 3}, {F32, 2}, {F64, 3}, // loads
	{I32, 0}, {I32, 0}, {I32, 1}, {I32, 1},
	{I64, 0}, {I64, 0}, {I64, 1}, {I64, 1}, {I64, 2}, {I64, 2},
	{I32, 2}, {I64, 3}, {F32, 2}, {F64, 3}, // stores
	{I32, 0}, {I32, 1}, {I64, 0}, {I64, 1}, {I64, 2},
}

// featureOf names the extension an instruction belongs to, or "" for an instruction nobody knows.
func featureOf(op byte) string {
	switch {
	case op >= 0x06 && op <= 0x0a || op == 0x18 || op == 0x19 || op == 0x1f:
		return "exception handling"
	case op == 0x12 || op == 0x13:
		return "tail calls"
	case op == 0x14 || op == 0x15 || op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	case op == 0xfb:
		return "garbage collection"
	case op == 0xfd:
		return "SIMD"
	case op == 0xfe:
		return "threads"
	}
	return ""
}
