package schema

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/millrace-io/millrace/abi"
)

// number is a codec of one size, little endian but for keys.
type number struct {
	name   abi.SchemaType
	size   int
	append func(dst []byte, u uint64) []byte // JSON of the bits
	parse  func(s string) (uint64, error)
	key    bool   // big endian
	flip   uint64 // bits that are stored flipped
}

var numbers = map[abi.SchemaType]number{}

func init() {
	for bits, names := range map[int][2]abi.SchemaType{8: {abi.SchemaU8, abi.SchemaI8}, 16: {abi.SchemaU16, abi.SchemaI16},
		32: {abi.SchemaU32, abi.SchemaI32}, 64: {abi.SchemaU64, abi.SchemaI64}} {
		numbers[names[0]] = number{name: names[0], size: bits / 8, append: appendUnsigned, parse: unsigned(bits)}
		numbers[names[1]] = number{name: names[1], size: bits / 8, append: appendSigned(bits), parse: signed(bits)}
	}
	numbers[abi.SchemaF64] = number{name: abi.SchemaF64, size: 8, append: appendDouble, parse: double}
	numbers[abi.SchemaF32] = number{name: abi.SchemaF32, size: 4, append: appendSingle, parse: single}
	numbers[abi.SchemaBool] = number{name: abi.SchemaBool, size: 1, append: appendTruth, parse: truth}
	numbers[abi.SchemaKeyU64] = number{name: abi.SchemaKeyU64, size: 8, append: appendUnsigned, parse: unsigned(64), key: true}
	numbers[abi.SchemaKeyI64] = number{name: abi.SchemaKeyI64, size: 8, append: appendSigned(64), parse: signed(64), key: true, flip: 1 << 63}
}

func appendUnsigned(dst []byte, u uint64) []byte { return strconv.AppendUint(dst, u, 10) }

func unsigned(bits int) func(string) (uint64, error) {
	return func(s string) (uint64, error) { return strconv.ParseUint(s, 10, bits) }
}

func appendSigned(bits int) func([]byte, uint64) []byte {
	return func(dst []byte, u uint64) []byte {
		return strconv.AppendInt(dst, int64(u<<(64-bits))>>(64-bits), 10)
	}
}

func signed(bits int) func(string) (uint64, error) {
	return func(s string) (uint64, error) {
		v, err := strconv.ParseInt(s, 10, bits)
		return uint64(v), err
	}
}

func appendDouble(dst []byte, u uint64) []byte { return appendFloat(dst, math.Float64frombits(u), 64) }

func appendSingle(dst []byte, u uint64) []byte {
	return appendFloat(dst, float64(math.Float32frombits(uint32(u))), 32)
}

// appendFloat writes what JSON has no number for as text.
func appendFloat(dst []byte, f float64, bits int) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	case f != 0 && (math.Abs(f) < 1e-6 || math.Abs(f) >= 1e21):
		return strconv.AppendFloat(dst, f, 'e', -1, bits)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, bits)
}

func double(s string) (uint64, error) {
	f, err := strconv.ParseFloat(s, 64)
	return math.Float64bits(f), err
}

func single(s string) (uint64, error) {
	f, err := strconv.ParseFloat(s, 32)
	return uint64(math.Float32bits(float32(f))), err
}

func appendTruth(dst []byte, u uint64) []byte { return strconv.AppendBool(dst, u == 1) }

func truth(s string) (uint64, error) {
	switch s {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	return 0, strconv.ErrSyntax
}

// AppendJSON implements Codec.
func (n number) AppendJSON(dst, b []byte) ([]byte, error) {
	if len(b) != n.size {
		return dst, bad("%d bytes, a %s has %d", len(b), n.name, n.size)
	}
	var full [8]byte
	if n.key {
		copy(full[8-n.size:], b)
		return n.append(dst, binary.BigEndian.Uint64(full[:])^n.flip), nil
	}
	copy(full[:], b)
	u := binary.LittleEndian.Uint64(full[:])
	if n.name == abi.SchemaBool && u > 1 {
		return dst, bad("a bool of %d, expected 0 or 1", u)
	}
	return n.append(dst, u), nil
}

// Encode implements Codec.
func (n number) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	s := string(bytes.TrimSpace(value))
	float := n.name == abi.SchemaF32 || n.name == abi.SchemaF64
	if float && (s == `"NaN"` || s == `"Infinity"` || s == `"-Infinity"`) {
		s = s[1 : len(s)-1]
	}
	u, err := n.parse(s)
	if err != nil {
		return dst, bad("%.60s is no %s", value, n.name)
	}
	var full [8]byte
	if n.key {
		binary.BigEndian.PutUint64(full[:], u^n.flip)
		return append(dst, full[8-n.size:]...), nil
	}
	binary.LittleEndian.PutUint64(full[:], u)
	return append(dst, full[:n.size]...), nil
}

// text is UTF-8.
type text struct{}

// AppendJSON implements Codec.
func (text) AppendJSON(dst, b []byte) ([]byte, error) {
	if !utf8.Valid(b) {
		return dst, bad("%d bytes that are not UTF-8", len(b))
	}
	return AppendText(dst, b), nil
}

// Encode implements Codec.
func (text) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	var s *string
	if err := strict(value, &s); err != nil || s == nil {
		return dst, bad("%.60s is no text", value)
	}
	return append(dst, *s...), nil
}

// document is JSON.
type document struct{}

// AppendJSON implements Codec; the value is on one line.
func (document) AppendJSON(dst, b []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return dst, bad("%d bytes that are no JSON: %w", len(b), err)
	}
	return append(dst, out.Bytes()...), nil
}

// Encode implements Codec.
func (document) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Compact(&out, value); err != nil {
		return dst, bad("%w", err)
	}
	return append(dst, out.Bytes()...), nil
}

// blob is bytes, so many or any number.
type blob struct{ size int }

// AppendJSON implements Codec.
func (c blob) AppendJSON(dst, b []byte) ([]byte, error) {
	if c.size > 0 && len(b) != c.size {
		return dst, bad("%d bytes, expected %d", len(b), c.size)
	}
	return Raw{}.AppendJSON(dst, b)
}

// Encode implements Codec.
func (c blob) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	out, err := Raw{}.Encode(dst, value)
	if n := len(out) - len(dst); err == nil && c.size > 0 && n != c.size {
		return dst, bad("%d bytes, expected %d", n, c.size)
	}
	return out, err
}
