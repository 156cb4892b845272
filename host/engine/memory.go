package engine

import (
	"github.com/tetratelabs/wazero/experimental"
)

// linear is the linear memory of one instance: address space for its maximum is reserved once, so its
// base never moves and growing copies nothing. It lies outside the Go heap.
type linear struct {
	all   []byte // reserved
	used  int    // bytes usable
	limit uint64 // of the instance
	view  *[]byte
	err   error // of the operating system

	// refused is the size that a memory.grow asked for in vain since the call began; 0: none.
	refused uint64
}

var (
	_ experimental.MemoryAllocator = (*linear)(nil)
	_ experimental.LinearMemory    = (*linear)(nil)
)

// Allocate reserves the smaller of the module's maximum and the instance's limit.
func (l *linear) Allocate(_, most uint64) experimental.LinearMemory {
	l.all, l.err = reserve(int(min(most, l.limit)))
	return l
}

// Reallocate makes n bytes usable, or returns nil: memory.grow then gives the guest -1.
func (l *linear) Reallocate(n uint64) []byte {
	if n > uint64(len(l.all)) {
		l.refused = n
		return nil
	}
	if int(n) > l.used {
		if err := commit(l.all[l.used:n]); err != nil {
			l.err, l.refused = err, n
			return nil
		}
		l.used = int(n)
	}
	*l.view = l.all[:n:n]
	return *l.view
}

// Free gives the memory back.
func (l *linear) Free() {
	if l.all != nil {
		unreserve(l.all)
	}
	l.all, l.used, *l.view = nil, 0, nil
}
