package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/hamba/avro/v2"

	"github.com/millrace-io/millrace/abi"
)

// avroValue is the codec of Avro's binary encoding.
type avroValue struct{ s avro.Schema }

// parseAvro parses a schema by itself: names of one are not known in another.
func parseAvro(s *abi.Schema) (avro.Schema, error) {
	if len(s.Avro) == 0 {
		return nil, errors.New("schema: avro without a schema")
	}
	a, err := avro.ParseBytesWithCache(s.Avro, "", &avro.SchemaCache{})
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return a, nil
}

func compileAvro(s *abi.Schema) (Codec, error) {
	a, err := parseAvro(s)
	return avroValue{a}, err
}

// AppendJSON implements Codec. Bytes and fixed are as Raw writes them; of a union the value alone is shown.
func (c avroValue) AppendJSON(dst, b []byte) ([]byte, error) {
	v, err := decodeAvro(c.s, b)
	if err != nil {
		return dst, err
	}
	return appendAvro(dst, c.s, v), nil
}

// decodeAvro decodes all of b.
func decodeAvro(s avro.Schema, b []byte) (v any, err error) {
	r := avro.NewReader(nil, 0).Reset(b)
	r.ReadVal(s, &v)
	if r.Error != nil {
		return nil, bad("avro: %w", r.Error)
	}
	if rest := remaining(r); rest != 0 {
		return nil, bad("avro: %d bytes behind the value", rest)
	}
	return v, nil
}

// remaining is how many bytes a reader has left.
func remaining(r *avro.Reader) (n int) {
	for r.Peek(); r.Error == nil; r.Peek() {
		r.SkipNBytes(1)
		n++
	}
	return n
}

func appendAvro(dst []byte, s avro.Schema, v any) []byte {
	if ref, ok := s.(*avro.RefSchema); ok {
		s = ref.Schema()
	}
	if u, ok := s.(*avro.UnionSchema); ok {
		return appendUnion(dst, u, v)
	}
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...)
	case map[string]any:
		return appendAvroMap(dst, s, x)
	case []any:
		dst = append(dst, '[')
		for i, e := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendAvro(dst, s.(*avro.ArraySchema).Items(), e)
		}
		return append(dst, ']')
	case string:
		return AppendText(dst, []byte(x))
	case []byte:
		out, _ := Raw{}.AppendJSON(dst, x) // never fails
		return out
	case float64:
		return appendFloat(dst, x, 64)
	case float32:
		return appendFloat(dst, float64(x), 32)
	case time.Time:
		return append(x.UTC().AppendFormat(append(dst, '"'), time.RFC3339Nano), '"')
	case time.Duration:
		return AppendText(dst, []byte(x.String()))
	case *big.Rat:
		return AppendText(dst, []byte(x.RatString()))
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Array && r.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, r.Len())
		reflect.Copy(reflect.ValueOf(b), r)
		out, _ := Raw{}.AppendJSON(dst, b)
		return out
	}
	b, err := json.Marshal(v)
	if err != nil {
		return AppendText(dst, []byte(fmt.Sprint(v)))
	}
	return append(dst, b...)
}

// appendUnion appends the value of a union, which a decoder may have put under the name of its type.
func appendUnion(dst []byte, u *avro.UnionSchema, v any) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		for name, inner := range m {
			if t, _ := u.Types().Get(name); t != nil {
				return appendAvro(dst, t, inner)
			}
		}
	}
	for _, t := range u.Types() {
		if _, err := avro.Marshal(t, v); err == nil {
			return appendAvro(dst, t, v)
		}
	}
	return appendAvro(dst, avro.NewNullSchema(), v)
}

func appendAvroMap(dst []byte, s avro.Schema, m map[string]any) []byte {
	dst = append(dst, '{')
	put := func(i int, name string, t avro.Schema) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(AppendText(dst, []byte(name)), ':')
		dst = appendAvro(dst, t, m[name])
	}
	switch t := s.(type) {
	case *avro.RecordSchema:
		for i, f := range t.Fields() {
			put(i, f.Name(), f.Type())
		}
	case *avro.MapSchema:
		var names []string
		for name := range m {
			names = append(names, name)
		}
		slices.Sort(names)
		for i, name := range names {
			put(i, name, t.Values())
		}
	}
	return append(dst, '}')
}

// Encode implements Codec. Of a union's types the first that takes the value is meant.
func (c avroValue) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	var v any
	if err := strict(value, &v); err != nil {
		return dst, bad("%w", err)
	}
	x, err := toAvro(c.s, v)
	if err != nil {
		return dst, err
	}
	b, err := avro.Marshal(c.s, x)
	if err != nil {
		return dst, bad("%w", err)
	}
	return append(dst, b...), nil
}

