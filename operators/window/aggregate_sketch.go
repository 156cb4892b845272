package window

import (
	"math"
	"math/bits"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
)

// sketch estimates the number of distinct values by HyperLogLog with 2^12 registers: standard error 1.6 %.
// Its variable part is at first a sorted list of u32 register<<8 | rank, later the registers, a byte each.
// Both hold the same, so the result depends on the set of values alone.
type sketch struct {
	f          field
	buf, spare []byte
}

const (
	sketchBits   = 12
	sketchSize   = 1 << sketchBits
	sketchSparse = sketchSize / 4 // bytes of the list, at most
)

func (*sketch) words() int     { return 0 }
func (*sketch) variable() bool { return true }

func (s *sketch) add(_, v []byte, in *input) []byte {
	x, ok := s.f.bits(in)
	if !ok {
		return v
	}
	var h uint64
	if s.f.text() {
		b, _ := s.f.bytes(in)
		h = xxh3.Hash(b)
	} else {
		var b [8]byte
		le.PutUint64(b[:], x)
		h = xxh3.Hash(b[:])
	}
	rank := bits.LeadingZeros64(h<<sketchBits|1<<(sketchBits-1)) + 1
	return s.put(v, uint32(h>>(64-sketchBits)), uint8(rank))
}

// put raises a register to a rank.
func (s *sketch) put(v []byte, register uint32, rank uint8) []byte {
	if len(v) == sketchSize {
		v[register] = max(v[register], rank)
		return v
	}
	n := len(v) / 4
	lo, hi := 0, n
	for lo < hi {
		if m := (lo + hi) / 2; le.Uint32(v[4*m:])>>8 < register {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo < n && le.Uint32(v[4*lo:])>>8 == register {
		v[4*lo] = max(v[4*lo], rank)
		return v
	}
	if len(v)+4 > sketchSparse {
		return s.put(s.dense(v), register, rank)
	}
	s.buf = append(s.buf[:0], v[:4*lo]...)
	s.buf = le.AppendUint32(s.buf, register<<8|uint32(rank))
	s.buf = append(s.buf, v[4*lo:]...)
	return s.buf
}

// dense turns the list into registers.
func (s *sketch) dense(v []byte) []byte {
	out := make([]byte, sketchSize)
	for ; len(v) > 0; v = v[4:] {
		e := le.Uint32(v)
		out[e>>8] = uint8(e)
	}
	return out
}

func (s *sketch) merge(_, v, _, v2 []byte) []byte {
	if len(v2) == sketchSize {
		if len(v) < sketchSize {
			v = s.dense(v)
		}
		for i, r := range v2 {
			v[i] = max(v[i], r)
		}
		return v
	}
	for ; len(v2) > 0; v2 = v2[4:] {
		e := le.Uint32(v2)
		v = s.put(v, e>>8, uint8(e))
		if len(s.buf) > 0 && &v[0] == &s.buf[0] { // put reads it again
			s.buf, s.spare = s.spare, s.buf
		}
	}
	return v
}

func (s *sketch) result(_, v []byte, b *abi.RowBuilder, col int) {
	if len(v) < sketchSize {
		v = s.dense(v)
	}
	total, zeros := 0.0, 0
	for _, r := range v {
		total += math.Ldexp(1, -int(r))
		if r == 0 {
			zeros++
		}
	}
	const m = sketchSize
	e := 0.7213 / (1 + 1.079/m) * m * m / total
	if e <= 2.5*m && zeros > 0 { // few values: count empty registers instead
		e = m * math.Log(m/float64(zeros))
	}
	b.SetInt64(col, int64(math.Round(e)))
}

// quantile estimates a quantile within 1 % of the value. Values fall into buckets by sign, exponent and
// the first 7 bits of the fraction, so a bucket is 0.8 % wide; the result is its middle. With over 4,096
// buckets the last bit is given up, and so on. Its variable part is the number of bits given up (8),
// then bucket (8, ascending) and count (8) each: a function of the set of values alone.
type quantile struct {
	f   field
	q   float64
	buf []byte
}

const (
	quantileShift   = 52 - 7
	quantileBuckets = 4096
)

func (*quantile) words() int     { return 0 }
func (*quantile) variable() bool { return true }

// ordered maps floats to integers in the order of floats.
func ordered(f float64) uint64 {
	b := math.Float64bits(f + 0) // -0 is 0
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}

func disordered(u uint64) float64 {
	if u>>63 != 0 {
		return math.Float64frombits(u &^ (1 << 63))
	}
	return math.Float64frombits(^u)
}

func (a *quantile) add(_, v []byte, in *input) []byte {
	x, ok := a.f.bits(in)
	if !ok {
		return v
	}
	f := float64(int64(x))
	if a.f.t == abi.TypeFloat64 {
		if f = math.Float64frombits(x); math.IsNaN(f) {
			return v
		}
	}
	return a.put(v, ordered(f)>>quantileShift, 1)
}

// put adds n to a bucket of full precision.
func (a *quantile) put(v []byte, bucket, n uint64) []byte {
	if len(v) == 0 {
		v = make([]byte, 8)
	}
	bucket >>= le.Uint64(v)
	lo, hi := 0, (len(v)-8)/16
	end := hi
	for lo < hi {
		if m := (lo + hi) / 2; le.Uint64(v[8+16*m:]) < bucket {
			lo = m + 1
		} else {
			hi = m
		}
	}
	at := 8 + 16*lo
	if lo < end && le.Uint64(v[at:]) == bucket {
		le.PutUint64(v[at+8:], le.Uint64(v[at+8:])+n)
		return v
	}
	out := append(a.buf[:0], v[:at]...)
	out = le.AppendUint64(out, bucket)
	out = le.AppendUint64(out, n)
	out = append(out, v[at:]...)
	for (len(out)-8)/16 > quantileBuckets {
		out = coarser(out)
	}
	a.buf = out
	return out
}

// coarser gives one more bit up, in place.
func coarser(v []byte) []byte {
	le.PutUint64(v, le.Uint64(v)+1)
	out := v[:8]
	for at := 8; at < len(v); at += 16 {
		b, n := le.Uint64(v[at:])>>1, le.Uint64(v[at+8:])
		if last := len(out) - 16; last >= 8 && le.Uint64(out[last:]) == b {
			le.PutUint64(out[last+8:], le.Uint64(out[last+8:])+n)
			continue
		}
		out = le.AppendUint64(le.AppendUint64(out, b), n)
	}
	return out
}

func (a *quantile) merge(_, v, _, v2 []byte) []byte {
	if len(v2) == 0 {
		return v
	}
	mine, theirs := slices.Clone(v), slices.Clone(v2)
	if len(mine) == 0 {
		mine = make([]byte, 8)
	}
	for le.Uint64(mine) < le.Uint64(theirs) {
		mine = coarser(mine)
	}
	for le.Uint64(theirs) < le.Uint64(mine) {
		theirs = coarser(theirs)
	}
	out := append(a.buf[:0], mine[:8]...)
	for mine, theirs = mine[8:], theirs[8:]; len(mine)+len(theirs) > 0; {
		from, both := &mine, false
		switch {
		case len(mine) == 0:
			from = &theirs
		case len(theirs) > 0:
			x, y := le.Uint64(mine), le.Uint64(theirs)
			if both = x == y; y < x {
				from = &theirs
			}
		}
		out = append(out, (*from)[:16]...)
		*from = (*from)[16:]
		if both {
			n := out[len(out)-8:]
			le.PutUint64(n, le.Uint64(n)+le.Uint64(theirs[8:]))
			theirs = theirs[16:]
		}
	}
	for (len(out)-8)/16 > quantileBuckets {
		out = coarser(out)
	}
	a.buf = out
	return out
}

func (a *quantile) result(_, v []byte, b *abi.RowBuilder, col int) {
	if len(v) <= 8 {
		return
	}
	total := uint64(0)
	for at := 16; at < len(v); at += 16 {
		total += le.Uint64(v[at:])
	}
	rank := uint64(math.Ceil(a.q * float64(total)))
	rank = min(max(rank, 1), total)
	at := 8
	for seen := uint64(0); ; at += 16 {
		if seen += le.Uint64(v[at+8:]); seen >= rank {
			break
		}
	}
	shift := le.Uint64(v) + quantileShift
	lo := le.Uint64(v[at:]) << shift
	x, y := disordered(lo), disordered(lo|(1<<shift-1))
	switch m := x + (y-x)/2; {
	case x <= 0 && 0 <= y:
		b.SetFloat64(col, 0)
	case math.IsInf(m, 0) || math.IsNaN(m):
		b.SetFloat64(col, x)
	case a.f.t == abi.TypeInt64: // exact below 256
		b.SetFloat64(col, math.Trunc(m))
	default:
		b.SetFloat64(col, m)
	}
}
