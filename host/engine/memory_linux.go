package engine

import "golang.org/x/sys/unix"

const mapNoReserve = unix.MAP_NORESERVE

// discard drops the pages of b, which reads as zero afterwards.
func discard(b []byte) error { return unix.Madvise(b, unix.MADV_DONTNEED) }
