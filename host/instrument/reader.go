package instrument

import (
	"unicode/utf8"
)

// reader reads the binary format between pos and end. What is wrong ends in fail.
type reader struct {
	buf []byte
	pos int
	end int
}

func (r *reader) left() int { return r.end - r.pos }

func (r *reader) byte() byte {
	if r.pos >= r.end {
		fail(r.pos, CodeTruncated, "ends where a byte was expected")
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

// bytes returns the next n bytes, not copied.
func (r *reader) bytes(n uint32, what string) []byte {
	if uint64(n) > uint64(r.left()) {
		fail(r.pos, CodeTruncated, "%s is %d bytes long, only %d are left", what, n, r.left())
	}
	b := r.buf[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// u32 reads an unsigned LEB128 of at most 32 bits.
func (r *reader) u32() uint32 {
	if r.pos < r.end {
		if b := r.buf[r.pos]; b < 0x80 {
			r.pos++
			return uint32(b)
		}
	}
	start := r.pos
	var v uint32
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift == 28 && b > 0x0f {
			fail(start, CodeLEB, "unsigned integer has more than 32 bits")
		}
		v |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return v
		}
	}
}

// signed reads a signed LEB128 of at most bits bits.
func (r *reader) signed(bits int) int64 {
	start := r.pos
	var v int64
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if rest := bits - shift; rest < 7 {
			// The last byte: no continuation, and the unused bits repeat the sign.
			if b >= 0x80 || (int8(b<<1)>>1)>>(rest-1) != 0 && (int8(b<<1)>>1)>>(rest-1) != -1 {
				fail(start, CodeLEB, "signed integer has more than %d bits", bits)
			}
		}
		v |= int64(b&0x7f) << shift
		if b < 0x80 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

// count reads the length of a vector whose elements take at least one byte each, so that a claimed count
// never asks for more memory than the module has bytes.
func (r *reader) count(what string, minBytes int) uint32 {
	at := r.pos
	n := r.u32()
	if uint64(n)*uint64(minBytes) > uint64(r.left()) {
		fail(at, CodeTruncated, "%d %s announced, %d bytes are left for them", n, what, r.left())
	}
	return n
}

// name reads a UTF-8 name.
func (r *reader) name(limit int) string {
	at := r.pos
	n := r.u32()
	b := r.bytes(n, "name")
	if int(n) > limit {
		failLimit(at, "name", "bytes of a name", uint64(n), limit)
	}
	if !utf8.Valid(b) {
		fail(at, CodeUTF8, "name %.40q is not UTF-8", b)
	}
	return string(b)
}
