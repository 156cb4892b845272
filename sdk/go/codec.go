package millrace

import (
	"encoding/binary"
	"errors"
	"math"
	"reflect"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Codec turns values or map keys of type T into bytes. Numbers of values are little endian, as in Rust.
type Codec[T any] interface {
	// MaxBytes is the most bytes a value takes; 0: no bound of its own, so the state is reached by host
	// calls.
	MaxBytes() int
	// Append appends the bytes of v.
	Append(dst []byte, v T) ([]byte, error)
	// Decode is the value of b, which is borrowed.
	Decode(b []byte) (T, error)
}

func undecodable(n int) error {
	return errors.New("state of " + strconv.Itoa(n) + " bytes cannot be decoded as the declared type")
}

// number is a codec of one size.
type number[T any] struct {
	kind string // schema type
	size int
	put  func([]byte, T) []byte
	get  func([]byte) T
}

func (n number[T]) MaxBytes() int { return n.size }

func (n number[T]) schema() string { return typeSchema(n.kind) }

func (n number[T]) Append(dst []byte, v T) ([]byte, error) { return n.put(dst, v), nil }

func (n number[T]) Decode(b []byte) (v T, err error) {
	if len(b) != n.size {
		return v, undecodable(len(b))
	}
	return n.get(b), nil
}

// Codecs of numbers.
var (
	Uint64Value  Codec[uint64]  = number[uint64]{"u64", 8, le.AppendUint64, le.Uint64}
	Int64Value   Codec[int64]   = number[int64]{"i64", 8, func(b []byte, v int64) []byte { return le.AppendUint64(b, uint64(v)) }, func(b []byte) int64 { return int64(le.Uint64(b)) }}
	Float64Value Codec[float64] = number[float64]{"f64", 8, func(b []byte, v float64) []byte { return le.AppendUint64(b, math.Float64bits(v)) }, func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }}
)

// Codecs of map keys. Their bytes sort as the keys do, so scans come in order.
var (
	Uint64Key Codec[uint64] = number[uint64]{"key_u64", 8, binary.BigEndian.AppendUint64, binary.BigEndian.Uint64}
	Int64Key  Codec[int64]  = number[int64]{"key_i64", 8, func(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)^1<<63) }, func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }}
	TextKey   Codec[string] = text{}
)

type text struct{}

func (text) MaxBytes() int { return 0 }

func (text) schema() string { return typeSchema("utf8") }

func (text) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }

func (text) Decode(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", undecodable(len(b))
	}
	return string(b), nil
}

type blob struct{ most int }

func (c blob) MaxBytes() int { return c.most }

func (blob) schema() string { return typeSchema("bytes") }

func (c blob) Append(dst []byte, v []byte) ([]byte, error) {
	if c.most > 0 && len(v) > c.most {
		return dst, errors.New("value of " + strconv.Itoa(len(v)) + " bytes, at most " + strconv.Itoa(c.most) + " are declared")
	}
	return append(dst, v...), nil
}

// Decode copies, and never returns nil.
func (c blob) Decode(b []byte) ([]byte, error) { return append(make([]byte, 0, len(b)), b...), nil }

// Codecs of text and bytes of any length: reached by host calls.
var (
	TextValue  Codec[string] = text{}
	BytesValue Codec[[]byte] = blob{}
)

// Bounded is a codec of at most n bytes: a state of it comes with the batch (n up to 4,096).
func Bounded(n int) Codec[[]byte] { return blob{n} }

// Struct is a codec of a struct whose fields are numbers, bools, arrays or structs of them: fields back to
// back in order, little endian, without padding. It panics if T is something else.
func Struct[T any]() Codec[T] {
	c := &fixed[T]{}
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		panic("millrace: Struct wants a struct, not " + t.String())
	}
	c.add(t, 0)
	return c
}

// run is a piece of the struct's memory that goes to the bytes as it is.
type run struct{ at, n uintptr }

type fixed[T any] struct {
	runs  []run
	bools []int // places in the bytes that must hold 0 or 1
	size  int
}

func (c *fixed[T]) add(t reflect.Type, at uintptr) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			c.add(f.Type, at+f.Offset)
		}
		return
	case reflect.Array:
		for i := range t.Len() {
			c.add(t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
		return
	case reflect.Bool:
		c.bools = append(c.bools, c.size)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32,
		reflect.Uint64, reflect.Float32, reflect.Float64:
	default:
		panic("millrace: Struct cannot hold a field of type " + t.String())
	}
	c.size += int(t.Size())
	if n := len(c.runs); n > 0 && c.runs[n-1].at+c.runs[n-1].n == at {
		c.runs[n-1].n += t.Size()
		return
	}
	c.runs = append(c.runs, run{at, t.Size()})
}

func (c *fixed[T]) MaxBytes() int { return c.size }

func (c *fixed[T]) schema() string { return string(appendSchema(nil, reflect.TypeFor[T]())) }

// The memory of wasm, and of the machines that tests run on, is little endian.
func (c *fixed[T]) Append(dst []byte, v T) ([]byte, error) {
	p := unsafe.Pointer(&v)
	for _, r := range c.runs {
		dst = append(dst, unsafe.Slice((*byte)(unsafe.Add(p, r.at)), r.n)...)
	}
	return dst, nil
}

func (c *fixed[T]) Decode(b []byte) (v T, err error) {
	if len(b) != c.size {
		return v, undecodable(len(b))
	}
	for _, i := range c.bools {
		if b[i] > 1 {
			return v, undecodable(len(b))
		}
	}
	p := unsafe.Pointer(&v)
	for _, r := range c.runs {
		b = b[copy(unsafe.Slice((*byte)(unsafe.Add(p, r.at)), r.n), b):]
	}
	return v, nil
}
