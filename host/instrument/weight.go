package instrument

// Fuel of what is not one simple instruction. A unit is meant to be near one instruction of compiled
// code, 0.3 to 1 ns; where an instruction does more, it costs more, so that no module runs much longer
// on its fuel than another.
const (
	weightEntry      = 2    // a function's frame
	weightCall       = 3    //
	weightIndirect   = 6    // look-up, type check
	weightHostCall   = 64   // leaves the guest: about 55 ns
	weightDivide     = 8    // integer division and remainder
	weightFloatSlow  = 4    // division, square root, rounding
	weightBulk       = 8    // a bulk instruction before its first byte
	weightGrow       = 64   // memory.grow and table.grow, successful or not
	bulkShift        = 3    // 8 bytes of a bulk memory instruction a unit
	pageShift        = 10   // 1,024 units a page that memory.grow adds
	constBulkMax     = 1024 // bulk instructions with a constant length up to here are charged like others
	leafWithoutCheck = 64   // weight up to which a function without calls and loops needs no check of its own
	foldWeight       = 16   // stretches up to here may be charged with the one that leads to them
	foldBudget       = 64   // as long as the sum is not above this or the leading one's own weight
)

var weights = buildWeights()

func buildWeights() (w [256]uint32) {
	for i := range w {
		w[i] = 1
	}
	for _, op := range []byte{opNop, opBlock, opLoop, opElse, opEnd, opUnreachable} {
		w[op] = 0
	}
	for _, op := range []byte{0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82} {
		w[op] = weightDivide
	}
	for _, op := range []byte{0x8d, 0x8e, 0x8f, 0x90, 0x91, 0x95, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa3} {
		w[op] = weightFloatSlow
	}
	w[opCall], w[opCallIndirect] = weightCall, weightIndirect
	w[opMemoryGrow] = weightGrow
	w[opBrTable] = 2
	return w
}
