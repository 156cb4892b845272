//go:build unix

package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// reserve takes n bytes of address space that can't be touched yet.
func reserve(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|mapNoReserve)
	if err != nil {
		return nil, fmt.Errorf("engine: reserve %d bytes for a linear memory: %w", n, err)
	}
	return b, nil
}

// commit makes b usable; fresh pages are zero.
func commit(b []byte) error { return unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE) }

// zero makes all of b zero by giving its pages back.
func zero(b []byte) error { return discard(b) }

func unreserve(b []byte) { _ = unix.Munmap(b) }
