package abi

// What scan_next writes into the guest's buffer: whole entries back to back, as many as fit, each
//
//	0 u32 key length    map: of the entry's key; list: 8, the element's number, big endian
//	4 u32 value length
//	8 key, value
//
// It returns the bytes written, 0 at the end. When not even the next entry fits it returns
// StatusTooSmall, puts the entry's size at the buffer's start as a u32 (if there are 4 bytes), and the
// iterator stays; the guest calls again with at least that much.
const ScanEntryHeader = 8

// get returns the value's whole length, and writes the value only if the buffer holds all of it. So a
// guest whose buffer was too small knows how large the next must be.
