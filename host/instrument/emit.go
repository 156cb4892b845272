package instrument

import "encoding/binary"

// code builds instructions.
type code []byte

func (c *code) op(op ...byte)              { *c = append(*c, op...) }
func (c *code) u32(op byte, v uint32)      { *c = binary.AppendUvarint(append(*c, op), uint64(v)) }
func (c *code) i32(v int32)                { *c = appendSigned(append(*c, opI32Const), int64(v)) }
func (c *code) i64(v int64)                { *c = appendSigned(append(*c, opI64Const), v) }
func (c *code) globalGet(i uint32)         { c.u32(opGlobalGet, i) }
func (c *code) globalSet(i uint32)         { c.u32(opGlobalSet, i) }
func (c *code) trapIf()                    { c.op(opIf, blockVoid, opUnreachable, opEnd) }
func appendU32(d []byte, v uint32) []byte  { return binary.AppendUvarint(d, uint64(v)) }
func appendName(d []byte, n string) []byte { return append(appendU32(d, uint32(len(n))), n...) }

func appendSigned(d []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if v == 0 && b&0x40 == 0 || v == -1 && b&0x40 != 0 {
			return append(d, b)
		}
		d = append(d, b|0x80)
	}
}

// charge takes n units.
func (r *rewriter) charge(c *code, n int) {
	c.globalGet(r.fuel)
	c.i64(int64(n))
	c.op(opI64Sub)
	c.globalSet(r.fuel)
}

// test traps when the fuel is below the stop word: 0, or the largest number once the host says stop.
func (r *rewriter) test(c *code) {
	c.globalGet(r.fuel)
	c.globalGet(r.stop)
	c.op(opI64LtS)
	c.trapIf()
}

// chargeLocal takes the i32 in a local, shifted right or left, and tests.
func (r *rewriter) chargeLocal(c *code, local uint32, shift uint32, shiftOp byte) {
	c.globalGet(r.fuel)
	c.u32(opLocalGet, local)
	c.op(opI64ExtendU)
	if shift > 0 {
		c.i64(int64(shift))
		c.op(shiftOp)
	}
	c.op(opI64Sub)
	c.globalSet(r.fuel)
	r.test(c)
}

// grow runs the instruction (memory.grow or table.grow) and charges its operand if it succeeded: a guest
// may ask for too much and get -1.
func (r *rewriter) grow(c *code, instruction []byte, temp, shift uint32) {
	c.u32(opLocalTee, temp)
	c.op(instruction...)
	c.u32(opLocalTee, temp+1)
	c.i32(-1)
	c.op(opI32Ne, opIf, blockVoid)
	r.chargeLocal(c, temp, shift, opI64Shl)
	c.op(opEnd)
	c.u32(opLocalGet, temp+1)
}

// next is the import mr.next inside the module: the record index is in a local, the result is left on the
// stack. See the package comment for what it does.
func (r *rewriter) next(c *code, local uint32) {
	c.u32(opLocalGet, local) // not the next record, or the quantum is spent, or no fuel, or stop
	c.globalGet(r.cursor)
	c.i32(1)
	c.op(opI32Add, opI32Ne)
	c.globalGet(r.quantum)
	c.i64(1)
	c.op(opI64LtS, opI32Or)
	c.globalGet(r.fuel)
	c.globalGet(r.stop)
	c.op(opI64LtS, opI32Or)
	c.op(opIf, blockVoid)
	c.i32(1)
	c.globalSet(r.misuse)
	c.op(opUnreachable, opEnd)

	c.globalGet(r.prologue) // the first of this call closes the prologue, the others a record
	c.i64(0)
	c.op(opI64LtS, opIf, blockVoid)
	c.globalGet(r.fuel)
	c.globalSet(r.prologue)
	c.op(opElse)
	c.globalGet(r.quantum)
	c.globalGet(r.limit)
	c.op(opI64Sub)
	c.globalGet(r.fuel)
	c.op(opI64Add)
	c.globalSet(r.quantum)
	c.op(opEnd)

	c.globalGet(r.limit) // open the account of this record
	c.globalSet(r.fuel)
	c.u32(opLocalGet, local)
	c.globalSet(r.cursor)
	c.globalGet(r.quantum)
	c.i64(1)
	c.op(opI64LtS)
}
