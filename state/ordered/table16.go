package ordered

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	tableParts = 16
	tableFirst = 256 // entries of a part at first: one memory page
)

// entry16 is an entry of a table16: (a, b) is what is looked up, c what is kept for it.
type entry16 struct {
	a uint64
	b uint32
	c uint32 // never 0; 0 marks a free place
}

// table16 is a hash table outside the Go heap for keys that are 96 bits of a good hash, or a hash that is
// mixed here. It has parts that grow apart from each other, so that no growth takes long.
type table16 struct {
	parts [tableParts]tablePart
	n     int
}

type tablePart struct {
	raw   []byte
	e     []entry16
	shift uint // 64 - log2 of the places
	n     int
}

func mix(a uint64) uint64 { return a * 0x9e3779b97f4a7c15 }

// reserve makes sure that the next insert of a finds a place.
func (t *table16) reserve(a uint64) error {
	p := &t.parts[mix(a)>>60]
	switch n := len(p.e); {
	case p.n*4 >= n*3:
		return p.resize(max(tableFirst, 2*n))
	case p.n*16 < n && n > tableFirst:
		return p.resize(n / 4)
	}
	return nil
}

func (p *tablePart) resize(n int) error {
	n = max(n, tableFirst)
	raw, b, err := mapHuge(n * 16)
	if err != nil {
		return err
	}
	old := *p
	*p = tablePart{raw: raw, e: unsafe.Slice((*entry16)(unsafe.Pointer(unsafe.SliceData(b))), n), shift: 64, n: old.n}
	for 1<<(64-p.shift) < n {
		p.shift--
	}
	for _, x := range old.e {
		if x.c != 0 {
			p.e[p.free(x.a)] = x
		}
	}
	old.close()
	return nil
}

func (p *tablePart) home(a uint64) int { return int(mix(a) << 4 >> p.shift) }

func (p *tablePart) free(a uint64) int {
	i := p.home(a)
	for p.e[i].c != 0 {
		i = (i + 1) & (len(p.e) - 1)
	}
	return i
}

// find is the entry, or nil; valid until the next insert or remove.
func (t *table16) find(a uint64, b uint32) *entry16 {
	p := &t.parts[mix(a)>>60]
	if len(p.e) == 0 {
		return nil
	}
	for i := p.home(a); ; i = (i + 1) & (len(p.e) - 1) {
		e := &p.e[i]
		if e.c == 0 {
			return nil
		}
		if e.a == a && e.b == b {
			return e
		}
	}
}

// insert adds an entry that is not there; reserve has made room.
func (t *table16) insert(a uint64, b, c uint32) {
	p := &t.parts[mix(a)>>60]
	p.e[p.free(a)] = entry16{a, b, c}
	p.n++
	t.n++
}

// remove drops an entry that find gave, moving later ones of its cluster up.
func (t *table16) remove(e *entry16) {
	p := &t.parts[mix(e.a)>>60]
	p.n--
	t.n--
	mask := len(p.e) - 1
	hole := int((uintptr(unsafe.Pointer(e)) - uintptr(unsafe.Pointer(&p.e[0]))) / 16)
	for i := (hole + 1) & mask; p.e[i].c != 0; i = (i + 1) & mask {
		// an entry may fill the hole if its home is not behind it, seen around the end
		if (i-p.home(p.e[i].a))&mask >= (i-hole)&mask {
			p.e[hole] = p.e[i]
			hole = i
		}
	}
	p.e[hole].c = 0
}

func (t *table16) bytes() (n int64) {
	for i := range t.parts {
		n += int64(len(t.parts[i].e)) * 16
	}
	return n
}

func (p *tablePart) close() {
	if p.raw != nil {
		_ = unix.Munmap(p.raw) // fails only for ranges that are not ours
	}
}

func (t *table16) close() {
	for i := range t.parts {
		t.parts[i].close()
	}
	*t = table16{}
}
