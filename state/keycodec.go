package state

import (
	"encoding/binary"
	"fmt"
)

// Layout of a composite key, order preserving and self-delimiting behind the hash (C015):
//
//	hash (8, big endian) | escaped key | user key, raw
//	hash (8, big endian) | escaped key | escaped namespace | user key, raw
//
// Escaping writes 00 as 00 FF and ends with 00 01, so no escaped string is a prefix of another one and
// bytes order is the order of the originals. 00 00 in place of the end of the key is free: it sorts right
// before all entries of the key and stands for "the key was cleared" (ClearMarker).
const (
	escByte   = 0x00
	escZero   = 0xFF // 00 FF: a zero byte
	escEnd    = 0x01 // 00 01: the end
	escClear  = 0x00 // 00 00: the clear marker of a key
	escBehind = 0x02 // 00 02: right behind all entries of a key
)

// HashBytes is the length of the hash in front of a composite key.
const HashBytes = 8

// AppendEscaped appends b escaped and delimited.
func AppendEscaped(dst, b []byte) []byte {
	for {
		i := 0
		for i < len(b) && b[i] != escByte {
			i++
		}
		dst = append(dst, b[:i]...)
		if i == len(b) {
			return append(dst, escByte, escEnd)
		}
		dst = append(dst, escByte, escZero)
		b = b[i+1:]
	}
}

// ReadEscaped decodes an escaped string at the front of b, appending it to dst; rest is what follows.
func ReadEscaped(dst, b []byte) (s, rest []byte, err error) {
	for i := 0; i < len(b); i++ {
		if b[i] != escByte {
			continue
		}
		dst = append(dst, b[:i]...)
		if i+1 == len(b) {
			break
		}
		switch b[i+1] {
		case escEnd:
			return dst, b[i+2:], nil
		case escZero:
			dst = append(dst, escByte)
			b = b[i+2:]
			i = -1
		default:
			return dst, nil, fmt.Errorf("%w: key with escape 00 %02x, expected 00 01 or 00 ff", ErrCorrupt, b[i+1])
		}
	}
	return dst, nil, fmt.Errorf("%w: key without its end 00 01", ErrCorrupt)
}

// AppendPrefix appends the prefix that all composite keys of k share and no other key's have.
func AppendPrefix(dst []byte, k Key) []byte {
	dst = binary.BigEndian.AppendUint64(dst, k.Hash)
	return AppendEscaped(dst, k.Bytes)
}

// AppendComposite appends the composite key of an entry of k.
func AppendComposite(dst []byte, k Key, ukey []byte) []byte {
	return append(AppendPrefix(dst, k), ukey...)
}

// AppendNamespaced appends the composite key of an entry of k in a namespace.
func AppendNamespaced(dst []byte, k Key, ns, ukey []byte) []byte {
	return append(AppendEscaped(AppendPrefix(dst, k), ns), ukey...)
}

// PrefixLen is the length of the prefix (hash and escaped key) of a composite key or a clear marker, 0 if
// b is neither.
func PrefixLen(b []byte) int {
	for i := HashBytes; i+1 < len(b); i++ {
		if b[i] == escByte {
			if b[i+1] != escZero {
				return i + 2
			}
			i++
		}
	}
	return 0
}

// ClearMarker turns a prefix in place into the key of its clear marker, which sorts before all entries.
func ClearMarker(prefix []byte) []byte {
	prefix[len(prefix)-1] = escClear
	return prefix
}

// IsClearMarker says whether b is a clear marker.
func IsClearMarker(b []byte) bool {
	n := len(b)
	return n >= HashBytes+2 && b[n-1] == escClear && b[n-2] == escByte && PrefixLen(b) == n
}

// PrefixEnd turns a prefix in place into the exclusive upper bound of its entries.
func PrefixEnd(prefix []byte) []byte {
	prefix[len(prefix)-1] = escBehind
	return prefix
}

// DecodeComposite splits a composite key; the key is appended to buf, ukey points into b.
func DecodeComposite(b, buf []byte) (k Key, ukey []byte, err error) {
	if len(b) < HashBytes+2 {
		return k, nil, fmt.Errorf("%w: composite key of %d bytes, expected at least %d", ErrCorrupt, len(b), HashBytes+2)
	}
	k.Hash = binary.BigEndian.Uint64(b)
	k.Bytes, ukey, err = ReadEscaped(buf, b[HashBytes:])
	return k, ukey, err
}
