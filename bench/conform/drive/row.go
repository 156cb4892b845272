package drive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/conform/corpus"
)

// schema is that of all the values of a case's records, with columns in order of their names. need are
// int64 columns that the operator wants even if no record has them.
func schema(c *corpus.Case, need ...string) ([]abi.Field, error) {
	types := map[string]abi.FieldType{}
	for _, n := range need {
		types[n] = abi.TypeInt64
	}
	for i, s := range c.Input {
		if s.Record == nil {
			continue
		}
		v, err := members(s.Record.Value)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
		for name, m := range v {
			t, err := typeOf(m)
			if err != nil {
				return nil, fmt.Errorf("step %d, %s: %w", i, name, err)
			}
			if old := types[name]; old == abi.TypeFloat64 && t == abi.TypeInt64 {
				t = old
			} else if old != "" && old != t && !(old == abi.TypeInt64 && t == abi.TypeFloat64) {
				return nil, fmt.Errorf("step %d, %s is %s and was %s before", i, name, t, old)
			}
			types[name] = t
		}
	}
	var fs []abi.Field
	for _, name := range slices.Sorted(maps.Keys(types)) {
		fs = append(fs, abi.Field{Name: name, Type: types[name]})
	}
	return fs, nil
}

// members are those of a record's value that are not null.
func members(text json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	maps.DeleteFunc(v, func(_ string, m any) bool { return m == nil })
	return v, nil
}

func typeOf(m any) (abi.FieldType, error) {
	switch m := m.(type) {
	case json.Number:
		if _, err := m.Int64(); err == nil {
			return abi.TypeInt64, nil
		}
		return abi.TypeFloat64, nil
	case string:
		return abi.TypeString, nil
	case bool:
		return abi.TypeBool, nil
	}
	return "", fmt.Errorf("a member of type %T has no column type", m)
}

// encode makes a typed row of a record's value.
func encode(text json.RawMessage, fs []abi.Field) ([]byte, error) {
	v, err := members(text)
	if err != nil {
		return nil, err
	}
	var b abi.RowBuilder
	b.Reset(len(fs))
	for i, f := range fs {
		switch m := v[f.Name].(type) {
		case json.Number:
			if f.Type == abi.TypeFloat64 {
				x, err := m.Float64()
				if err != nil {
					return nil, err
				}
				b.SetFloat64(i, x)
				continue
			}
			n, err := m.Int64()
			if err != nil {
				return nil, err
			}
			b.SetInt64(i, n)
		case string:
			b.SetString(i, m)
		case bool:
			b.SetBool(i, m)
		}
	}
	return b.Bytes(), nil
}

// decode is a typed row as members; null columns are left out.
func decode(row []byte, fs []abi.Field) (map[string]json.RawMessage, error) {
	r, err := abi.CheckRow(row, fs)
	if err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for i, f := range fs {
		if r.IsNull(i) {
			continue
		}
		switch f.Type {
		case abi.TypeInt64, abi.TypeTime:
			n, _ := r.Int64(i)
			out[f.Name] = strconv.AppendInt(nil, n, 10)
		case abi.TypeJSON:
			b, _ := r.Bytes(i)
			out[f.Name] = append(json.RawMessage(nil), b...)
		case abi.TypeString:
			b, _ := r.Bytes(i)
			if out[f.Name], err = json.Marshal(string(b)); err != nil {
				return nil, err
			}
		case abi.TypeFloat64:
			x, _ := r.Float64(i)
			if out[f.Name], err = json.Marshal(x); err != nil {
				return nil, err
			}
		case abi.TypeBool:
			x, _ := r.Bool(i)
			out[f.Name] = strconv.AppendBool(nil, x)
		default:
			return nil, fmt.Errorf("column %s of type %s in a result", f.Name, f.Type)
		}
	}
	return out, nil
}
