package abi

import "encoding/json"

// SchemaType says how the bytes of a state's value, or of a map's user key, are to be read.
type SchemaType string

// Schema types. Numbers are little endian.
const (
	SchemaU8       SchemaType = "u8"
	SchemaU16      SchemaType = "u16"
	SchemaU32      SchemaType = "u32"
	SchemaU64      SchemaType = "u64"
	SchemaI8       SchemaType = "i8"
	SchemaI16      SchemaType = "i16"
	SchemaI32      SchemaType = "i32"
	SchemaI64      SchemaType = "i64"
	SchemaF32      SchemaType = "f32"
	SchemaF64      SchemaType = "f64"
	SchemaBool     SchemaType = "bool"      // one byte, 0 or 1
	SchemaUTF8     SchemaType = "utf8"      // text
	SchemaBytes    SchemaType = "bytes"     // Size says how many, 0: any number
	SchemaJSON     SchemaType = "json"      // one JSON value
	SchemaStruct   SchemaType = "struct"    // Fields of fixed size back to back, without padding
	SchemaArray    SchemaType = "array"     // Size times Items, of fixed size
	SchemaRow      SchemaType = "row"       // a typed row; its Fields have the types of Field
	SchemaAvro     SchemaType = "avro"      // binary encoding by Avro, without a header
	SchemaProtobuf SchemaType = "protobuf"  // a Message of Descriptors
	SchemaWindow   SchemaType = "window"    // windows of a key, as the native operator with Definition keeps them
	SchemaContents SchemaType = "contents"  // records of its windows
	SchemaKeyU64   SchemaType = "key_u64"   // of map keys: 8 bytes big endian
	SchemaKeyI64   SchemaType = "key_i64"   // of map keys: 8 bytes big endian, sign bit flipped
	SchemaInt64    SchemaType = "int64"     // only fields of rows: as TypeInt64
	SchemaFloat64  SchemaType = "float64"   // ... TypeFloat64
	SchemaString   SchemaType = "string"    // ... TypeString
	SchemaTime     SchemaType = "timestamp" // ... TypeTime
)

// Schema describes bytes of state, so that people can read them and a change of them can be judged. A host
// that does not know a type treats the bytes as undescribed.
type Schema struct {
	Type        SchemaType      `json:"type"`
	Size        int             `json:"size,omitempty"`
	Fields      []SchemaField   `json:"fields,omitempty"`
	Items       *Schema         `json:"items,omitempty"`
	Avro        json.RawMessage `json:"avro,omitempty"`        // the schema, as Avro writes it
	Descriptors []byte          `json:"descriptors,omitempty"` // a serialised FileDescriptorSet
	Message     string          `json:"message,omitempty"`     // full name in it
	Definition  json.RawMessage `json:"definition,omitempty"`
}

// SchemaField is a named part of a struct or row.
type SchemaField struct {
	Name string `json:"name"`
	Schema
	// Default is what values written before the field existed have there; rows only. None: null.
	Default json.RawMessage `json:"default,omitempty"`
}
