package millrace

import (
	"reflect"
	"strconv"
)

// described is a codec that says how its bytes are to be read, as JSON: for people who look into a snapshot,
// and for a check of changes.
type described interface{ schema() string }

func schemaOf(codec any) string {
	if d, ok := codec.(described); ok {
		return d.schema()
	}
	return ""
}

func typeSchema(name string) string { return `{"type":"` + name + `"}` }

// kinds are the schema types of numbers.
var kinds = map[reflect.Kind]string{reflect.Bool: "bool", reflect.Int8: "i8", reflect.Int16: "i16", reflect.Int32: "i32", reflect.Int64: "i64",
	reflect.Uint8: "u8", reflect.Uint16: "u16", reflect.Uint32: "u32", reflect.Uint64: "u64", reflect.Float32: "f32", reflect.Float64: "f64"}

// appendSchema appends the schema of a type that Struct takes.
func appendSchema(b []byte, t reflect.Type) []byte {
	return append(appendFields(append(b, '{'), t), '}')
}

// appendFields appends the fields of the schema's object.
func appendFields(b []byte, t reflect.Type) []byte {
	switch t.Kind() {
	case reflect.Struct:
		b = append(b, `"type":"struct","fields":[`...)
		for i := range t.NumField() {
			f := t.Field(i)
			b = appendString(append(comma(b, i), `{"name":`...), f.Name)
			b = append(appendFields(append(b, ','), f.Type), '}')
		}
		return append(b, ']')
	case reflect.Array:
		b = strconv.AppendInt(append(b, `"size":`...), int64(t.Len()), 10)
		if t.Elem().Kind() == reflect.Uint8 {
			return append(b, `,"type":"bytes"`...)
		}
		return appendSchema(append(b, `,"type":"array","items":`...), t.Elem())
	}
	return append(append(append(b, `"type":"`...), kinds[t.Kind()]...), '"')
}

// schemas are those of a state's values and of a map's keys, as JSON; empty: not known.
func (v *Value[T]) schemas() (value, key string)       { return schemaOf(v.codec), "" }
func (l *List[T]) schemas() (value, key string)        { return schemaOf(l.codec), "" }
func (m *MapState[K, V]) schemas() (value, key string) { return schemaOf(m.values), schemaOf(m.keys) }

func describeSchemas(b []byte, s State) []byte {
	if e, ok := s.(expiring); ok {
		s = e.State
	}
	d, ok := s.(interface{ schemas() (value, key string) })
	if !ok {
		return b
	}
	value, key := d.schemas()
	if value != "" {
		b = append(append(b, `,"schema":`...), value...)
	}
	if key != "" {
		b = append(append(b, `,"key_schema":`...), key...)
	}
	return b
}
