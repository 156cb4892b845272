package schema

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/millrace-io/millrace/abi"
)

func parsed(t *testing.T, text string) *abi.Schema {
	t.Helper()
	if text == "" {
		return nil
	}
	s := new(abi.Schema)
	if err := json.Unmarshal([]byte(text), s); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

// protoSchema makes a message M of fields "name:number:type[:label]".
func protoSchema(t *testing.T, reserved int32, fields ...string) *abi.Schema {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: proto.String("M")}
	if reserved > 0 {
		m.ReservedRange = []*descriptorpb.DescriptorProto_ReservedRange{{Start: proto.Int32(reserved), End: proto.Int32(reserved + 1)}}
	}
	for _, f := range fields {
		p := strings.Split(f, ":")
		var n int32
		if _, err := fmt.Sscan(p[1], &n); err != nil {
			t.Fatal(err)
		}
		label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		if len(p) > 3 {
			label = descriptorpb.FieldDescriptorProto_Label(descriptorpb.FieldDescriptorProto_Label_value["LABEL_"+strings.ToUpper(p[3])])
		}
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{Name: &p[0], Number: &n, Label: &label,
			Type: descriptorpb.FieldDescriptorProto_Type(descriptorpb.FieldDescriptorProto_Type_value["TYPE_"+strings.ToUpper(p[2])]).Enum()})
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("m.proto"),
		Syntax: proto.String("proto2"), MessageType: []*descriptorpb.DescriptorProto{m}}}}
	b, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return &abi.Schema{Type: abi.SchemaProtobuf, Descriptors: b, Message: "M"}
}

func avroSchema(text string) *abi.Schema {
	return &abi.Schema{Type: abi.SchemaAvro, Avro: json.RawMessage(text)}
}

const avroOne = `{"type":"record","name":"R","fields":[{"name":"a","type":"long"},{"name":"s","type":["null","string"],"default":null}]}`

// Every type reads what it wrote, and writes what it read.
func TestRoundTrip(t *testing.T) {
	pb := protoSchema(t, 0, "n:1:int64", "s:2:string", "list:3:int32:repeated")
	for _, c := range []struct {
		schema *abi.Schema
		hex    string
		json   string
	}{
		{nil, "616263", `"abc"`},
		{nil, "0500000000000000", `{"hex":"0500000000000000"}`},
		{nil, "", `""`},
		{parsed(t, `{"type":"of the future"}`), "ff", `{"hex":"ff"}`},
		{parsed(t, `{"type":"u64"}`), "0500000000000000", "5"},
		{parsed(t, `{"type":"u64"}`), "ffffffffffffffff", "18446744073709551615"},
		{parsed(t, `{"type":"i64"}`), "ffffffffffffffff", "-1"},
		{parsed(t, `{"type":"i16"}`), "00ff", "-256"},
		{parsed(t, `{"type":"u8"}`), "ff", "255"},
		{parsed(t, `{"type":"f64"}`), "000000000000f87f", `"NaN"`},
		{parsed(t, `{"type":"f64"}`), "000000000000e03f", "0.5"},
		{parsed(t, `{"type":"f32"}`), "0000803f", "1"},
		{parsed(t, `{"type":"bool"}`), "01", "true"},
		{parsed(t, `{"type":"key_u64"}`), "0000000000000005", "5"},
		{parsed(t, `{"type":"key_i64"}`), "7fffffffffffffff", "-1"},
		{parsed(t, `{"type":"utf8"}`), "c3a4", `"ä"`},
		{parsed(t, `{"type":"json"}`), hex.EncodeToString([]byte(`{"a":[1,"<"]}`)), `{"a":[1,"<"]}`},
		{parsed(t, `{"type":"bytes","size":2}`), "0001", `{"hex":"0001"}`},
		{parsed(t, `{"type":"struct","fields":[{"name":"n","type":"u8"},{"name":"in","type":"struct","fields":[{"name":"x","type":"i16"}]},{"name":"l","type":"array","size":2,"items":{"type":"bool"}}]}`),
			"07feff0100", `{"n":7,"in":{"x":-2},"l":[true,false]}`},
		{avroSchema(avroOne), "0e020461c3", ""}, // "a" and a broken byte: not this
		{avroSchema(avroOne), "0e020461" + "62", `{"a":7,"s":"ab"}`},
		{avroSchema(avroOne), "0d00", `{"a":-7,"s":null}`},
		{avroSchema(`{"type":"record","name":"R","fields":[{"name":"b","type":"bytes"},{"name":"f","type":{"type":"fixed","name":"F","size":2}},{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},{"name":"m","type":{"type":"map","values":"int"}},{"name":"l","type":{"type":"array","items":"double"}},{"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}}]}`),
			"02ff" + "0001" + "02" + "02" + "026b" + "04" + "00" + "02000000000000f03f" + "00" + "d00f",
			`{"b":{"hex":"ff"},"f":{"hex":"0001"},"e":"B","m":{"k":2},"l":[1],"t":"1970-01-01T00:00:01Z"}`},
		{pb, "0805120178180118" + "02", `{"n":"5","s":"x","list":[1,2]}`},
	} {
		codec, err := Compile(c.schema)
		if err != nil {
			t.Errorf("%+v: %v", c.schema, err)
			continue
		}
		raw, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		got, err := codec.AppendJSON([]byte("<"), raw)
		if c.json == "" {
			if err == nil && json.Valid(got[1:]) {
				t.Logf("%s: %s", c.hex, got)
			}
			continue
		}
		if err != nil || string(got) != "<"+c.json {
			t.Errorf("%s: %s, %v, want %s", c.hex, got, err, c.json)
			continue
		}
		back, err := codec.Encode([]byte("<"), got[1:])
		if err != nil {
			t.Errorf("%s: %v", c.json, err)
			continue
		}
		again, err := codec.AppendJSON(nil, back[1:])
		if err != nil || string(again) != c.json {
			t.Errorf("%s became %x, which is %s, %v", c.json, back[1:], again, err)
		}
	}
}

