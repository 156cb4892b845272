package schema

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/hamba/avro/v2"

	"github.com/millrace-io/millrace/abi"
)

// Converter rewrites a value of an old schema as one of a new one, appending it to dst. Errors wrap ErrValue.
type Converter func(dst, value []byte) ([]byte, error)

// NewConverter makes the converter of a Convertible change. An error says that the change is none.
func NewConverter(old, now *abi.Schema) (Converter, error) {
	if c, why := Compare(old, now); c != Convertible {
		return nil, fmt.Errorf("schema: a change that is %s can't be converted (%s)", c, why)
	}
	if now.Type == abi.SchemaAvro {
		return avroConverter(old, now)
	}
	return rowConverter(old, now)
}

func rowConverter(old, now *abi.Schema) (Converter, error) {
	from, err := rowFields(old)
	if err != nil {
		return nil, err
	}
	to, err := rowFields(now)
	if err != nil {
		return nil, err
	}
	source := make([]int, len(to))
	for i, f := range to {
		source[i] = slices.IndexFunc(from, func(o abi.Field) bool { return o.Name == f.Name })
	}
	return func(dst, value []byte) ([]byte, error) {
		r, err := abi.CheckRow(value, from)
		if err != nil {
			return dst, bad("%w", err)
		}
		var b abi.RowBuilder
		b.Reset(len(to))
		for i, f := range to {
			if j := source[i]; j >= 0 {
				copyColumn(&b, i, r, j, f.Type)
				continue
			}
			if d := now.Fields[i].Default; d != nil && string(bytes.TrimSpace(d)) != "null" {
				if err := setColumn(&b, i, f.Type, d); err != nil {
					return dst, fmt.Errorf("default of column %s: %w", f.Name, err)
				}
			}
		}
		return append(dst, b.Bytes()...), nil
	}, nil
}

func copyColumn(b *abi.RowBuilder, i int, r abi.Row, j int, t abi.FieldType) {
	if r.IsNull(j) {
		return
	}
	switch t {
	case abi.TypeString, abi.TypeBytes, abi.TypeJSON:
		v, _ := r.Bytes(j)
		b.SetBytes(i, v)
	case abi.TypeFloat64:
		v, _ := r.Float64(j)
		b.SetFloat64(i, v)
	case abi.TypeBool:
		v, _ := r.Bool(j)
		b.SetBool(i, v)
	default:
		v, _ := r.Int64(j)
		b.SetInt64(i, v)
	}
}

func avroConverter(old, now *abi.Schema) (Converter, error) {
	w, err := parseAvro(old)
	if err != nil {
		return nil, err
	}
	r, err := parseAvro(now)
	if err != nil {
		return nil, err
	}
	both, err := avro.NewSchemaCompatibility().Resolve(r, w)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return func(dst, value []byte) ([]byte, error) {
		v, err := decodeAvro(both, value)
		if err != nil {
			return dst, err
		}
		b, err := avro.Marshal(r, v)
		if err != nil {
			return dst, bad("%w", err)
		}
		return append(dst, b...), nil
	}, nil
}
