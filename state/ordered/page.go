package ordered

import (
	"bytes"
	"unsafe"
)

const (
	pageSize   = 2048
	pageHead   = 24
	cellHead   = 8
	keyHead    = 32  // bytes of a long key kept in its cell
	maxInline  = 300 // longest key and longest value inside a page
	pointer    = 8
	underFull  = pageSize / 4     // a page with less is merged with a neighbour
	mergedFull = pageSize * 3 / 4 // if both together have no more
)

// kind says what an entry of the tree is.
type kind uint8

const (
	kindValue kind = iota
	kindTomb       // absent here, maybe present in the cold store
	kindClear      // clear marker: all of the key's entries in the cold store are absent
)

const (
	flagLongKey   = 1 << 0 // keyHead bytes of the key, then a pointer to a block with the whole key
	flagLongValue = 1 << 1 // a pointer to a block in place of the value
)

// page is a node of the tree: a header, slots (offsets of cells in key order), free space, cells. Cells
// are never moved but when the page is compacted.
type page struct {
	epoch uint64 // tree's epoch when the page was made: iterators opened later see it
	left  uint32 // inner page: the child left of the first separator
	n     uint16 // cells
	top   uint16 // lowest byte in use by a cell
	dead  uint16 // bytes between top and the end that no cell uses
	leaf  bool
	_     [pageSize - 19]byte
}

// cell is the head of an entry: key and value, or separator and child, follow it.
type cell struct {
	klen  uint16
	flags uint8
	kind  kind
	x     uint32 // leaf: length of the value; inner: the child with keys >= the separator
}

func (p *page) init(leaf bool, epoch uint64) {
	p.epoch, p.left, p.n, p.top, p.dead, p.leaf = epoch, 0, 0, pageSize, 0, leaf
}

func (p *page) slot(i int) *uint16 {
	return (*uint16)(unsafe.Add(unsafe.Pointer(p), pageHead+2*i))
}

func (p *page) cell(i int) *cell {
	return (*cell)(unsafe.Add(unsafe.Pointer(p), *p.slot(i)))
}

func (c *cell) at(off int) unsafe.Pointer { return unsafe.Add(unsafe.Pointer(c), off) }

// key is the whole key.
func (c *cell) key() []byte {
	if c.flags&flagLongKey == 0 {
		return unsafe.Slice((*byte)(c.at(cellHead)), c.klen)
	}
	return unsafe.Slice((*byte)(loadAddr(c.at(cellHead+keyHead))), c.klen)
}

// Cells are not aligned, so the addresses of blocks are kept as numbers.
func loadAddr(at unsafe.Pointer) unsafe.Pointer {
	u := *(*uintptr)(at)
	return *(*unsafe.Pointer)(unsafe.Pointer(&u))
}

func storeAddr(at, p unsafe.Pointer) { *(*uintptr)(at) = uintptr(p) }

func (c *cell) keyRoom() int {
	if c.flags&flagLongKey == 0 {
		return int(c.klen)
	}
	return keyHead + pointer
}

// value is the whole value of a leaf's cell.
func (c *cell) value() []byte {
	at := c.at(cellHead + c.keyRoom())
	if c.flags&flagLongValue != 0 {
		at = loadAddr(at)
	}
	return unsafe.Slice((*byte)(at), c.x)
}

func (c *cell) size(leaf bool) int {
	n := cellHead + c.keyRoom()
	switch {
	case !leaf:
	case c.flags&flagLongValue != 0:
		n += pointer
	default:
		n += int(c.x)
	}
	return n
}

func (p *page) child(i int) uint32 {
	if i == 0 {
		return p.left
	}
	return p.cell(i - 1).x
}

func (p *page) setChild(i int, c uint32) {
	if i == 0 {
		p.left = c
	} else {
		p.cell(i - 1).x = c
	}
}

// lower is the first cell whose key is >= k, and whether it is k.
func (p *page) lower(k []byte) (int, bool) {
	lo, hi := 0, int(p.n)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		switch c := bytes.Compare(p.cell(m).key(), k); {
		case c < 0:
			lo = m + 1
		case c > 0:
			hi = m
		default:
			return m, true
		}
	}
	return lo, false
}

// route is the child that holds k.
func (p *page) route(k []byte) int {
	i, exact := p.lower(k)
	if exact {
		i++
	}
	return i
}

// gap is the free space between slots and cells.
func (p *page) gap() int { return int(p.top) - pageHead - 2*int(p.n) }

// fill is what header, slots and cells take.
func (p *page) fill() int { return pageSize - p.gap() - int(p.dead) }

// room makes space for a cell of n bytes and its slot; false: the page is full.
func (p *page) room(n int) bool {
	if p.gap() >= n+2 {
		return true
	}
	if p.gap()+int(p.dead) < n+2 {
		return false
	}
	p.compact()
	return true
}

// insert makes an empty cell of n bytes at place i; room has said that it fits.
func (p *page) insert(i, n int) *cell {
	s := unsafe.Slice(p.slot(0), int(p.n)+1)
	copy(s[i+1:], s[i:])
	p.top -= uint16(n)
	s[i] = p.top
	p.n++
	return (*cell)(unsafe.Add(unsafe.Pointer(p), p.top))
}

// remove drops cells i..j-1; blocks they point to are the caller's business.
func (p *page) remove(i, j int) {
	for x := i; x < j; x++ {
		p.dead += uint16(p.cell(x).size(p.leaf))
	}
	s := unsafe.Slice(p.slot(0), int(p.n))
	copy(s[i:], s[j:])
	p.n -= uint16(j - i)
	if p.n == 0 {
		p.top, p.dead = pageSize, 0
	}
}

// compact moves the cells together.
func (p *page) compact() {
	var tmp page
	tmp.init(p.leaf, p.epoch)
	tmp.left = p.left
	tmp.take(p, 0, int(p.n))
	*p = tmp
}

// take appends copies of cells i..j-1 of q.
func (p *page) take(q *page, i, j int) {
	for ; i < j; i++ {
		c := q.cell(i)
		n := c.size(q.leaf)
		d := p.insert(int(p.n), n)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(d)), n), unsafe.Slice((*byte)(unsafe.Pointer(c)), n))
	}
}
