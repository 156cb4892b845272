package millrace

import (
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// Row is a borrowed typed row, a compact value whose schema both sides know: a null bitmap of ceil(n/8)
// bytes rounded up to 8 (bit i set: column i is null), one 8-byte slot per column, then the bytes of
// strings. A slot holds an int64, the bits of a float64, a bool (0 or 1), a timestamp in ms, or for strings
// and bytes u32 offset from the row's start and u32 length.
//
// Accessors return false for a null; they never read outside the row, whatever its bytes are. The host has
// checked rows it hands out; use CheckRow on bytes from elsewhere.
type Row struct {
	b      []byte
	fields int
}

func bitmapBytes(fields int) int { return ((fields+7)/8 + 7) &^ 7 }

func fixedBytes(fields int) int { return bitmapBytes(fields) + 8*fields }

// NewRow is a row of that many columns. Errors: fewer bytes than its fixed part has.
func NewRow(b []byte, fields int) (Row, error) {
	if len(b) < fixedBytes(fields) {
		return Row{}, errors.New("row of " + strconv.Itoa(len(b)) + " bytes, " + strconv.Itoa(fixedBytes(fields)) +
			" expected before the variable part of " + strconv.Itoa(fields) + " columns")
	}
	return Row{b, fields}, nil
}

// CheckRow is NewRow with every column checked against its type.
func CheckRow(b []byte, types []Field) (Row, error) {
	r, err := NewRow(b, len(types))
	if err != nil {
		return Row{}, err
	}
	for i, f := range types {
		v, ok := r.slot(i)
		if !ok {
			continue
		}
		switch f.Type {
		case Bool:
			if v > 1 {
				return Row{}, errors.New("row column " + strconv.Itoa(i) + ": bool is " + strconv.FormatUint(v, 10) + ", expected 0 or 1")
			}
		case String, Bytes:
			s, ok := r.Bytes(i)
			if !ok || f.Type == String && !utf8.Valid(s) {
				return Row{}, errors.New("row column " + strconv.Itoa(i) + ": not " + string(f.Type) + " inside the row")
			}
		}
	}
	for i := len(types); i < 8*bitmapBytes(len(types)); i++ {
		if b[i>>3]&(1<<(i&7)) != 0 {
			return Row{}, errors.New("row: null bit " + strconv.Itoa(i) + " set, the row has " + strconv.Itoa(len(types)) + " columns")
		}
	}
	return r, nil
}

// Len is the number of columns.
func (r Row) Len() int { return r.fields }

// IsNull says whether column i is null (or does not exist).
func (r Row) IsNull(i int) bool { return uint(i) >= uint(r.fields) || r.b[i>>3]&(1<<(i&7)) != 0 }

func (r Row) slot(i int) (uint64, bool) {
	if r.IsNull(i) {
		return 0, false
	}
	return le.Uint64(r.b[bitmapBytes(r.fields)+8*i:]), true
}

// Int is an int64 column.
func (r Row) Int(i int) (int64, bool) {
	v, ok := r.slot(i)
	return int64(v), ok
}

// Time is a timestamp column, ms since 1970 UTC.
func (r Row) Time(i int) (int64, bool) { return r.Int(i) }

// Float is a float64 column.
func (r Row) Float(i int) (float64, bool) {
	v, ok := r.slot(i)
	return math.Float64frombits(v), ok
}

// Bool is a bool column.
func (r Row) Bool(i int) (v, ok bool) {
	u, ok := r.slot(i)
	return u != 0, ok
}

// Bytes is a bytes (or string) column; false also if its range lies outside the row.
func (r Row) Bytes(i int) ([]byte, bool) {
	v, ok := r.slot(i)
	at, n := v&math.MaxUint32, v>>32
	if !ok || at < uint64(fixedBytes(r.fields)) || at+n > uint64(len(r.b)) {
		return nil, false
	}
	return r.b[at : at+n : at+n], true
}

// Str is a copy of a string column; false also if it is not UTF-8.
func (r Row) Str(i int) (string, bool) {
	b, ok := r.Bytes(i)
	if !ok || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// RowWriter writes a row into the output; columns not set are null. Set each column at most once, strings
// in column order if the bytes shall be canonical.
type RowWriter struct {
	e      *Emit
	fields int
	start  int // in the frame
}

func (w *RowWriter) begin() {
	w.start = w.e.len()
	for n := fixedBytes(w.fields); n > 0; n -= len(zeroHeader) {
		w.e.push(zeroHeader[:min(n, len(zeroHeader))])
	}
	b := w.e.frame()[w.start:]
	for i := range w.fields {
		b[i>>3] |= 1 << (i & 7)
	}
}

func (w *RowWriter) set(i int, slot uint64) *RowWriter {
	if uint(i) >= uint(w.fields) {
		panic("row column " + strconv.Itoa(i) + " set, the row has " + strconv.Itoa(w.fields))
	}
	b := w.e.frame()[w.start:]
	b[i>>3] &^= 1 << (i & 7)
	le.PutUint64(b[bitmapBytes(w.fields)+8*i:], slot)
	return w
}

// Int sets an int64 column.
func (w *RowWriter) Int(i int, v int64) *RowWriter { return w.set(i, uint64(v)) }

// Time sets a timestamp column, ms since 1970 UTC.
func (w *RowWriter) Time(i int, ms int64) *RowWriter { return w.set(i, uint64(ms)) }

// Float sets a float64 column.
func (w *RowWriter) Float(i int, v float64) *RowWriter { return w.set(i, math.Float64bits(v)) }

// Bool sets a bool column.
func (w *RowWriter) Bool(i int, v bool) *RowWriter {
	if v {
		return w.set(i, 1)
	}
	return w.set(i, 0)
}

// Bytes sets a bytes column.
func (w *RowWriter) Bytes(i int, v []byte) *RowWriter {
	at := uint64(w.e.len() - w.start)
	w.e.push(v)
	return w.set(i, at|uint64(len(v))<<32)
}

// Str sets a string column.
func (w *RowWriter) Str(i int, v string) *RowWriter {
	at := uint64(w.e.len() - w.start)
	w.e.pushString(v)
	return w.set(i, at|uint64(len(v))<<32)
}

// Send writes the output. Errors: over the host's limits.
func (w *RowWriter) Send() error { return w.e.close(flagValue) }
