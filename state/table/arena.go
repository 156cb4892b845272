package table

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// arena holds the payloads (key and value) that don't fit into their table entry: slabs of one size
// class each; what exceeds the largest class has a mapping of its own. A slab without payloads goes
// back to a pool of slabs, so that another class can have its memory.
type arena struct {
	slabs  []slab
	spare  []uint32               // numbers without memory
	empty  []uint32               // slabs with memory but without payloads
	open   [arenaClasses][]uint32 // slabs with a free place
	mapped int64
}

type slab struct {
	p    unsafe.Pointer
	mem  []byte
	size uint32 // of a place; 0: not in use
	free uint32 // first free place + 1, a list through the places; 0: none
	bump uint32 // places never used start here
	used uint32
	open bool // in the open list of its class
}

const (
	slabBytes    = 256 << 10
	arenaMin     = 32
	arenaClasses = 4*11 + 1 // up to 64 KiB
	emptySlabs   = 4        // kept with memory
)

// arenaClass is the size class of a payload: four per doubling from 32 bytes on.
func arenaClass(n int) (class int, size uint32) {
	if n <= arenaMin {
		return 0, arenaMin
	}
	e := bits.Len(uint(n-1)) - 1 // 2^e < n <= 2^(e+1)
	q := uint(e - 2)
	step := (n - 1 - 1<<e) >> q // quarter of the doubling
	return 4*(e-5) + step + 1, uint32(1<<e + (step+1)<<q)
}

const arenaMax = 64 << 10

func (a *arena) at(ref uint64) unsafe.Pointer {
	return unsafe.Add(a.slabs[ref>>32].p, uint32(ref))
}

// alloc returns a place of at least n bytes.
func (a *arena) alloc(n int) (uint64, error) {
	if n > arenaMax {
		i, err := a.slab(n)
		if err != nil {
			return 0, err
		}
		a.slabs[i].used = 1
		return uint64(i) << 32, nil
	}
	class, size := arenaClass(n)
	if len(a.open[class]) == 0 {
		i, err := a.slab(slabBytes)
		if err != nil {
			return 0, err
		}
		s := &a.slabs[i]
		s.size, s.free, s.bump, s.used, s.open = size, 0, 0, 0, true
		a.open[class] = append(a.open[class], i)
	}
	list := a.open[class]
	i := list[len(list)-1]
	s := &a.slabs[i]
	var off uint32
	if s.free != 0 {
		off = s.free - 1
		s.free = *(*uint32)(unsafe.Add(s.p, off))
	} else {
		off = s.bump
		s.bump += size
	}
	s.used++
	if s.free == 0 && s.bump+size > slabBytes {
		s.open = false
		a.open[class] = list[:len(list)-1]
	}
	return uint64(i)<<32 | uint64(off), nil
}

// slab returns the number of a slab with memory.
func (a *arena) slab(n int) (uint32, error) {
	if k := len(a.empty); n == slabBytes && k > 0 {
		i := a.empty[k-1]
		a.empty = a.empty[:k-1]
		return i, nil
	}
	mem, err := mapMemory(n)
	if err != nil {
		return 0, err
	}
	a.mapped += int64(n)
	s := slab{p: unsafe.Pointer(unsafe.SliceData(mem)), mem: mem}
	if k := len(a.spare); k > 0 {
		i := a.spare[k-1]
		a.spare = a.spare[:k-1]
		a.slabs[i] = s
		return i, nil
	}
	a.slabs = append(a.slabs, s)
	return uint32(len(a.slabs) - 1), nil
}

// release frees the place of a payload of n bytes.
func (a *arena) release(ref uint64, n int) {
	i := uint32(ref >> 32)
	s := &a.slabs[i]
	if s.used == 0 {
		panic(fmt.Sprintf("table: payload %x freed twice", ref))
	}
	s.used--
	if n > arenaMax {
		a.unmap(i)
		return
	}
	class, size := arenaClass(n)
	if size != s.size {
		panic(fmt.Sprintf("table: payload of %d bytes freed in a slab of %d", n, s.size))
	}
	off := uint32(ref)
	*(*uint32)(unsafe.Add(s.p, off)) = s.free
	s.free = off + 1
	if !s.open {
		s.open = true
		a.open[class] = append(a.open[class], i)
	}
	if list := a.open[class]; s.used == 0 {
		for j, x := range list {
			if x == i {
				list[j] = list[len(list)-1]
				a.open[class] = list[:len(list)-1]
				break
			}
		}
		s.size, s.open = 0, false
		if len(a.empty) < emptySlabs {
			a.empty = append(a.empty, i)
		} else {
			a.unmap(i)
		}
	}
}

func (a *arena) unmap(i uint32) {
	s := &a.slabs[i]
	a.mapped -= int64(len(s.mem))
	unmapMemory(s.mem)
	*s = slab{}
	a.spare = append(a.spare, i)
}

func (a *arena) close() {
	for i := range a.slabs {
		unmapMemory(a.slabs[i].mem)
	}
	*a = arena{}
}