// toAvro turns decoded JSON into what the Avro encoder takes for a schema.
func toAvro(s avro.Schema, v any) (any, error) {
	switch t := s.(type) {
	case *avro.RefSchema:
		return toAvro(t.Schema(), v)
	case *avro.UnionSchema:
		return toUnion(t, v)
	case *avro.RecordSchema:
		return toRecord(t, v)
	case *avro.ArraySchema:
		list, ok := v.([]any)
		if !ok {
			return nil, bad("expected an array")
		}
		out := make([]any, len(list))
		for i, e := range list {
			x, err := toAvro(t.Items(), e)
			if err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			out[i] = x
		}
		return out, nil
	case *avro.MapSchema:
		m, ok := v.(map[string]any)
		if !ok {
			return nil, bad("expected an object")
		}
		out := map[string]any{}
		for k, e := range m {
			x, err := toAvro(t.Values(), e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = x
		}
		return out, nil
	case *avro.EnumSchema:
		if name, ok := v.(string); ok && slices.Contains(t.Symbols(), name) {
			return name, nil
		}
		return nil, bad("%v is none of %s", v, strings.Join(t.Symbols(), ", "))
	case *avro.NullSchema:
		if v != nil {
			return nil, bad("expected null")
		}
		return nil, nil
	}
	return toAvroScalar(s, v)
}

func toRecord(t *avro.RecordSchema, v any) (any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, bad("expected an object for %s", t.Name())
	}
	out := map[string]any{}
	for _, f := range t.Fields() {
		e, ok := m[f.Name()]
		delete(m, f.Name())
		if !ok {
			if !f.HasDefault() {
				return nil, bad("field %s is missing", f.Name())
			}
			out[f.Name()] = f.Default()
			continue
		}
		x, err := toAvro(f.Type(), e)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name(), err)
		}
		out[f.Name()] = x
	}
	for name := range m {
		return nil, bad("there is no field %q", name)
	}
	return out, nil
}

func toUnion(u *avro.UnionSchema, v any) (any, error) {
	for _, t := range u.Types() {
		x, err := toAvro(t, v)
		if err != nil {
			continue
		}
		if x == nil {
			return nil, nil
		}
		return map[string]any{typeName(t): x}, nil
	}
	return nil, bad("the value is of no type of the union")
}

// typeName is how a union's values are told apart.
func typeName(s avro.Schema) string {
	if ref, ok := s.(*avro.RefSchema); ok {
		s = ref.Schema()
	}
	name := string(s.Type())
	if n, ok := s.(avro.NamedSchema); ok {
		name = n.FullName()
	}
	if l, ok := s.(avro.LogicalTypeSchema); ok && l.Logical() != nil {
		name += "." + string(l.Logical().Type())
	}
	return name
}

func toAvroScalar(s avro.Schema, v any) (any, error) {
	if l, ok := s.(avro.LogicalTypeSchema); ok && l.Logical() != nil {
		return toLogical(s, l.Logical().Type(), v)
	}
	switch s.Type() {
	case avro.Boolean:
		if b, ok := v.(bool); ok {
			return b, nil
		}
	case avro.String:
		if t, ok := v.(string); ok {
			return t, nil
		}
	case avro.Int, avro.Long:
		n, ok := v.(json.Number)
		if !ok {
			break
		}
		i, err := signed(map[avro.Type]int{avro.Int: 32, avro.Long: 64}[s.Type()])(n.String())
		if err != nil {
			return nil, bad("%s is no %s", n, s.Type())
		}
		if s.Type() == avro.Int {
			return int(int64(i)), nil
		}
		return int64(i), nil
	case avro.Float, avro.Double:
		n, ok := v.(json.Number)
		if !ok {
			break
		}
		f, err := n.Float64()
		if err != nil {
			return nil, bad("%s is no %s", n, s.Type())
		}
		if s.Type() == avro.Float {
			return float32(f), nil
		}
		return f, nil
	case avro.Bytes, avro.Fixed:
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, bad("%w", err)
		}
		b, err := Raw{}.Encode(nil, raw)
		if err != nil {
			return nil, err
		}
		if f, ok := s.(*avro.FixedSchema); ok {
			if len(b) != f.Size() {
				return nil, bad("%d bytes, %s has %d", len(b), f.Name(), f.Size())
			}
			a := reflect.New(reflect.ArrayOf(f.Size(), reflect.TypeFor[byte]())).Elem()
			reflect.Copy(a, reflect.ValueOf(b))
			return a.Interface(), nil
		}
		return b, nil
	}
	return nil, bad("%v is no %s", v, s.Type())
}

func toLogical(s avro.Schema, l avro.LogicalType, v any) (any, error) {
	t, ok := v.(string)
	if !ok {
		return nil, bad("%v is no text of a %s", v, l)
	}
	switch l {
	case avro.Date, avro.TimestampMillis, avro.TimestampMicros, avro.LocalTimestampMillis, avro.LocalTimestampMicros:
		x, err := time.Parse(time.RFC3339Nano, t)
		if err != nil {
			return nil, bad("%w", err)
		}
		return x, nil
	case avro.TimeMillis, avro.TimeMicros:
		x, err := time.ParseDuration(t)
		if err != nil {
			return nil, bad("%w", err)
		}
		return x, nil
	case avro.Decimal:
		x, ok := new(big.Rat).SetString(t)
		if !ok {
			return nil, bad("%q is no decimal", t)
		}
		return x, nil
	case avro.UUID:
		return t, nil
	}
	return nil, bad("a %s of %s can't be written", s.Type(), l)
}
