package abi

// What scan_next writes into the guest's buffer: whole entries back to back, as many as fit, each
//
//	0 u32 key length    of a map entry's key; 0 in a list
//	4 u32 value length
//	8 key, value
//
// It returns the number of entries, 0 at the end. When not even the next entry fits it returns
// StatusTooSmall and the iterator stays where it is; the guest calls again with a larger buffer.
const ScanEntryHeader = 8

// How get reports lengths: it returns the value's whole length, and writes the value only if the
// buffer holds all of it. So a guest whose buffer was too small knows how large the next must be.
