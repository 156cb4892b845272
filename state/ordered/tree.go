package ordered

import (
	"bytes"
	"unsafe"
)

const (
	maxDepth  = 24
	longBlock = 4 << 10 // reserved for separators of long keys
)

// tree is a B+tree of composite keys outside the Go heap.
//
// Iterators see the tree as of their creation: opening one starts a new epoch, and while any is open a
// page of an earlier epoch is copied before it is changed. Pages and blocks that an iterator may see are
// given back when the last one closes. There are no links between leaves, so a copied leaf touches only
// its path.
type tree struct {
	pages   *pages
	blocks  blocks
	root    uint32
	depth   int // inner levels
	count   int64
	epoch   uint64
	open    int      // iterators
	limbo   []uint32 // pages that wait for iterators
	limboB  []block  // blocks that do
	hasLong bool     // a long key was put
	path    [maxDepth]step
	split   split
	sep     []byte
}

type step struct {
	page uint32
	i    int // child taken
}

type block struct {
	at uintptr
	n  int
}

func newTree() *tree { return &tree{pages: newPages(pageSize), epoch: 1} }

func (t *tree) page(i uint32) *page { return (*page)(t.pages.at(i)) }

// bytes is what the tree takes off heap.
func (t *tree) bytes() int64 { return t.pages.bytes() + t.blocks.live }

// prepare makes sure that a change of one entry finds all the memory it needs, so that it happens
// completely or not at all.
func (t *tree) prepare() error {
	if err := t.pages.reserve(2*t.depth + 4); err != nil {
		return err
	}
	if t.hasLong {
		if err := t.blocks.reserve(longBlock, t.depth+2); err != nil {
			return err
		}
	}
	if t.root == 0 {
		t.root = t.newPage(true)
	}
	return nil
}

func (t *tree) newPage(leaf bool) uint32 {
	i := t.pages.alloc()
	t.page(i).init(leaf, t.epoch)
	return i
}

func (t *tree) dropPage(i uint32) {
	if t.open > 0 && t.page(i).epoch != t.epoch {
		t.limbo = append(t.limbo, i)
		return
	}
	t.pages.release(i)
}

func (t *tree) dropBlock(p unsafe.Pointer, n int) {
	if t.open > 0 {
		t.limboB = append(t.limboB, block{uintptr(p), n})
		return
	}
	t.blocks.release(p, n)
}

// dropCell gives back the blocks of a cell.
func (t *tree) dropCell(c *cell) {
	if c.flags == 0 {
		return
	}
	if c.flags&flagLongKey != 0 {
		t.dropBlock(unsafe.Pointer(unsafe.SliceData(c.key())), int(c.klen))
	}
	if c.flags&flagLongValue != 0 {
		t.dropBlock(unsafe.Pointer(unsafe.SliceData(c.value())), int(c.x))
	}
}

// own makes page i changeable: the page itself, or a copy of it while an iterator may see it.
func (t *tree) own(i uint32) uint32 {
	if t.open == 0 || t.page(i).epoch == t.epoch {
		return i
	}
	c := t.pages.alloc()
	*t.page(c) = *t.page(i)
	t.page(c).epoch = t.epoch
	t.limbo = append(t.limbo, i)
	return c
}

// find is the leaf and place of k, for reading.
func (t *tree) find(k []byte) (*page, int, bool) {
	if t.root == 0 {
		return nil, 0, false
	}
	p := t.page(t.root)
	for !p.leaf {
		p = t.page(p.child(p.route(k)))
	}
	i, ok := p.lower(k)
	return p, i, ok
}

// get is the entry of k.
func (t *tree) get(k []byte) (v []byte, kd kind, ok bool) {
	p, i, ok := t.find(k)
	if !ok {
		return nil, 0, false
	}
	c := p.cell(i)
	return c.value(), c.kind, true
}

// descend goes to the leaf of k, makes every page on the way changeable and leaves the way in t.path.
func (t *tree) descend(k []byte) *page {
	t.root = t.own(t.root)
	id := t.root
	p := t.page(id)
	for d := 0; ; d++ {
		t.path[d].page = id
		if p.leaf {
			return p
		}
		i := p.route(k)
		t.path[d].i = i
		id = t.own(p.child(i))
		p.setChild(i, id)
		p = t.page(id)
	}
}

// put sets the entry of k. On error nothing has changed.
func (t *tree) put(k, v []byte, kd kind) error {
	if len(k) > maxInline {
		t.hasLong = true
	}
	if err := t.prepare(); err != nil {
		return err
	}
	var kp, vp unsafe.Pointer
	var err error
	if len(v) > maxInline {
		if vp, err = t.blocks.alloc(len(v)); err != nil {
			return err
		}
		copy(unsafe.Slice((*byte)(vp), len(v)), v)
	}
	p := t.descend(k)
	i, found := p.lower(k)
	if found {
		c := p.cell(i)
		if t.overwrite(p, c, v, vp, kd) {
			return nil
		}
	}
	if len(k) > maxInline {
		if kp, err = t.blocks.alloc(len(k)); err != nil { // reserved: cannot happen
			return err
		}
		copy(unsafe.Slice((*byte)(kp), len(k)), k)
	}
	if found {
		t.dropCell(p.cell(i))
		p.remove(i, i+1)
	} else {
		t.count++
	}
	fillCell(t.place(p, i, cellBytes(k, v)), k, v, kp, vp, kd)
	t.mend()
	return nil
}