func TestRow(t *testing.T) {
	fields := []abi.Field{{Name: "i", Type: abi.TypeInt64}, {Name: "f", Type: abi.TypeFloat64}, {Name: "b", Type: abi.TypeBool},
		{Name: "s", Type: abi.TypeString}, {Name: "raw", Type: abi.TypeBytes}, {Name: "t", Type: abi.TypeTime}, {Name: "j", Type: abi.TypeJSON}, {Name: "none", Type: abi.TypeInt64}}
	c, err := Compile(RowSchema(fields))
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"i":-3,"f":1.5,"b":true,"s":"x","raw":"AP8=","t":"2024-01-02T03:04:05.006Z","j":[1],"none":null}`
	b, err := c.Encode(nil, json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.AppendJSON(nil, b); err != nil || string(got) != text {
		t.Errorf("%s, %v", got, err)
	}
	for _, wrong := range []string{`{"i":1.5}`, `{"s":1}`, `{"other":1}`, `[]`, `{"t":"yesterday"}`, `{"b":1}`, `{"raw":"?"}`} {
		if _, err := c.Encode(nil, json.RawMessage(wrong)); !errors.Is(err, ErrValue) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// What does not fit is refused, and leaves what is before it alone.
func TestMisfits(t *testing.T) {
	for _, c := range []struct{ schema, hex, json string }{
		{`{"type":"u64"}`, "00", `-1`}, {`{"type":"u8"}`, "", `256`}, {`{"type":"i8"}`, "0000", `"5"`}, {`{"type":"bool"}`, "02", `1`},
		{`{"type":"utf8"}`, "ff", `5`}, {`{"type":"json"}`, "7b", `{`}, {`{"type":"bytes","size":1}`, "", `"ab"`},
		{`{"type":"struct","fields":[{"name":"a","type":"u8"}]}`, "0000", `{}`},
		{`{"type":"struct","fields":[{"name":"a","type":"u8"}]}`, "", `{"a":1,"b":2}`},
		{`{"type":"array","size":2,"items":{"type":"u8"}}`, "00", `[1]`},
		{`{"type":"avro","avro":"long"}`, "0202", `"x"`}, {`{"type":"avro","avro":"int"}`, "ff", `3000000000`},
	} {
		codec, err := Compile(parsed(t, c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		raw, _ := hex.DecodeString(c.hex)
		if got, err := codec.AppendJSON([]byte("<"), raw); !errors.Is(err, ErrValue) || string(got) != "<" {
			t.Errorf("%s takes %s: %s, %v", c.schema, c.hex, got, err)
		}
		if got, err := codec.Encode([]byte("<"), json.RawMessage(c.json)); !errors.Is(err, ErrValue) || string(got) != "<" {
			t.Errorf("%s takes %s: %s, %v", c.schema, c.json, got, err)
		}
	}
	for _, broken := range []string{`{"type":"struct","fields":[{"name":"a","type":"utf8"}]}`, `{"type":"array","size":2}`, `{"type":"avro","avro":"lung"}`,
		`{"type":"avro"}`, `{"type":"protobuf","message":"M"}`, `{"type":"row","fields":[{"name":"a","type":"u8"}]}`} {
		if _, err := Compile(parsed(t, broken)); err == nil {
			t.Errorf("%s compiles", broken)
		}
	}
}

// The table of evolutions: each pair both ways.
func TestCompare(t *testing.T) {
	row := func(fields string) *abi.Schema { return parsed(t, `{"type":"row","fields":[`+fields+`]}`) }
	const a, b = `{"name":"a","type":"int64"}`, `{"name":"b","type":"string"}`
	pb := func(fields ...string) *abi.Schema { return protoSchema(t, 0, fields...) }
	record := func(fields string) *abi.Schema {
		return avroSchema(`{"type":"record","name":"R","fields":[` + fields + `]}`)
	}
	const aLong = `{"name":"a","type":"long"}`
	for _, c := range []struct {
		name       string
		one, two   *abi.Schema
		there      Change
		back       Change
		why, back_ string
	}{
		{"undescribed", nil, parsed(t, `{"type":"u64"}`), Same, Same, "not described before", "any more"},
		{"scalar the same", parsed(t, `{"type":"u64"}`), parsed(t, `{"type":"u64"}`), Same, Same, "", ""},
		{"scalar to another", parsed(t, `{"type":"u64"}`), parsed(t, `{"type":"i64"}`), Incompatible, Incompatible, "was u64, is i64", "was i64, is u64"},
		{"text to bytes", parsed(t, `{"type":"utf8"}`), parsed(t, `{"type":"bytes"}`), Additive, Incompatible, "utf8", ""},
		{"json to text", parsed(t, `{"type":"json"}`), parsed(t, `{"type":"utf8"}`), Additive, Incompatible, "", ""},
		{"json stays json", parsed(t, `{"type":"json"}`), parsed(t, `{"type":"json"}`), Same, Same, "", ""},
		{"struct grows", parsed(t, `{"type":"struct","fields":[{"name":"a","type":"u8"}]}`), parsed(t, `{"type":"struct","fields":[{"name":"a","type":"u8"},{"name":"b","type":"u8"}]}`),
			Incompatible, Incompatible, "were 1 fields, are 2", "were 2 fields, are 1"},
		{"struct renames", parsed(t, `{"type":"struct","fields":[{"name":"a","type":"u8"}]}`), parsed(t, `{"type":"struct","fields":[{"name":"b","type":"u8"}]}`), Incompatible, Incompatible, "was a, is b", ""},
		{"row gains a column", row(a), row(a + "," + b), Convertible, Incompatible, "new columns b", "column b is gone"},
		{"row gains one with a default", row(a), row(a + `,{"name":"n","type":"int64","default":3}`), Convertible, Incompatible, "n", ""},
		{"row gains one with a wrong default", row(a), row(a + `,{"name":"n","type":"int64","default":"x"}`), Incompatible, Incompatible, "default of column n", ""},
		{"row reordered", row(a + "," + b), row(b + "," + a), Convertible, Convertible, "another order", ""},
		{"row changes a type", row(a), row(`{"name":"a","type":"float64"}`), Incompatible, Incompatible, "column a was int64, is float64", ""},
		{"avro gains a field with default", record(aLong), record(aLong + `,{"name":"n","type":"int","default":3}`), Convertible, Convertible, "", ""},
		{"avro gains a field without", record(aLong), record(aLong + `,{"name":"n","type":"int"}`), Incompatible, Convertible, "n", ""},
		{"avro int to long", record(`{"name":"a","type":"int"}`), record(aLong), Convertible, Incompatible, "", ""},
		{"avro default changes", record(`{"name":"a","type":"long","default":1}`), record(`{"name":"a","type":"long","default":2}`), Additive, Additive, "encoding is the same", ""},
		{"protobuf gains a field", pb("a:1:int64"), pb("a:1:int64", "b:2:string"), Additive, Additive, "new field b", "gone and its number not reserved"},
		{"protobuf number moves", pb("a:1:int64"), pb("a:2:int64"), Incompatible, Incompatible, "another number", ""},
		{"protobuf type changes", pb("a:1:int64"), pb("a:1:string"), Incompatible, Incompatible, "was int64, is string", ""},
		{"protobuf widens", pb("a:1:int32"), pb("a:1:int64"), Additive, Incompatible, "", "was int64, is int32"},
		{"protobuf zigzag", pb("a:1:int64"), pb("a:1:sint64"), Incompatible, Incompatible, "", ""},
		{"protobuf renames", pb("a:1:int64"), pb("z:1:int64"), Additive, Additive, "was a, is z", ""},
		{"protobuf required comes", pb("a:1:int64"), pb("a:1:int64", "b:2:int64:required"), Incompatible, Incompatible, "new and required", "was required and is gone"},
		{"protobuf repeated", pb("a:1:int64"), pb("a:1:int64:repeated"), Incompatible, Incompatible, "repeated", ""},
		{"protobuf takes a reserved number", protoSchema(t, 2, "a:1:int64"), pb("a:1:int64", "b:2:int64"), Incompatible, Additive, "reserved", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, way := range []struct {
				from, to *abi.Schema
				want     Change
				why      string
			}{{c.one, c.two, c.there, c.why}, {c.two, c.one, c.back, c.back_}} {
				if got, why := Compare(way.from, way.to); got != way.want || !strings.Contains(why, way.why) {
					t.Errorf("%v (%s), want %v (%s)", got, why, way.want, way.why)
				}
			}
		})
	}
}

func TestConvert(t *testing.T) {
	for _, c := range []struct{ from, to, value, want string }{
		{`{"type":"row","fields":[{"name":"a","type":"int64"},{"name":"s","type":"string"}]}`,
			`{"type":"row","fields":[{"name":"s","type":"string"},{"name":"n","type":"int64","default":7},{"name":"a","type":"int64"},{"name":"x","type":"bool"}]}`,
			`{"a":1,"s":"t"}`, `{"s":"t","n":7,"a":1,"x":null}`},
		{`{"type":"avro","avro":{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"gone","type":"string"}]}}`,
			`{"type":"avro","avro":{"type":"record","name":"R","fields":[{"name":"n","type":["null","string"],"default":null},{"name":"a","type":"long"},{"name":"d","type":"int","default":3}]}}`,
			`{"a":5,"gone":"x"}`, `{"n":null,"a":5,"d":3}`},
	} {
		from, to := parsed(t, c.from), parsed(t, c.to)
		conv, err := NewConverter(from, to)
		if err != nil {
			t.Fatal(err)
		}
		old, err := Compile(from)
		if err != nil {
			t.Fatal(err)
		}
		b, err := old.Encode(nil, json.RawMessage(c.value))
		if err != nil {
			t.Fatal(err)
		}
		out, err := conv([]byte("<"), b)
		if err != nil {
			t.Fatal(err)
		}
		now, err := Compile(to)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := now.AppendJSON(nil, out[1:]); err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
		if _, err := conv(nil, []byte("\xff\xff")); !errors.Is(err, ErrValue) {
			t.Errorf("a broken value: %v", err)
		}
	}
	if _, err := NewConverter(parsed(t, `{"type":"u64"}`), parsed(t, `{"type":"i64"}`)); err == nil {
		t.Error("an incompatible change converts")
	}
}
