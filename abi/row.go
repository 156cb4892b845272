package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// A typed row is a compact value whose schema both sides know:
//
//	0            null bitmap, ceil(n/8) bytes rounded up to 8; bit i set: column i is null
//	RowBitmap(n) one 8-byte slot per column
//	RowFixed(n)  bytes of strings
//
// A slot holds an int64, the bits of a float64, a bool (0 or 1), a timestamp in ms since 1970 UTC, or for
// strings and bytes u32 offset from the row's start and u32 length. Canonical, as RowBuilder writes it when
// columns are set in order: strings lie back to back in column order, slots of nulls and unused bits are 0.

// ErrRow is wrapped by every error about a malformed row.
var ErrRow = errors.New("malformed row")

// RowBitmap is the size of the null bitmap of a row of n columns.
func RowBitmap(n int) int { return ((n+7)/8 + 7) &^ 7 }

// RowFixed is the size of what precedes the strings of a row of n columns.
func RowFixed(n int) int { return RowBitmap(n) + 8*n }

// RowBuilder writes rows, one after the other, into the same memory. The zero value is ready for Reset.
type RowBuilder struct {
	b []byte
	n int
}

// Reset begins a row of n columns, all null.
func (r *RowBuilder) Reset(n int) {
	size := RowFixed(n)
	if cap(r.b) < size {
		r.b = make([]byte, size, 4*size+256)
	}
	r.b, r.n = r.b[:size], n
	clear(r.b)
	for i := 0; i < n; i++ {
		r.b[i>>3] |= 1 << (i & 7)
	}
}

func (r *RowBuilder) set(i int, slot uint64) {
	if uint(i) >= uint(r.n) {
		panic(fmt.Sprintf("row column %d set, the row has %d", i, r.n))
	}
	r.b[i>>3] &^= 1 << (i & 7)
	binary.LittleEndian.PutUint64(r.b[RowBitmap(r.n)+8*i:], slot)
}

// SetInt64 sets an int64 or timestamp column.
func (r *RowBuilder) SetInt64(i int, v int64) { r.set(i, uint64(v)) }

// SetFloat64 sets a float64 column.
func (r *RowBuilder) SetFloat64(i int, v float64) { r.set(i, math.Float64bits(v)) }

// SetBool sets a bool column.
func (r *RowBuilder) SetBool(i int, v bool) {
	slot := uint64(0)
	if v {
		slot = 1
	}
	r.set(i, slot)
}

// SetBytes sets a bytes or string column, once.
func (r *RowBuilder) SetBytes(i int, v []byte) {
	r.set(i, uint64(len(r.b))|uint64(len(v))<<32)
	r.b = append(r.b, v...)
}

// SetString sets a string column, once.
func (r *RowBuilder) SetString(i int, v string) {
	r.set(i, uint64(len(r.b))|uint64(len(v))<<32)
	r.b = append(r.b, v...)
}

// Bytes is the row, valid until the next Reset.
func (r *RowBuilder) Bytes() []byte { return r.b }

// Row is a borrowed row that was checked. A column that is null, or does not exist, gives false.
type Row struct {
	b []byte
	n int
}

// CheckRow is the row in b if it is one of these fields. All ranges are checked in 64-bit arithmetic, so b
// may come from a guest. Errors wrap ErrRow.
func CheckRow(b []byte, fields []Field) (Row, error) {
	n := len(fields)
	if len(b) < RowFixed(n) {
		return Row{}, fmt.Errorf("%w: %d bytes, %d columns take at least %d", ErrRow, len(b), n, RowFixed(n))
	}
	r := Row{b, n}
	for i, f := range fields {
		if err := r.check(i, f); err != nil {
			return Row{}, err
		}
	}
	for i := n; i < 8*RowBitmap(n); i++ {
		if b[i>>3]&(1<<(i&7)) != 0 {
			return Row{}, fmt.Errorf("%w: null bit %d set, there are %d columns", ErrRow, i, n)
		}
	}
	return r, nil
}

func (r Row) check(i int, f Field) error {
	v, ok := r.slot(i)
	if !ok {
		return nil
	}
	switch f.Type {
	case TypeInt64, TypeFloat64, TypeTime:
	case TypeBool:
		if v > 1 {
			return fmt.Errorf("%w: column %s: bool is %d, want 0 or 1", ErrRow, f.Name, v)
		}
	case TypeString, TypeBytes, TypeJSON:
		at, l := v&math.MaxUint32, v>>32
		if at < uint64(RowFixed(r.n)) || at+l > uint64(len(r.b)) {
			return fmt.Errorf("%w: column %s: bytes %d to %d, want %d to %d", ErrRow, f.Name, at, at+l, RowFixed(r.n), len(r.b))
		}
		if f.Type != TypeBytes && !utf8.Valid(r.b[at:at+l]) {
			return fmt.Errorf("%w: column %s: not UTF-8", ErrRow, f.Name)
		}
	default:
		return fmt.Errorf("%w: column %s: unknown type %q", ErrRow, f.Name, f.Type)
	}
	return nil
}

// Len is the number of columns.
func (r Row) Len() int { return r.n }

// IsNull says whether column i is null.
func (r Row) IsNull(i int) bool { return uint(i) >= uint(r.n) || r.b[i>>3]&(1<<(i&7)) != 0 }

func (r Row) slot(i int) (uint64, bool) {
	if r.IsNull(i) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(r.b[RowBitmap(r.n)+8*i:]), true
}

// Int64 is an int64 or timestamp column.
func (r Row) Int64(i int) (int64, bool) {
	v, ok := r.slot(i)
	return int64(v), ok
}

// Float64 is a float64 column.
func (r Row) Float64(i int) (float64, bool) {
	v, ok := r.slot(i)
	return math.Float64frombits(v), ok
}

// Bool is a bool column.
func (r Row) Bool(i int) (v, ok bool) {
	u, ok := r.slot(i)
	return u == 1, ok
}

// Bytes is a bytes or string column; it aliases the row.
func (r Row) Bytes(i int) ([]byte, bool) {
	v, ok := r.slot(i)
	if !ok {
		return nil, false
	}
	at, l := v&math.MaxUint32, v>>32
	return r.b[at : at+l : at+l], true
}