// overwrite replaces the value in place if the new one takes no more room.
func (t *tree) overwrite(p *page, c *cell, v []byte, vp unsafe.Pointer, kd kind) bool {
	if vp != nil || c.flags&flagLongValue != 0 {
		if vp == nil || c.flags&flagLongValue == 0 {
			return false
		}
		old := c.value()
		t.dropBlock(unsafe.Pointer(unsafe.SliceData(old)), len(old))
		storeAddr(c.at(cellHead+c.keyRoom()), vp)
	} else {
		if len(v) > int(c.x) {
			return false
		}
		p.dead += uint16(int(c.x) - len(v))
		copy(unsafe.Slice((*byte)(c.at(cellHead+c.keyRoom())), len(v)), v)
	}
	c.x, c.kind = uint32(len(v)), kd
	return true
}

func cellBytes(k, v []byte) int {
	n := cellHead + len(k)
	if len(k) > maxInline {
		n = cellHead + keyHead + pointer
	}
	if len(v) > maxInline {
		return n + pointer
	}
	return n + len(v)
}

func fillCell(c *cell, k, v []byte, kp, vp unsafe.Pointer, kd kind) {
	c.klen, c.flags, c.kind, c.x = uint16(len(k)), 0, kd, uint32(len(v))
	fillKey(c, k, kp)
	at := c.at(cellHead + c.keyRoom())
	if vp != nil {
		c.flags |= flagLongValue
		storeAddr(at, vp)
		return
	}
	copy(unsafe.Slice((*byte)(at), len(v)), v)
}

func fillKey(c *cell, k []byte, kp unsafe.Pointer) {
	if kp != nil {
		c.flags |= flagLongKey
		copy(unsafe.Slice((*byte)(c.at(cellHead)), keyHead), k)
		storeAddr(c.at(cellHead+keyHead), kp)
		return
	}
	copy(unsafe.Slice((*byte)(c.at(cellHead)), len(k)), k)
}

// del removes the entry of k and says whether there was one.
func (t *tree) del(k []byte) (bool, error) {
	if _, _, ok := t.find(k); !ok {
		return false, nil
	}
	if err := t.prepare(); err != nil {
		return false, err
	}
	p := t.descend(k)
	i, _ := p.lower(k)
	t.dropCell(p.cell(i))
	p.remove(i, i+1)
	t.count--
	t.shrink(t.depth)
	return true, nil
}

// removeRange removes all entries in [lo, hi) and says how many, and how many leaves it visited. The
// memory it needs is at most a copy of two paths per leaf visited, taken leaf by leaf: after an error the
// range is removed in part.
func (t *tree) removeRange(lo, hi []byte) (n int64, leaves int, err error) {
	from := append([]byte(nil), lo...)
	for t.root != 0 {
		if err := t.prepare(); err != nil {
			return n, leaves, err
		}
		p := t.descend(from)
		leaves++
		i, _ := p.lower(from)
		j, _ := p.lower(hi)
		last := j < int(p.n)
		if !last {
			next := t.behind()
			last = next == nil || bytes.Compare(next, hi) >= 0
			from = append(from[:0], next...)
		}
		if i < j {
			for x := i; x < j; x++ {
				t.dropCell(p.cell(x))
			}
			p.remove(i, j)
			n += int64(j - i)
			t.count -= int64(j - i)
			t.shrink(t.depth)
		}
		if last {
			break
		}
	}
	return n, leaves, nil
}

// behind is the separator right of the leaf at the end of the path, nil for the last leaf.
func (t *tree) behind() []byte {
	for d := t.depth - 1; d >= 0; d-- {
		p := t.page(t.path[d].page)
		if i := t.path[d].i; i < int(p.n) {
			return p.cell(i).key()
		}
	}
	return nil
}

// opened starts an iterator's view; closed ends it.
func (t *tree) opened() {
	t.epoch++
	t.open++
}

func (t *tree) closed() {
	if t.open--; t.open > 0 {
		return
	}
	for _, i := range t.limbo {
		t.pages.release(i)
	}
	for _, b := range t.limboB {
		t.blocks.release(*(*unsafe.Pointer)(unsafe.Pointer(&b.at)), b.n)
	}
	t.limbo, t.limboB = t.limbo[:0], t.limboB[:0]
}

func (t *tree) close() {
	t.pages.close()
	t.blocks.close()
	t.root, t.depth, t.count = 0, 0, 0
	t.limbo, t.limboB = nil, nil
}
