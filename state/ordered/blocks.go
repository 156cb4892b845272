package ordered

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	smallestBlock = 256
	largestShared = 128 << 10 // a larger block has a mapping of its own
	blockClasses  = 20
)

// blocks hands out byte blocks outside the Go heap for long values and keys, in size classes of 2^k and
// 1.5*2^k bytes. Who holds a block knows its length, from which the class follows.
type blocks struct {
	free  [blockClasses]unsafe.Pointer // lists of free blocks, linked through their first 8 bytes
	spare [blockClasses]int
	raw   [][]byte
	rest  []byte // of the newest segment
	own   map[unsafe.Pointer][]byte
	live  int64 // bytes handed out, rounded up
}

// classOf is the size class for n bytes and its block size.
func classOf(n int) (class, size int) {
	if n <= smallestBlock {
		return 0, smallestBlock
	}
	k := bits.Len(uint(n-1)) - 1 // 2^k < n <= 2^(k+1)
	class = 2 * (k - 7)          // of 2^(k+1); 2^8 is class 0
	if n <= 3<<(k-1) {
		return class - 1, 3 << (k - 1)
	}
	return class, 2 << k
}

// reserve makes sure that count allocs of n bytes (at most largestShared) succeed.
func (b *blocks) reserve(n, count int) error {
	class, size := classOf(n)
	for b.spare[class] < count {
		p, err := b.carve(size)
		if err != nil {
			return err
		}
		b.push(class, p)
	}
	return nil
}

func (b *blocks) push(class int, p unsafe.Pointer) {
	*(*unsafe.Pointer)(p) = b.free[class]
	b.free[class] = p
	b.spare[class]++
}

func (b *blocks) carve(size int) (unsafe.Pointer, error) {
	if len(b.rest) < size {
		seg, err := mapAnon(segmentBytes)
		if err != nil {
			return nil, err
		}
		b.raw = append(b.raw, seg)
		b.rest = seg
	}
	p := unsafe.Pointer(unsafe.SliceData(b.rest))
	b.rest = b.rest[size:]
	return p, nil
}

// alloc gives a block for n bytes with arbitrary content.
func (b *blocks) alloc(n int) (unsafe.Pointer, error) {
	if n > largestShared {
		m, err := mapAnon((n + 4095) &^ 4095)
		if err != nil {
			return nil, err
		}
		if b.own == nil {
			b.own = map[unsafe.Pointer][]byte{}
		}
		p := unsafe.Pointer(unsafe.SliceData(m))
		b.own[p] = m
		b.live += int64(len(m))
		return p, nil
	}
	class, size := classOf(n)
	if b.spare[class] > 0 {
		p := b.free[class]
		b.free[class] = *(*unsafe.Pointer)(p)
		b.spare[class]--
		b.live += int64(size)
		return p, nil
	}
	p, err := b.carve(size)
	if err == nil {
		b.live += int64(size)
	}
	return p, err
}

// release takes back a block of n bytes.
func (b *blocks) release(p unsafe.Pointer, n int) {
	if n > largestShared {
		m := b.own[p]
		delete(b.own, p)
		b.live -= int64(len(m))
		_ = unix.Munmap(m) // fails only for ranges that are not ours
		return
	}
	class, size := classOf(n)
	b.push(class, p)
	b.live -= int64(size)
}

func (b *blocks) close() {
	for _, m := range b.raw {
		_ = unix.Munmap(m) // as above
	}
	for _, m := range b.own {
		_ = unix.Munmap(m) // as above
	}
	*b = blocks{}
}
