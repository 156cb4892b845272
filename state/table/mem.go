package table

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	hugePage   = 2 << 20
	hugeFrom   = 4 << 20 // mappings at least this large ask for huge pages
	chunkSize  = 1 << 20 // of record buffers, from the third on
	smallChunk = 64 << 10
)

// mapMemory maps zeroed memory outside the Go heap, where the collector never looks.
func mapMemory(n int) ([]byte, error) {
	b, err := mapPlain(n)
	if err == nil && n >= hugeFrom {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // a hint
	}
	return b, err
}

// mapPlain maps memory with pages of the system's choice.
func mapPlain(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("table: map %d bytes: %w", n, err)
	}
	return b, nil
}

func unmapMemory(b []byte) {
	if b != nil {
		_ = unix.Munmap(b) // can only fail for a wrong argument
	}
}

// dropPages gives the pages of b back; they read as zeros afterwards.
func dropPages(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) }

// chunks is a pool of record buffer chunks, shared by all tables of the process: small ones, since most
// spills and deltas are small, and large ones.
var chunks struct {
	sync.Mutex
	small, large [][]byte
}

const chunksKept = 16

func getChunk(size int) ([]byte, error) {
	if size > chunkSize {
		return mapMemory(size)
	}
	free := &chunks.large
	if size <= smallChunk {
		size, free = smallChunk, &chunks.small
	} else {
		size = chunkSize
	}
	chunks.Lock()
	defer chunks.Unlock()
	if n := len(*free); n > 0 {
		b := (*free)[n-1]
		*free = (*free)[:n-1]
		return b, nil
	}
	return mapMemory(size)
}

func putChunk(b []byte) {
	chunks.Lock()
	defer chunks.Unlock()
	free := &chunks.large
	if cap(b) == smallChunk {
		free = &chunks.small
	}
	if cap(b) != smallChunk && cap(b) != chunkSize || len(*free) >= chunksKept {
		unmapMemory(b[:cap(b)])
		return
	}
	*free = append(*free, b[:cap(b)])
}
