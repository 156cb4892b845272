package format

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/millrace-io/millrace/abi"
)

// rowBuilder writes one typed row after the other into the same memory: a null bitmap (bit set: null)
// rounded up to 8 bytes, an 8-byte slot per field, then the bytes that slots point at.
type rowBuilder struct {
	buf   []byte
	nulls int // bytes of the bitmap
	n     int
}

func newRowBuilder(fields int) rowBuilder {
	return rowBuilder{nulls: nullBytes(fields), n: fields}
}

func nullBytes(fields int) int { return ((fields+7)/8 + 7) &^ 7 }

// reset starts a row in which every field is null.
func (r *rowBuilder) reset() {
	size := r.nulls + 8*r.n
	if cap(r.buf) < size {
		r.buf = make([]byte, size, 4*size+256)
	}
	r.buf = r.buf[:size]
	clear(r.buf)
	for i := 0; i < r.n; i++ {
		r.buf[i>>3] |= 1 << (i & 7)
	}
}

func (r *rowBuilder) setBits(i int, v uint64) {
	r.buf[i>>3] &^= 1 << (i & 7)
	binary.LittleEndian.PutUint64(r.buf[r.nulls+8*i:], v)
}

func (r *rowBuilder) setBytes(i int, b []byte) {
	r.setBits(i, uint64(len(r.buf))|uint64(len(b))<<32)
	r.buf = append(r.buf, b...)
}

// setText sets an escaped JSON string body.
func (r *rowBuilder) setText(i int, raw []byte) {
	at := len(r.buf)
	r.buf = AppendUnescaped(r.buf, raw)
	r.setBits(i, uint64(at)|uint64(len(r.buf)-at)<<32)
}

// rowField is one field of an encoded row.
type rowField struct {
	null bool
	bits uint64
	b    []byte // strings and bytes
}

// readField returns field i of a row of n fields, checked: rows come from guests.
func readField(row []byte, t abi.FieldType, i, n int) (f rowField, err error) {
	nulls := nullBytes(n)
	if len(row) < nulls+8*n {
		return f, fmt.Errorf("row of %d bytes, %d fields take at least %d", len(row), n, nulls+8*n)
	}
	if row[i>>3]&(1<<(i&7)) != 0 {
		return rowField{null: true}, nil
	}
	f.bits = binary.LittleEndian.Uint64(row[nulls+8*i:])
	if t == abi.TypeString || t == abi.TypeBytes || t == abi.TypeJSON {
		off, l := f.bits&math.MaxUint32, f.bits>>32
		if off+l > uint64(len(row)) {
			return f, fmt.Errorf("field %d: bytes %d to %d of a row of %d", i, off, off+l, len(row))
		}
		f.b = row[off : off+l]
	}
	return f, nil
}

// appendField appends field value f of type t as JSON.
func appendField(dst []byte, t abi.FieldType, f rowField) []byte {
	if f.null {
		return append(dst, "null"...)
	}
	switch t {
	case abi.TypeFloat64:
		return AppendFloat(dst, math.Float64frombits(f.bits))
	case abi.TypeBool:
		return strconv.AppendBool(dst, f.bits != 0)
	case abi.TypeString:
		return AppendString(dst, f.b)
	case abi.TypeJSON:
		return append(dst, f.b...)
	case abi.TypeBytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, f.b)
		return append(dst, '"')
	}
	return strconv.AppendInt(dst, int64(f.bits), 10)
}

// RowEncoder writes typed rows as JSON objects, fields in the order of the schema. Times are ms since
// 1970, bytes base64, floats the shortest decimal that reads back.
type RowEncoder struct {
	fields []abi.Field
	names  [][]byte // ,"name":
}

// NewRowEncoder makes an encoder for rows of these fields.
func NewRowEncoder(fields []abi.Field) *RowEncoder {
	e := &RowEncoder{fields: fields}
	for i, f := range fields {
		b := []byte{','}
		if i == 0 {
			b[0] = '{'
		}
		e.names = append(e.names, append(AppendString(b, []byte(f.Name)), ':'))
	}
	return e
}

// Append appends row as an object without a newline. The error is about a malformed row.
func (e *RowEncoder) Append(dst, row []byte) ([]byte, error) {
	if len(e.fields) == 0 {
		return append(dst, "{}"...), nil
	}
	for i, f := range e.fields {
		v, err := readField(row, f.Type, i, len(e.fields))
		if err != nil {
			return dst, err
		}
		dst = append(dst, e.names[i]...)
		dst = appendField(dst, f.Type, v)
	}
	return append(dst, '}'), nil
}

// appendKeyField appends the key bytes of a row's field: text as it is, numbers in decimal.
func appendKeyField(dst []byte, t abi.FieldType, f rowField) []byte {
	switch t {
	case abi.TypeString, abi.TypeBytes, abi.TypeJSON:
		return append(dst, f.b...)
	case abi.TypeFloat64:
		return AppendFloat(dst, positiveZero(math.Float64frombits(f.bits)))
	case abi.TypeBool:
		return strconv.AppendBool(dst, f.bits != 0)
	}
	return strconv.AppendInt(dst, int64(f.bits), 10)
}

func positiveZero(f float64) float64 {
	if f == 0 {
		return 0
	}
	return f
}

func validText(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return utf8.Valid(b)
		}
	}
	return true
}

// RowBuilder writes typed rows, one after the other into the same memory.
type RowBuilder struct{ r rowBuilder }

// NewRowBuilder makes a builder for rows of n fields.
func NewRowBuilder(n int) *RowBuilder { return &RowBuilder{newRowBuilder(n)} }

// Reset starts a row in which every field is null.
func (b *RowBuilder) Reset() { b.r.reset() }

// Int sets an int64 or timestamp field.
func (b *RowBuilder) Int(i int, v int64) { b.r.setBits(i, uint64(v)) }

// Float sets a float64 field.
func (b *RowBuilder) Float(i int, v float64) { b.r.setBits(i, math.Float64bits(v)) }

// Bytes sets a string or bytes field, copying v.
func (b *RowBuilder) Bytes(i int, v []byte) { b.r.setBytes(i, v) }

// Row is the row so far, borrowed until Reset.
func (b *RowBuilder) Row() []byte { return b.r.buf }
