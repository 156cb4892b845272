package ordered

import "unsafe"

// place makes room for a cell of n bytes at place i of leaf p, which is at the end of the path, splitting
// it if it is full. A split leaves its separator to mend, when the cell is filled.
func (t *tree) place(p *page, i, n int) *cell {
	t.split = split{}
	if p.room(n) {
		return p.insert(i, n)
	}
	right := t.newPage(true)
	r := t.page(right)
	m := p.middle(i, n)
	r.take(p, m, int(p.n))
	p.remove(m, int(p.n))
	t.split = split{right: right, level: t.depth}
	q := p
	if i > m || i == m && int(r.n) == 0 {
		q, i = r, i-m
	}
	q.room(n) // a cell is at most a third of a page: each half has room for it
	return q.insert(i, n)
}

// split is a page that was split: its right half still needs its place in the page above.
type split struct {
	right uint32
	level int // of the page that was split; its left half is t.path[level]
}

// middle is where to split a full page into which n bytes go at place i: everything from there on goes
// right. Appending leaves the left page full.
func (p *page) middle(i, n int) int {
	if i == int(p.n) {
		return i
	}
	half, sum := (p.fill()-pageHead)/2, 0
	m := 0
	for ; m < int(p.n)-1; m++ {
		if s := p.cell(m).size(p.leaf) + 2; sum+s/2 > half {
			break
		} else {
			sum += s
		}
	}
	return max(m, 1)
}

// mend puts the separator of a split leaf, and of inner pages split by that, into the pages above.
func (t *tree) mend() {
	if t.split.right == 0 {
		return
	}
	left, right := t.page(t.path[t.split.level].page), t.page(t.split.right)
	t.sep = separator(t.sep[:0], left.cell(int(left.n)-1).key(), right.cell(0).key())
	kp := t.longKey(t.sep)
	key := t.sep
	id := t.split.right
	for d := t.split.level - 1; ; d-- {
		if d < 0 {
			t.grow(key, kp, id)
			return
		}
		p := t.page(t.path[d].page)
		n := cellBytes(key, nil)
		i := t.path[d].i
		if p.room(n) {
			fillInner(p.insert(i, n), key, kp, id)
			return
		}
		key, kp, id = t.splitInner(p, i, key, kp, id)
	}
}

// splitInner splits p and puts the separator (key, id) to place i of the halves. It returns the
// separator between them and the right one.
func (t *tree) splitInner(p *page, i int, key []byte, kp unsafe.Pointer, id uint32) ([]byte, unsafe.Pointer, uint32) {
	right := t.newPage(false)
	r := t.page(right)
	m := min(p.middle(i, cellBytes(key, nil)), int(p.n)-1)
	mid := p.cell(m)
	up := append([]byte(nil), mid.key()...) // once in about fifty splits of a leaf
	var upBlock unsafe.Pointer
	if mid.flags&flagLongKey != 0 {
		upBlock = unsafe.Pointer(unsafe.SliceData(mid.key())) // moves up with its block
	}
	r.left = mid.x
	r.take(p, m+1, int(p.n))
	p.remove(m, int(p.n))
	q := p
	if i > m {
		q, i = r, i-m-1
	}
	n := cellBytes(key, nil)
	q.room(n)
	fillInner(q.insert(i, n), key, kp, id)
	return up, upBlock, right
}

func fillInner(c *cell, key []byte, kp unsafe.Pointer, child uint32) {
	c.klen, c.flags, c.kind, c.x = uint16(len(key)), 0, 0, child
	fillKey(c, key, kp)
}

// longKey is a block with a copy of a separator that is too long for a page, else nil.
func (t *tree) longKey(key []byte) unsafe.Pointer {
	if len(key) <= maxInline {
		return nil
	}
	p, err := t.blocks.alloc(longBlock) // prepare has reserved it
	if err != nil {
		panic(err)
	}
	copy(unsafe.Slice((*byte)(p), len(key)), key)
	return p
}

// grow puts a new root above the old one.
func (t *tree) grow(key []byte, kp unsafe.Pointer, right uint32) {
	id := t.newPage(false)
	p := t.page(id)
	p.left = t.root
	fillInner(p.insert(0, cellBytes(key, nil)), key, kp, right)
	t.root = id
	t.depth++
}

// separator appends the shortest string s with a < s <= b.
func separator(dst, a, b []byte) []byte {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return append(dst, b[:n+1]...)
}

// shrink mends the page at level d of the path after cells were removed: an empty page goes, one with
// little in it is merged with a neighbour.
func (t *tree) shrink(d int) {
	for ; d > 0; d-- {
		p := t.page(t.path[d].page)
		up := t.page(t.path[d-1].page)
		i := t.path[d-1].i
		switch {
		case p.n == 0 && (p.leaf || p.left == 0):
			t.dropChild(up, i)
		case p.fill() < underFull && t.merge(up, i):
		default:
			return
		}
	}
	t.lowerRoot()
}

// dropChild removes child i of up, which is empty. The page may be left with no child (left is 0).
func (t *tree) dropChild(up *page, i int) {
	t.dropPage(up.child(i))
	if up.n == 0 {
		up.left = 0
		return
	}
	if i == 0 {
		up.left = up.cell(0).x
		i = 1
	}
	t.dropSeparator(up, i-1)
}

func (t *tree) dropSeparator(up *page, i int) {
	c := up.cell(i)
	if c.flags&flagLongKey != 0 {
		t.dropBlock(unsafe.Pointer(unsafe.SliceData(c.key())), longBlock)
	}
	up.remove(i, i+1)
}

// merge moves child i of up and a neighbour into one page if they fit.
func (t *tree) merge(up *page, i int) bool {
	if up.n == 0 {
		return false
	}
	if i == int(up.n) {
		i--
	}
	sep := up.cell(i)
	l, r := t.page(up.child(i)), t.page(up.child(i+1))
	need := l.fill() + r.fill() - pageHead
	if !l.leaf {
		need += cellBytes(sep.key(), nil) + 2
	}
	if need > mergedFull {
		return false
	}
	left := t.own(up.child(i))
	up.setChild(i, left)
	l = t.page(left)
	l.compact()
	rightID := up.child(i + 1)
	if l.leaf {
		l.take(r, 0, int(r.n))
		t.dropPage(rightID)
		t.dropSeparator(up, i)
		return true
	}
	var kp unsafe.Pointer
	if sep.flags&flagLongKey != 0 {
		kp = unsafe.Pointer(unsafe.SliceData(sep.key())) // moves down with its block
	}
	n := cellBytes(sep.key(), nil)
	fillInner(l.insert(int(l.n), n), sep.key(), kp, r.left)
	l.take(r, 0, int(r.n))
	t.dropPage(rightID)
	up.remove(i, i+1)
	return true
}

// lowerRoot takes away root pages with a single child.
func (t *tree) lowerRoot() {
	for t.depth > 0 {
		p := t.page(t.root)
		if p.n > 0 {
			return
		}
		old := t.root
		t.root = p.left
		t.dropPage(old)
		t.depth--
		if t.root == 0 {
			t.depth = 0
			return
		}
	}
}
