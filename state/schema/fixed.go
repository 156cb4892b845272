package schema

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// part is a field of a struct: a codec and its size.
type part struct {
	name  string
	codec Codec
	size  int
}

// structure is fields of fixed size back to back.
type structure struct {
	parts []part
	size  int
}

// array is the same thing several times.
type array struct {
	item  part
	count int
}

// maxDepth bounds schemas, which come from strangers.
const maxDepth = 16

func compileFixed(s *abi.Schema) (Codec, error) {
	p, err := fixedPart(s, 0)
	return p.codec, err
}

func fixedPart(s *abi.Schema, depth int) (part, error) {
	if depth > maxDepth {
		return part{}, fmt.Errorf("schema: more than %d levels", maxDepth)
	}
	switch s.Type {
	case abi.SchemaStruct:
		var c structure
		for i := range s.Fields {
			f := &s.Fields[i]
			p, err := fixedPart(&f.Schema, depth+1)
			if err != nil {
				return p, fmt.Errorf("field %s: %w", f.Name, err)
			}
			p.name = f.Name
			c.parts = append(c.parts, p)
			c.size += p.size
		}
		return part{codec: c, size: c.size}, nil
	case abi.SchemaArray:
		if s.Items == nil || s.Size < 1 {
			return part{}, fmt.Errorf("schema: an array needs items and a size")
		}
		p, err := fixedPart(s.Items, depth+1)
		return part{codec: array{p, s.Size}, size: p.size * s.Size}, err
	case abi.SchemaBytes:
		if s.Size < 1 {
			return part{}, fmt.Errorf("schema: bytes in a struct need a size")
		}
		return part{codec: blob{s.Size}, size: s.Size}, nil
	}
	n, ok := numbers[s.Type]
	if !ok {
		return part{}, fmt.Errorf("schema: a %q has no fixed size", s.Type)
	}
	return part{codec: n, size: n.size}, nil
}

// AppendJSON implements Codec.
func (c structure) AppendJSON(dst, b []byte) ([]byte, error) {
	if len(b) != c.size {
		return dst, bad("%d bytes, the struct has %d", len(b), c.size)
	}
	out := append(dst, '{')
	for i, p := range c.parts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendText(out, []byte(p.name)), ':')
		var err error
		if out, err = p.codec.AppendJSON(out, b[:p.size]); err != nil {
			return dst, fmt.Errorf("field %s: %w", p.name, err)
		}
		b = b[p.size:]
	}
	return append(out, '}'), nil
}

// Encode implements Codec: all fields, no others.
func (c structure) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	o, err := object(value)
	if err != nil {
		return dst, err
	}
	out := dst
	for _, p := range c.parts {
		v, ok := o[p.name]
		if !ok {
			return dst, bad("field %s is missing", p.name)
		}
		delete(o, p.name)
		if out, err = p.codec.Encode(out, v); err != nil {
			return dst, fmt.Errorf("field %s: %w", p.name, err)
		}
	}
	if err := leftOver(o); err != nil {
		return dst, err
	}
	return out, nil
}

// object is the fields of a JSON object.
func object(value json.RawMessage) (map[string]json.RawMessage, error) {
	var o map[string]json.RawMessage
	if err := strict(value, &o); err != nil || o == nil {
		return nil, bad("%.60s is no object", value)
	}
	return o, nil
}

// leftOver refuses fields that the schema does not have.
func leftOver(o map[string]json.RawMessage) error {
	for name := range o {
		return bad("there is no field %q", name)
	}
	return nil
}

// AppendJSON implements Codec.
func (c array) AppendJSON(dst, b []byte) ([]byte, error) {
	if len(b) != c.count*c.item.size {
		return dst, bad("%d bytes, the array has %d", len(b), c.count*c.item.size)
	}
	out := append(dst, '[')
	for i := range c.count {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = c.item.codec.AppendJSON(out, b[:c.item.size]); err != nil {
			return dst, err
		}
		b = b[c.item.size:]
	}
	return append(out, ']'), nil
}

// Encode implements Codec.
func (c array) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(bytes.TrimSpace(value), &items); err != nil || len(items) != c.count {
		return dst, bad("%.60s is no array of %d", value, c.count)
	}
	out := dst
	for _, v := range items {
		var err error
		if out, err = c.item.codec.Encode(out, v); err != nil {
			return dst, err
		}
	}
	return out, nil
}
