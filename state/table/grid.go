package table

import (
	"fmt"
	"math/bits"
	"unsafe"
)

// Entry, stride bytes, native order:
//
//	0 hash u64, 0: empty | 8 epoch u32 | 12 key length u16 | 14 age u8 | 15 flags u8 | 16 value length u32 |
//	20 key, value; with fExt: 24 place u64 of both in the arena
const (
	entryHeader = 20
	extOff      = 24
	minStride   = 64
	maxStride   = 512

	fTomb  = 1 // the key is removed; runs may hold older versions
	fExt   = 2 // key and value are in the arena
	fFresh = 4 // the runs say that the key is absent: removing it needs no tombstone
)

// grid is the memory of a table: positions in hash order. An entry's home is its hash's place in the
// table's hash range, scaled; it is at its home or behind it, with no empty position between. There is
// no wrap-around: a pad follows the last home, and behind the pad one position that stays empty.
type grid struct {
	p      unsafe.Pointer
	mem    []byte
	warm   *warmer // nil: mem has its pages
	stride uintptr
	cap    uint64 // homes
	mul    uint64 // home(x) = high word of x * mul
	slots  int    // homes and pad
	last   uint64 // the highest relative hash
}

// newGrid maps an empty grid; one to grow to gets its huge pages while it is filled.
func newGrid(homes uint64, stride uintptr, width uint64, growing bool) (g grid, err error) {
	pad := uint64(1024)
	if homes >= 1<<18 {
		pad = 4096
	}
	g = grid{stride: stride, cap: homes, mul: scale(homes, width), slots: int(homes + pad), last: width<<48 - 1}
	if n := (g.slots + 1) * int(stride); growing {
		g.mem, g.warm, err = mapGrowing(n)
	} else {
		g.mem, err = mapMemory(n)
	}
	if err != nil {
		return grid{}, err
	}
	g.p = unsafe.Pointer(unsafe.SliceData(g.mem))
	return g, nil
}

// free gives the memory back.
func (g *grid) free() {
	g.warm.wait()
	unmapMemory(g.mem)
	*g = grid{}
}

// scale is the factor that maps hashes of so many slots to n places: place = high word of (x * factor).
func scale(n, slots uint64) uint64 { return n << 16 / slots }

func (g *grid) bytes() int64 { return int64(len(g.mem)) }

func (g *grid) at(i int) unsafe.Pointer { return unsafe.Add(g.p, uintptr(i)*g.stride) }

// home of a hash relative to the range's start.
func (g *grid) home(x uint64) int {
	if x > g.last {
		panic(fmt.Sprintf("table: a key's hash is %d slots past the start of the task's slots", x>>48))
	}
	h, _ := bits.Mul64(x, g.mul)
	return int(h)
}

// boundary is the lowest relative hash whose home is >= i; end: there is none.
func (g *grid) boundary(i int) (x uint64, end bool) {
	if i == 0 {
		return 0, false
	}
	if uint64(i) >= g.cap {
		return 0, true
	}
	q, r := bits.Div64(uint64(i), 0, g.mul)
	if r > 0 {
		q++
	}
	return q, q > g.last
}

func eHash(e unsafe.Pointer) *uint64  { return (*uint64)(e) }
func eEpoch(e unsafe.Pointer) *uint32 { return (*uint32)(unsafe.Add(e, 8)) }
func eKlen(e unsafe.Pointer) *uint16  { return (*uint16)(unsafe.Add(e, 12)) }
func eAge(e unsafe.Pointer) *uint8    { return (*uint8)(unsafe.Add(e, 14)) }
func eFlags(e unsafe.Pointer) *uint8  { return (*uint8)(unsafe.Add(e, 15)) }
func eVlen(e unsafe.Pointer) *uint32  { return (*uint32)(unsafe.Add(e, 16)) }
func eExt(e unsafe.Pointer) *uint64   { return (*uint64)(unsafe.Add(e, extOff)) }

// payload is where key and value are.
func (t *Table) payload(e unsafe.Pointer) unsafe.Pointer {
	if *eFlags(e)&fExt != 0 {
		return t.arena.at(*eExt(e))
	}
	return unsafe.Add(e, entryHeader)
}

func (t *Table) entryKey(e unsafe.Pointer) []byte {
	return unsafe.Slice((*byte)(t.payload(e)), *eKlen(e))
}

func (t *Table) entryValue(e unsafe.Pointer) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(t.payload(e), *eKlen(e))), *eVlen(e))
}

func payloadSize(e unsafe.Pointer) int { return int(*eKlen(e)) + int(*eVlen(e)) }

// hasKey says whether an entry is that of a key. Short keys are compared here: a call of the runtime's
// comparison costs as much as the rest of a look-up in the cache.
func (t *Table) hasKey(e unsafe.Pointer, key []byte) bool {
	n := int(*eKlen(e))
	if n != len(key) {
		return false
	}
	if n < 8 || n > 16 {
		return string(t.entryKey(e)) == string(key)
	}
	a, b := t.payload(e), unsafe.Pointer(unsafe.SliceData(key))
	return *(*uint64)(a) == *(*uint64)(b) && *(*uint64)(unsafe.Add(a, n-8)) == *(*uint64)(unsafe.Add(b, n-8))
}

// find returns the position of a key, or where it would be inserted and false.
func (t *Table) find(g *grid, h uint64, key []byte) (int, bool) {
	i := g.home(h - t.base)
	e := g.at(i)
	for {
		x := *eHash(e)
		if x == h && t.hasKey(e, key) {
			return i, true
		}
		if x == 0 {
			return i, false
		}
		e = unsafe.Add(e, g.stride)
		i++
	}
}

// shift empties position i, whose payload is released, and closes the gap: entries behind it in the
// cluster move back unless that were before their home. Position i holds another entry then, or none.
func (t *Table) shift(g *grid, i int) {
	for {
		j := i + 1
		for {
			e := g.at(j)
			h := *eHash(e)
			if h == 0 {
				*eHash(g.at(i)) = 0
				return
			}
			if g.home(h-t.base) <= i {
				copyEntry(g.at(i), e, g.stride)
				break
			}
			j++
		}
		i = j
	}
}

func copyEntry(to, from unsafe.Pointer, n uintptr) {
	copy(unsafe.Slice((*byte)(to), n), unsafe.Slice((*byte)(from), n))
}
