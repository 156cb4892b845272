//go:build unix && !linux

package engine

const mapNoReserve = 0

// discard writes zeros: elsewhere MADV_DONTNEED is only a hint.
func discard(b []byte) error {
	clear(b)
	return nil
}
