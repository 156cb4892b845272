package wasmtest

import (
	"encoding/binary"
	"math"
)

// Code joins instructions.
func Code(parts ...[]byte) []byte {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	d := make([]byte, 0, n)
	for _, p := range parts {
		d = append(d, p...)
	}
	return d
}

// Op is an instruction without immediates.
func Op(op ...byte) []byte { return op }

func opU32(op byte, v ...uint32) []byte {
	d := []byte{op}
	for _, x := range v {
		d = binary.AppendUvarint(d, uint64(x))
	}
	return d
}

// Instructions without immediates that tests use often.
var (
	Unreachable = []byte{0x00}
	Else        = []byte{0x05}
	End         = []byte{0x0b}
	Return      = []byte{0x0f}
	Drop        = []byte{0x1a}
	MemorySize  = []byte{0x3f, 0}
	MemoryGrow  = []byte{0x40, 0}
	I32Eqz      = []byte{0x45}
	I32Eq       = []byte{0x46}
	I32LtU      = []byte{0x49}
	I32GeU      = []byte{0x4f}
	I32Add      = []byte{0x6a}
	I32Sub      = []byte{0x6b}
	I32Mul      = []byte{0x6c}
	I32And      = []byte{0x71}
	I32Or       = []byte{0x72}
	I64Add      = []byte{0x7c}
	MemoryCopy  = []byte{0xfc, 10, 0, 0}
	MemoryFill  = []byte{0xfc, 11, 0}
)

// Block, Loop and If open a block of a type: Void or one value type. Close it with End.
func Block(t byte) []byte { return []byte{0x02, t} }

// Loop opens a loop.
func Loop(t byte) []byte { return []byte{0x03, t} }

// If opens a conditional block.
func If(t byte) []byte { return []byte{0x04, t} }

// Br branches to the depth-th open block.
func Br(depth uint32) []byte { return opU32(0x0c, depth) }

// BrIf branches if the operand is not 0.
func BrIf(depth uint32) []byte { return opU32(0x0d, depth) }

// BrTable branches to the operand-th target; the last is the default.
func BrTable(targets ...uint32) []byte {
	d := opU32(0x0e, uint32(len(targets)-1))
	for _, t := range targets {
		d = append(d, U32(t)...)
	}
	return d
}

// Call calls a function.
func Call(f uint32) []byte { return opU32(0x10, f) }

// CallIndirect calls through table 0.
func CallIndirect(t uint32) []byte { return opU32(0x11, t, 0) }

// LocalGet pushes a local.
func LocalGet(i uint32) []byte { return opU32(0x20, i) }

// LocalSet pops into a local.
func LocalSet(i uint32) []byte { return opU32(0x21, i) }

// LocalTee copies the top into a local.
func LocalTee(i uint32) []byte { return opU32(0x22, i) }

// GlobalGet pushes a global.
func GlobalGet(i uint32) []byte { return opU32(0x23, i) }

// GlobalSet pops into a global.
func GlobalSet(i uint32) []byte { return opU32(0x24, i) }

// I32Const pushes a constant.
func I32Const(v int32) []byte { return append([]byte{0x41}, S64(int64(v))...) }

// I64Const pushes a constant.
func I64Const(v int64) []byte { return append([]byte{0x42}, S64(v)...) }

// F64Const pushes a constant.
func F64Const(v float64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{0x44}, math.Float64bits(v))
}

// Memory accesses with alignment 2^0 and an offset.

// I32Load loads 4 bytes.
func I32Load(offset uint32) []byte { return opU32(0x28, 0, offset) }

// I32Load8U loads a byte.
func I32Load8U(offset uint32) []byte { return opU32(0x2d, 0, offset) }

// I32Store stores 4 bytes.
func I32Store(offset uint32) []byte { return opU32(0x36, 0, offset) }

// I64Store stores 8 bytes.
func I64Store(offset uint32) []byte { return opU32(0x37, 0, offset) }

// I32Store8 stores a byte.
func I32Store8(offset uint32) []byte { return opU32(0x3a, 0, offset) }

// RefFunc pushes a reference to a function.
func RefFunc(f uint32) []byte { return opU32(0xd2, f) }

// TableGrow grows a table by the operand; the new entries are the reference below it.
func TableGrow(t uint32) []byte { return append([]byte{0xfc, 15}, U32(t)...) }

// Times repeats instructions.
func Times(n int, code ...[]byte) []byte {
	one := Code(code...)
	d := make([]byte, 0, n*len(one))
	for i := 0; i < n; i++ {
		d = append(d, one...)
	}
	return d
}
