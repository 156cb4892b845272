package table

import (
	"encoding/binary"
	"unsafe"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// A batch's value cells, for keys it has just found: one loop over all of them, which stops at the first
// that is not as usual.

// LoadCells writes cells of stride bytes for keys from number from on, and returns the number of the first
// that it did not: its entry is not at its position, or its value is longer than max. It does nothing while
// the table grows. Uses do not count, as FindAll counted them.
func (t *Table) LoadCells(keys []state.Key, pos []state.Pos, cells []byte, stride, max, from int) int {
	if t.moving {
		return from
	}
	g := &t.cur
	for i := from; i < len(keys); i++ {
		e := t.at(g, pos[i], keys[i].Hash, keys[i].Bytes)
		if e == nil {
			return i
		}
		cell := cells[i*stride : (i+1)*stride]
		if *eFlags(e)&fTomb != 0 {
			binary.LittleEndian.PutUint64(cell, 0)
			continue
		}
		v := t.entryValue(e)
		if len(v) > max {
			return i
		}
		binary.LittleEndian.PutUint64(cell, uint64(len(v))|abi.CellPresent<<32)
		copyShort(cell[abi.CellHeader:], v)
	}
	return len(keys)
}

// StoreCells takes over the cells that the guest changed, from number from on, in the case of Overwrite,
// and returns the number of the first that is another. It does nothing while the table grows.
func (t *Table) StoreCells(keys []state.Key, pos []state.Pos, cells []byte, stride, max, from int) int {
	if t.moving {
		return from
	}
	g := &t.cur
	for i := from; i < len(keys); i++ {
		cell := cells[i*stride : (i+1)*stride]
		head := binary.LittleEndian.Uint64(cell)
		if head>>32&abi.CellChanged == 0 {
			continue
		}
		e := t.at(g, pos[i], keys[i].Hash, keys[i].Bytes)
		n := int(uint32(head))
		if e == nil || head>>32&abi.CellPresent == 0 || n > max || int(*eVlen(e)) != n ||
			*eEpoch(e) != t.epoch || *eFlags(e)&fTomb != 0 {
			return i
		}
		copyShort(t.entryValue(e), cell[abi.CellHeader:abi.CellHeader+n])
	}
	return len(keys)
}

// copyShort copies b to the start of to, which has the room; counters and the like by words.
func copyShort(to, b []byte) {
	if n := len(b); n == 8 || n == 16 {
		_ = to[n-1]
		f, t := unsafe.Pointer(unsafe.SliceData(b)), unsafe.Pointer(unsafe.SliceData(to))
		*(*uint64)(t) = *(*uint64)(f)
		*(*uint64)(unsafe.Add(t, n-8)) = *(*uint64)(unsafe.Add(f, n-8))
		return
	}
	copy(to, b)
}
