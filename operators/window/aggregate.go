package window

import (
	"bytes"
	"cmp"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// input is one record as aggregates see it.
type input struct {
	time int64
	row  []byte // nil: the value is null, or raw bytes are in raw
	raw  []byte
	base int // of the slots in row
	// frame is the whole record, where guests want it.
	frame abi.Frame
}

// field is one column of the input.
type field struct {
	at int
	t  abi.FieldType
}

func fieldOf(w *operators.WindowNode, name string) field {
	return field{format.FieldIndex(w.Input, name), fieldType(w, name)}
}

func (f field) text() bool {
	return f.t == abi.TypeString || f.t == abi.TypeBytes || f.t == abi.TypeJSON
}

// bits is the column's slot; false if it is null.
func (f field) bits(in *input) (uint64, bool) {
	if in.row == nil || in.row[f.at>>3]&(1<<(f.at&7)) != 0 {
		return 0, false
	}
	return le.Uint64(in.row[in.base+8*f.at:]), true
}

// bytes is a text column; the row has been checked.
func (f field) bytes(in *input) ([]byte, bool) {
	v, ok := f.bits(in)
	if !ok {
		return nil, false
	}
	at, n := v&math.MaxUint32, v>>32
	return in.row[at : at+n : at+n], true
}

// compareBits orders two slots of a type.
func compareBits(t abi.FieldType, a, b uint64) int {
	if t == abi.TypeFloat64 {
		return cmp.Compare(math.Float64frombits(a), math.Float64frombits(b))
	}
	return cmp.Compare(int64(a), int64(b))
}

// aggregate folds records into words, zero at first, and at most one variable part, empty at first. Folding
// parts and merging them gives the same as folding all; where the order counts it is that of calls.
type aggregate interface {
	words() int
	variable() bool
	// add folds a record in. It returns the variable part: v itself, changed in place, or scratch that is good
	// until the next call. v is never that scratch.
	add(w, v []byte, in *input) []byte
	// merge folds another one's in, which came later.
	merge(w, v, w2, v2 []byte) []byte
	// result sets column col of the row.
	result(w, v []byte, b *abi.RowBuilder, col int)
}

// newAggregate makes the aggregate of a checked configuration; collect and distinct are in contents.go.
func newAggregate(w *operators.WindowNode, a operators.WindowAggregate) aggregate {
	f := fieldOf(w, a.Field)
	switch a.Kind {
	case operators.AggCount:
		return count{f}
	case operators.AggSum:
		return sum{f}
	case operators.AggAvg:
		return avg{f}
	case operators.AggMin, operators.AggMax:
		sign := 1
		if a.Kind == operators.AggMax {
			sign = -1
		}
		if f.text() {
			return &extremeText{f: f, sign: sign}
		}
		return extreme{f, sign}
	case operators.AggFirst, operators.AggLast:
		if f.text() {
			return &edgeText{f: f, last: a.Kind == operators.AggLast}
		}
		return edge{f, a.Kind == operators.AggLast}
	case operators.AggDistinctApprox:
		return &sketch{f: f}
	case operators.AggQuantile:
		return &quantile{f: f, q: a.Quantile}
	case operators.AggTop:
		return newTop(w, f, a.N)
	case operators.AggDistinct:
		return &distinct{f: f}
	}
	return newCollect(w, f)
}

// count counts records, or those where a field is not null.
type count struct{ f field }

func (count) words() int     { return 1 }
func (count) variable() bool { return false }
func (c count) add(w, v []byte, in *input) []byte {
	if c.f.at >= 0 {
		if _, ok := c.f.bits(in); !ok {
			return v
		}
	}
	setWord(w, 0, word(w, 0)+1)
	return v
}
func (count) merge(w, v, w2, _ []byte) []byte {
	setWord(w, 0, word(w, 0)+word(w2, 0))
	return v
}
func (count) result(w, _ []byte, b *abi.RowBuilder, col int) { b.SetInt64(col, word(w, 0)) }

// sum has the number of values and their sum. Sums of int64 wrap around, as Flink's do.
type sum struct{ f field }

func (sum) words() int     { return 2 }
func (sum) variable() bool { return false }
func (s sum) add(w, v []byte, in *input) []byte {
	if x, ok := s.f.bits(in); ok {
		setWord(w, 0, word(w, 0)+1)
		s.plus(w, x)
	}
	return v
}
func (s sum) plus(w []byte, x uint64) {
	if s.f.t == abi.TypeFloat64 {
		le.PutUint64(w[8:], math.Float64bits(math.Float64frombits(le.Uint64(w[8:]))+math.Float64frombits(x)))
		return
	}
	le.PutUint64(w[8:], le.Uint64(w[8:])+x)
}
func (s sum) merge(w, v, w2, _ []byte) []byte {
	setWord(w, 0, word(w, 0)+word(w2, 0))
	s.plus(w, le.Uint64(w2[8:]))
	return v
}
func (s sum) result(w, _ []byte, b *abi.RowBuilder, col int) {
	switch {
	case word(w, 0) == 0:
	case s.f.t == abi.TypeFloat64:
		b.SetFloat64(col, math.Float64frombits(le.Uint64(w[8:])))
	default:
		b.SetInt64(col, word(w, 8))
	}
}

// avg is a sum in 128 bits, or in floating point, by the number.
type avg struct{ f field }

func (avg) words() int     { return 3 }
func (avg) variable() bool { return false }
func (a avg) add(w, v []byte, in *input) []byte {
	if x, ok := a.f.bits(in); ok {
		setWord(w, 0, word(w, 0)+1)
		a.plus(w, x, uint64(int64(x)>>63))
	}
	return v
}
func (a avg) plus(w []byte, lo, hi uint64) {
	if a.f.t == abi.TypeFloat64 {
		le.PutUint64(w[8:], math.Float64bits(math.Float64frombits(le.Uint64(w[8:]))+math.Float64frombits(lo)))
		return
	}
	old := le.Uint64(w[8:])
	carry := uint64(0)
	if old+lo < old {
		carry = 1
	}
	le.PutUint64(w[8:], old+lo)
	le.PutUint64(w[16:], le.Uint64(w[16:])+hi+carry)
}
func (a avg) merge(w, v, w2, _ []byte) []byte {
	setWord(w, 0, word(w, 0)+word(w2, 0))
	a.plus(w, le.Uint64(w2[8:]), le.Uint64(w2[16:]))
	return v
}
func (a avg) result(w, _ []byte, b *abi.RowBuilder, col int) {
	n := word(w, 0)
	switch {
	case n == 0:
	case a.f.t == abi.TypeFloat64:
		b.SetFloat64(col, math.Float64frombits(le.Uint64(w[8:]))/float64(n))
	case uint64(word(w, 16)) == uint64(word(w, 8)>>63): // fits 64 bits
		b.SetFloat64(col, float64(word(w, 8))/float64(n))
	default:
		b.SetFloat64(col, (float64(word(w, 16))*(1<<64)+float64(le.Uint64(w[8:])))/float64(n))
	}
}

// extreme is the least (sign 1) or greatest (-1) of numbers, times or truths.
type extreme struct {
	f    field
	sign int
}

func (extreme) words() int     { return 2 }
func (extreme) variable() bool { return false }
func (e extreme) add(w, v []byte, in *input) []byte {
	if x, ok := e.f.bits(in); ok {
		e.put(w, x)
	}
	return v
}
func (e extreme) put(w []byte, x uint64) {
	if word(w, 0) == 0 || e.sign*compareBits(e.f.t, x, le.Uint64(w[8:])) < 0 {
		setWord(w, 0, 1)
		le.PutUint64(w[8:], x)
	}
}
func (e extreme) merge(w, v, w2, _ []byte) []byte {
	if word(w2, 0) != 0 {
		e.put(w, le.Uint64(w2[8:]))
	}
	return v
}
func (e extreme) result(w, _ []byte, b *abi.RowBuilder, col int) {
	if word(w, 0) != 0 {
		setSlot(b, col, e.f.t, le.Uint64(w[8:]))
	}
}

// setSlot sets a column that is no text.
func setSlot(b *abi.RowBuilder, col int, t abi.FieldType, x uint64) {
	switch t {
	case abi.TypeFloat64:
		b.SetFloat64(col, math.Float64frombits(x))
	case abi.TypeBool:
		b.SetBool(col, x != 0)
	default:
		b.SetInt64(col, int64(x))
	}
}

// extremeText is the first (sign 1) or last (-1) of texts in bytewise order.
type extremeText struct {
	f    field
	sign int
	buf  []byte
}

func (*extremeText) words() int     { return 1 }
func (*extremeText) variable() bool { return true }
func (e *extremeText) add(w, v []byte, in *input) []byte {
	if x, ok := e.f.bytes(in); ok {
		return e.put(w, v, x)
	}
	return v
}
func (e *extremeText) put(w, v, x []byte) []byte {
	if word(w, 0) != 0 && e.sign*bytes.Compare(x, v) >= 0 {
		return v
	}
	setWord(w, 0, 1)
	e.buf = append(e.buf[:0], x...)
	return e.buf
}
func (e *extremeText) merge(w, v, w2, v2 []byte) []byte {
	if word(w2, 0) != 0 {
		return e.put(w, v, v2)
	}
	return v
}
func (e *extremeText) result(w, v []byte, b *abi.RowBuilder, col int) {
	if word(w, 0) != 0 {
		b.SetBytes(col, v)
	}
}
