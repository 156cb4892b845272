package ordered

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	segmentBytes = 1 << 20
	manySegments = 8       // from here on as many at once
	hugePage     = 2 << 20 // large mappings are aligned to it
)

// pages hands out pages of one power-of-two size outside the Go heap, so that the garbage collector
// never looks at them. Page 0 is never handed out: it means none. Addresses never move.
type pages struct {
	size  int
	shift uint // log2 of pages per segment
	segs  []unsafe.Pointer
	raw   [][]byte
	free  uint32 // head of the list of free pages, linked through their first 4 bytes
	spare int    // pages that alloc can give without a new segment
	used  uint32 // first page never used
	live  int    // pages handed out
}

func newPages(size int) *pages {
	p := &pages{size: size, used: 1}
	for segmentBytes>>p.shift > size {
		p.shift++
	}
	return p
}

// at is the address of a page.
func (p *pages) at(i uint32) unsafe.Pointer {
	return unsafe.Add(p.segs[i>>p.shift], int(i&(1<<p.shift-1))*p.size)
}

// reserve makes sure that the next n allocs succeed.
func (p *pages) reserve(n int) error {
	for p.spare < n {
		size := segmentBytes
		if len(p.segs) >= manySegments {
			size = manySegments * segmentBytes
		}
		raw, b, err := mapHuge(size)
		if err != nil {
			return err
		}
		p.spare += size / p.size
		if len(p.segs) == 0 {
			p.spare-- // page 0
		}
		p.raw = append(p.raw, raw)
		for off := 0; off < size; off += segmentBytes {
			p.segs = append(p.segs, unsafe.Pointer(&b[off]))
		}
	}
	return nil
}

// alloc gives a page with arbitrary content; reserve has made sure that there is one.
func (p *pages) alloc() uint32 {
	p.spare--
	p.live++
	if i := p.free; i != 0 {
		p.free = *(*uint32)(p.at(i))
		return i
	}
	i := p.used
	p.used++
	return i
}

func (p *pages) release(i uint32) {
	*(*uint32)(p.at(i)) = p.free
	p.free = i
	p.spare++
	p.live--
}

func (p *pages) bytes() int64 { return int64(p.live) * int64(p.size) }

// close unmaps everything.
func (p *pages) close() {
	for _, b := range p.raw {
		_ = unix.Munmap(b) // fails only for ranges that are not ours
	}
	*p = pages{size: p.size, shift: p.shift, used: 1}
}

func mapAnon(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("state: map %d bytes of memory: %w", n, err)
	}
	return b, nil
}

// mapHuge maps n bytes. Large pieces are aligned and get huge pages where the system has them, as random
// access is bound by address translation. raw is what to unmap: untouched memory around b costs nothing.
func mapHuge(n int) (raw, b []byte, err error) {
	if n < hugePage {
		raw, err = mapAnon(n)
		return raw, raw, err
	}
	if raw, err = mapAnon(n + hugePage); err != nil {
		return nil, nil, err
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(raw)))) & (hugePage - 1)
	b = raw[skip : skip+n]
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // small pages do, too
	return raw, b, nil
}
