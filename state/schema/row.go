package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/millrace-io/millrace/abi"
)

// row is a typed row.
type row struct{ fields []abi.Field }

func compileRow(s *abi.Schema) (Codec, error) {
	fs, err := rowFields(s)
	return row{fs}, err
}

// rowFields are the fields of a row's schema.
func rowFields(s *abi.Schema) ([]abi.Field, error) {
	var fs []abi.Field
	for _, f := range s.Fields {
		t := abi.FieldType(f.Type)
		switch t {
		case abi.TypeInt64, abi.TypeFloat64, abi.TypeBool, abi.TypeString, abi.TypeBytes, abi.TypeTime, abi.TypeJSON:
		default:
			return nil, fmt.Errorf("schema: column %s: a row has no %q", f.Name, f.Type)
		}
		fs = append(fs, abi.Field{Name: f.Name, Type: t})
	}
	return fs, nil
}

// RowSchema is the schema of typed rows of these fields.
func RowSchema(fields []abi.Field) *abi.Schema {
	s := &abi.Schema{Type: abi.SchemaRow}
	for _, f := range fields {
		s.Fields = append(s.Fields, abi.SchemaField{Name: f.Name, Schema: abi.Schema{Type: abi.SchemaType(f.Type)}})
	}
	return s
}

// AppendJSON implements Codec.
func (c row) AppendJSON(dst, b []byte) ([]byte, error) {
	r, err := abi.CheckRow(b, c.fields)
	if err != nil {
		return dst, bad("%w", err)
	}
	out := append(dst, '{')
	for i, f := range c.fields {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(AppendText(out, []byte(f.Name)), ':')
		out = appendColumn(out, r, i, f.Type)
	}
	return append(out, '}'), nil
}

func appendColumn(dst []byte, r abi.Row, i int, t abi.FieldType) []byte {
	if r.IsNull(i) {
		return append(dst, "null"...)
	}
	switch t {
	case abi.TypeFloat64:
		v, _ := r.Float64(i)
		return appendFloat(dst, v, 64)
	case abi.TypeBool:
		v, _ := r.Bool(i)
		return strconv.AppendBool(dst, v)
	case abi.TypeString:
		v, _ := r.Bytes(i)
		return AppendText(dst, v)
	case abi.TypeJSON:
		v, _ := r.Bytes(i)
		if out, err := (document{}).AppendJSON(dst, v); err == nil {
			return out
		}
		return AppendText(dst, v)
	case abi.TypeBytes:
		v, _ := r.Bytes(i)
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), v), '"')
	case abi.TypeTime:
		v, _ := r.Int64(i)
		return AppendTime(dst, v)
	}
	v, _ := r.Int64(i)
	return strconv.AppendInt(dst, v, 10)
}

// Times that RFC 3339 can write.
var (
	firstTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC).UnixMilli()
)

// TimeFormat is RFC 3339 in UTC with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// AppendTime appends ms since 1970 as text, or as a number where the calendar ends.
func AppendTime(dst []byte, ms int64) []byte {
	if ms < firstTime || ms > lastTime {
		return strconv.AppendInt(dst, ms, 10)
	}
	return append(time.UnixMilli(ms).UTC().AppendFormat(append(dst, '"'), TimeFormat), '"')
}

// ParseTime is the ms since 1970 of what AppendTime writes, of any RFC 3339 time, or of a number.
func ParseTime(value json.RawMessage) (int64, error) {
	v := bytes.TrimSpace(value)
	if ms, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return ms, nil
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, bad("%.60s is no time (RFC 3339, or ms since 1970)", value)
}

// Encode implements Codec. Columns that are not there are null.
func (c row) Encode(dst []byte, value json.RawMessage) ([]byte, error) {
	o, err := object(value)
	if err != nil {
		return dst, err
	}
	var b abi.RowBuilder
	b.Reset(len(c.fields))
	for i, f := range c.fields {
		v, ok := o[f.Name]
		delete(o, f.Name)
		if !ok || string(bytes.TrimSpace(v)) == "null" {
			continue
		}
		if err := setColumn(&b, i, f.Type, v); err != nil {
			return dst, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	if err := leftOver(o); err != nil {
		return dst, err
	}
	return append(dst, b.Bytes()...), nil
}

func setColumn(b *abi.RowBuilder, i int, t abi.FieldType, v json.RawMessage) error {
	switch t {
	case abi.TypeString, abi.TypeBytes:
		var s *string
		if err := strict(v, &s); err != nil || s == nil || !utf8.ValidString(*s) {
			return bad("%.60s is no text", v)
		}
		if t == abi.TypeString {
			b.SetString(i, *s)
			return nil
		}
		raw, err := base64.StdEncoding.DecodeString(*s)
		if err != nil {
			return bad("bytes in base64: %w", err)
		}
		b.SetBytes(i, raw)
	case abi.TypeJSON:
		raw, err := document{}.Encode(nil, v)
		if err != nil {
			return err
		}
		b.SetBytes(i, raw)
	case abi.TypeTime:
		ms, err := ParseTime(v)
		if err != nil {
			return err
		}
		b.SetInt64(i, ms)
	default:
		name := map[abi.FieldType]abi.SchemaType{abi.TypeInt64: abi.SchemaI64, abi.TypeFloat64: abi.SchemaF64, abi.TypeBool: abi.SchemaBool}[t]
		raw, err := numbers[name].Encode(make([]byte, 0, 8), v)
		if err != nil {
			return err
		}
		setBits(b, i, t, raw)
	}
	return nil
}

// setBits sets a column to the bytes of its number.
func setBits(b *abi.RowBuilder, i int, t abi.FieldType, raw []byte) {
	var u uint64
	for j := len(raw) - 1; j >= 0; j-- {
		u = u<<8 | uint64(raw[j])
	}
	switch t {
	case abi.TypeFloat64:
		b.SetFloat64(i, math.Float64frombits(u))
	case abi.TypeBool:
		b.SetBool(i, u == 1)
	default:
		b.SetInt64(i, int64(u))
	}
}
