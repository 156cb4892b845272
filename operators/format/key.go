package format

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
)

// ErrNullKey says that a field of the key is absent or null. What happens then is key_by's policy, not
// the decoder's.
var ErrNullKey = errors.New("null key")

// A key of one field is that field's bytes. Of several it is their bytes joined by 00 01, with 00 in a
// field written as 00 FF: self-delimiting, and in the order of the fields.

// appendKeyPart appends one part of a key of several; first says that no separator is due.
func appendKeyPart(dst, part []byte, first bool) []byte {
	if !first {
		dst = append(dst, 0, 1)
	}
	for _, c := range part {
		dst = append(dst, c)
		if c == 0 {
			dst = append(dst, 0xff)
		}
	}
	return dst
}

// AppendKeyPart appends one field's bytes to a key of several; first says that it is the first one.
func AppendKeyPart(dst, part []byte, first bool) []byte { return appendKeyPart(dst, part, first) }

// SplitKey takes a key of several fields apart.
func SplitKey(key []byte) [][]byte {
	parts := [][]byte{{}}
	for i := 0; i < len(key); i++ {
		last := len(parts) - 1
		if key[i] == 0 && i+1 < len(key) {
			i++
			if key[i] == 1 {
				parts = append(parts, []byte{})
				continue
			}
			parts[last] = append(parts[last], 0)
			continue
		}
		parts[last] = append(parts[last], key[i])
	}
	return parts
}

// Keyer takes the key of records whose value is a JSON line or a typed row.
type Keyer struct {
	whole  bool
	fields []abi.Field // of the row, empty: JSON
	at     []int       // row: index of each key field
	scan   *Scanner
	vals   []Value
	part   []byte
	buf    []byte
}

// NewKeyer takes the key from names. schema is that of the values, empty for JSON lines. A name that
// the schema lacks is reported by the pipeline's check; here it counts as null.
func NewKeyer(names []string, whole bool, schema []abi.Field) *Keyer {
	k := &Keyer{whole: whole, fields: schema, buf: make([]byte, 0, 64)} // an empty key is not nil
	if len(schema) == 0 {
		k.scan, k.vals = NewScanner(names), make([]Value, len(names))
	}
	for _, n := range names {
		k.at = append(k.at, FieldIndex(schema, n))
	}
	return k
}

// FieldIndex is the place of a field in a schema, -1 if it is not there.
func FieldIndex(schema []abi.Field, name string) int {
	for i, f := range schema {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Key returns the key of a value, borrowed until the next call. ErrNullKey, or what is wrong with the
// value.
func (k *Keyer) Key(value []byte) ([]byte, error) {
	if value == nil {
		return nil, ErrNullKey
	}
	if k.whole {
		return value, nil
	}
	k.buf = k.buf[:0]
	if k.scan != nil {
		return k.ofLine(value)
	}
	for i, at := range k.at {
		if at < 0 {
			return nil, ErrNullKey
		}
		f, err := readField(value, k.fields[at].Type, at, len(k.fields))
		if err != nil {
			return nil, err
		}
		if f.null {
			return nil, ErrNullKey
		}
		if len(k.at) == 1 {
			k.buf = appendKeyField(k.buf, k.fields[at].Type, f)
			continue
		}
		k.part = appendKeyField(k.part[:0], k.fields[at].Type, f)
		k.buf = appendKeyPart(k.buf, k.part, i == 0)
	}
	return k.buf, nil
}

func (k *Keyer) ofLine(line []byte) ([]byte, error) {
	if err := k.scan.Scan(line, k.vals); err != nil {
		return nil, err
	}
	return appendJSONKey(&k.buf, &k.part, k.vals)
}

// appendJSONKey builds a key of extracted values, untyped: text unescaped, numbers as they are written.
func appendJSONKey(buf, part *[]byte, vals []Value) ([]byte, error) {
	for i, v := range vals {
		p, err := keyText(part, v)
		if err != nil {
			return nil, err
		}
		if len(vals) == 1 {
			*buf = append(*buf, p...)
		} else {
			*buf = appendKeyPart(*buf, p, i == 0)
		}
	}
	return *buf, nil
}

func keyText(part *[]byte, v Value) ([]byte, error) {
	switch v.Kind {
	case Absent, Null:
		return nil, ErrNullKey
	case Composite:
		return nil, errors.New("a key can't be an object or array")
	case String:
		if v.Escaped {
			*part = AppendUnescaped((*part)[:0], v.Raw)
			v.Raw = *part
		}
		if !validText(v.Raw) {
			return nil, errors.New("a key is not UTF-8")
		}
	}
	return v.Raw, nil
}
