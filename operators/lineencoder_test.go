package operators_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

func encode(t *testing.T, s *operators.SinkNode, r abi.Record) string {
	t.Helper()
	var b abi.Batch
	b.Append(&r)
	out, err := operators.NewLineEncoder(s).Append(nil, b.Frame(0))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestPlainLines: null and empty differ, and one record is one line whatever it holds (C017).
func TestPlainLines(t *testing.T) {
	for _, c := range []struct {
		value []byte
		want  string
	}{
		{nil, "null\n"}, {[]byte{}, "\"\"\n"}, {[]byte(`{"a":1}`), "{\"a\":1}\n"}, {[]byte("plain text"), "plain text\n"},
		{[]byte("{\n \"a\": 1\r\n}"), "{  \"a\": 1  }\n"}, {[]byte("two\nlines"), `"two\nlines"` + "\n"},
		{[]byte("\xff\n"), `{"base64":"/wo="}` + "\n"},
	} {
		if got := encode(t, &operators.SinkNode{}, abi.Record{Value: c.value}); got != c.want {
			t.Errorf("%q: %q, want %q", c.value, got, c.want)
		}
	}
}

// TestEnvelope: keys, nulls and empties all come out apart (C017).
func TestEnvelope(t *testing.T) {
	s := &operators.SinkNode{Envelope: true}
	for _, c := range []struct {
		r    abi.Record
		want string
	}{
		{abi.Record{Time: 7, Key: []byte("k1")}, `{"key":"k1","value":null,"time":7}`},
		{abi.Record{Time: abi.NoTime, Key: []byte("k2"), Value: []byte{}}, `{"key":"k2","value":"","time":null}`},
		{abi.Record{Time: 0, Value: []byte("v")}, `{"key":null,"value":"v","time":0}`},
		{abi.Record{Time: 0, Key: []byte{}, Value: []byte("w")}, `{"key":"","value":"w","time":0}`},
		{abi.Record{Time: 0, Key: []byte{0xfe}, Value: []byte("w")}, `{"key":{"base64":"/g=="},"value":"w","time":0}`},
	} {
		if got := encode(t, s, c.r); got != c.want+"\n" {
			t.Errorf("got %s want %s", got, c.want)
		}
	}
}

// TestDeadLetterLine: the record is there byte for byte, with where and why.
func TestDeadLetterLine(t *testing.T) {
	fields := []abi.Field{{Name: "n", Type: abi.TypeInt64}}
	rows := format.NewRowBuilder(1)
	rows.Reset()
	rows.Int(0, -1)
	r := abi.Record{Time: 9, Key: []byte("k"), Value: rows.Row(), Headers: []abi.Header{{Key: []byte("h"), Value: []byte("x")}, {Key: []byte("h")}},
		Pos: abi.Position{Split: 2, Offset: 33}}
	var in, dead abi.Batch
	in.Append(&r)
	operators.AppendDeadLetter(&dead, in.Frame(0), &operators.DeadLetter{Operator: "op", Task: 1, Kind: "trap", Error: "unreachable \"x\"", Module: "ab", Position: "f:1", Attempts: 1})
	line, err := operators.NewLineEncoder(&operators.SinkNode{DeadLetter: true, Input: fields}).Append(nil, dead.Frame(0))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Operator, Kind, Error, Module, Position, Key string
		Task, Split, Offset, Time, Attempts          int64
		Value                                        struct{ Base64 string }
		Row                                          map[string]any
		Headers                                      []struct{ Key, Value *string }
	}
	if err := json.Unmarshal(line, &got); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	value, _ := base64.StdEncoding.DecodeString(got.Value.Base64)
	if string(value) != string(r.Value) || got.Row["n"] != -1.0 {
		t.Errorf("value %x, row %v", value, got.Row)
	}
	if got.Operator != "op" || got.Task != 1 || got.Kind != "trap" || got.Error != "unreachable \"x\"" || got.Module != "ab" || got.Position != "f:1" ||
		got.Key != "k" || got.Split != 2 || got.Offset != 33 || got.Time != 9 || got.Attempts != 1 {
		t.Errorf("got %s", line)
	}
	if len(got.Headers) != 2 || *got.Headers[0].Value != "x" || got.Headers[1].Value != nil {
		t.Errorf("headers of %s", line)
	}
}
