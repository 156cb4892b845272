package window

import "github.com/millrace-io/millrace/abi"

// First and last go by event time, so that they don't depend on the order of arrival; of equal times by that.
// They have words: there, time, value (or its text as variable part).

// beats says whether a value at time t that comes now takes the place of what w holds.
func beats(w []byte, last bool, t int64) bool {
	switch {
	case word(w, 0) == 0:
		return true
	case last:
		return t >= word(w, 8)
	}
	return t < word(w, 8)
}

// edge is the first or last value of a field without text.
type edge struct {
	f    field
	last bool
}

func (edge) words() int     { return 3 }
func (edge) variable() bool { return false }
func (e edge) add(w, v []byte, in *input) []byte {
	if x, ok := e.f.bits(in); ok {
		e.put(w, in.time, x)
	}
	return v
}
func (e edge) put(w []byte, t int64, x uint64) {
	if beats(w, e.last, t) {
		setWord(w, 0, 1)
		setWord(w, 8, t)
		le.PutUint64(w[16:], x)
	}
}
func (e edge) merge(w, v, w2, _ []byte) []byte {
	if word(w2, 0) != 0 {
		e.put(w, word(w2, 8), le.Uint64(w2[16:]))
	}
	return v
}
func (e edge) result(w, _ []byte, b *abi.RowBuilder, col int) {
	if word(w, 0) != 0 {
		setSlot(b, col, e.f.t, le.Uint64(w[16:]))
	}
}

// edgeText is the first or last text.
type edgeText struct {
	f    field
	last bool
	buf  []byte
}

func (*edgeText) words() int     { return 2 }
func (*edgeText) variable() bool { return true }
func (e *edgeText) add(w, v []byte, in *input) []byte {
	if x, ok := e.f.bytes(in); ok {
		return e.put(w, v, in.time, x)
	}
	return v
}
func (e *edgeText) put(w, v []byte, t int64, x []byte) []byte {
	if !beats(w, e.last, t) {
		return v
	}
	setWord(w, 0, 1)
	setWord(w, 8, t)
	e.buf = append(e.buf[:0], x...)
	return e.buf
}
func (e *edgeText) merge(w, v, w2, v2 []byte) []byte {
	if word(w2, 0) != 0 {
		return e.put(w, v, word(w2, 8), v2)
	}
	return v
}
func (e *edgeText) result(w, v []byte, b *abi.RowBuilder, col int) {
	if word(w, 0) != 0 {
		b.SetBytes(col, v)
	}
}
