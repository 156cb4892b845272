package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
)

func TestScan(t *testing.T) {
	s := NewScanner([]string{"a", "b.c", "t", "ü"})
	out := make([]Value, 4)
	for _, c := range []struct{ line, want string }{
		{`{"a":1,"b":{"c":"x"},"t":true}`, `3:1 5:x 3: `},
		{` { "t" : null , "z":[1,{"a":5}], "a":-1.5e3 } `, ``},
		{`{"a":1,"a":"last"}`, ``},
		{`{"b":{"c":1},"b":{}}`, ``},
		{`{"b":{"c":1},"b":7}`, ``},
		{`{"\u00fc":"\ud83d\ude00"}`, ``},
		{`{}`, ``},
	} {
		if err := s.Scan([]byte(c.line), out); err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		var std map[string]any
		if err := json.Unmarshal([]byte(c.line), &std); err != nil {
			t.Fatal(err)
		}
		b, _ := std["b"].(map[string]any)
		inner, there := b["c"]
		check(t, c.line, out[0], std["a"], has(std, "a"))
		check(t, c.line, out[1], inner, there)
		check(t, c.line, out[2], std["t"], has(std, "t"))
		check(t, c.line, out[3], std["ü"], has(std, "ü"))
	}
}

func has(m map[string]any, k string) bool { _, ok := m[k]; return ok }

// check compares an extracted value with what encoding/json made of it.
func check(t *testing.T, line string, v Value, std any, there bool) {
	t.Helper()
	if !there {
		if v.Kind != Absent {
			t.Errorf("%q: got %d %q, want nothing", line, v.Kind, v.Raw)
		}
		return
	}
	ok := false
	switch x := std.(type) {
	case nil:
		ok = v.Kind == Null
	case bool:
		ok = v.Kind == True && x || v.Kind == False && !x
	case string:
		ok = v.Kind == String && string(bytes.ToValidUTF8(AppendUnescaped(nil, v.Raw), []byte("\ufffd"))) == strings.ToValidUTF8(x, "\ufffd")
		if !validText(v.Raw) {
			ok = v.Kind == String // encoding/json replaces each bad byte; here the decoder refuses the text
		}
	case float64:
		f, err := parseFloat(v.Raw)
		ok = v.Kind == Number && err == nil && f == x
	default:
		var again any
		ok = v.Kind == Composite && json.Unmarshal(v.Raw, &again) == nil
	}
	if !ok {
		t.Errorf("%q: got kind %d %q, want %#v", line, v.Kind, v.Raw, std)
	}
}

func TestScanErrors(t *testing.T) {
	s := NewScanner([]string{"a"})
	out := make([]Value, 1)
	for _, c := range []struct {
		line   string
		column int
	}{
		{`{"a":1`, 7}, {`{"a":}`, 6}, {`{"a":01}`, 7}, {`{"a":tru}`, 6}, {`{"a":1}x`, 8}, {`{"a" 1}`, 6},
		{`{a:1}`, 2}, {`{"a":"` + "\x01" + `"}`, 7}, {`{"a":"\x"}`, 8}, {`{"a":"\u12g4"}`, 11}, {``, 1},
		{`[1]`, 1}, {`{"a":1,}`, 8}, {`{"a":"x`, 8}, {`{"a":-}`, 7}, {`{"a":1.}`, 8}, {`{"a":1e}`, 8}, {`{"a":[1 2]}`, 9},
	} {
		err := s.Scan([]byte(c.line), out)
		var se *SyntaxError
		if !errors.As(err, &se) || se.Column != c.column {
			t.Errorf("%q: got %v, want an error at byte %d", c.line, err, c.column)
		}
	}
}

// FuzzScan: the scanner takes exactly the objects encoding/json takes, and finds the same values.
func FuzzScan(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":{"c":"\ud800"}}`, `{"a":[{"a":{}}],"a":null}`, `{"a":1e400}`, `{"a":"\\\"\/"}`, `{"\u0061":1}`, `{"a":"` + "\xff" + `"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s := NewScanner([]string{"a", "b.c"})
		out := make([]Value, 2)
		err := s.Scan(line, out)
		var raw map[string]json.RawMessage
		stdErr := json.Unmarshal(line, &raw)
		if raw == nil && stdErr == nil {
			stdErr = errors.New("null") // encoding/json takes null for an object
		}
		if (err == nil) != (stdErr == nil) {
			t.Fatalf("%q: got %v, encoding/json says %v", line, err, stdErr)
		}
		if err != nil {
			return
		}
		if a, ok := raw["a"]; ok {
			var v any
			if json.Unmarshal(a, &v) == nil { // numbers beyond float64 are not comparable
				check(t, string(line), out[0], v, true)
			}
		} else {
			check(t, string(line), out[0], nil, false)
		}
	})
}

func TestNumbers(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i < 20000; i++ {
		f := math.Float64frombits(rnd.Uint64())
		if i%2 == 0 {
			f = float64(rnd.Int64N(1e12)-5e11) / pow10[rnd.IntN(8)]
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		text := AppendFloat(nil, f)
		got, err := parseFloat(text)
		std, _ := strconv.ParseFloat(string(text), 64)
		if err != nil || got != f || std != f || !json.Valid(text) {
			t.Fatalf("seed %d: %v written as %s, read as %v, %v", seed, f, text, got, err)
		}
		n := int64(rnd.Uint64())
		if m, err := parseInt(strconv.AppendInt(nil, n, 10)); err != nil || m != n {
			t.Fatalf("seed %d: %d read as %d, %v", seed, n, m, err)
		}
	}
	for _, bad := range []string{"", "-", "9223372036854775808", "-9223372036854775809", "1.0", "1e3", "99999999999999999999"} {
		if n, err := parseInt([]byte(bad)); err == nil {
			t.Errorf("%q read as %d", bad, n)
		}
	}
	for _, ok := range []string{"9223372036854775807", "-9223372036854775808", "0", "-0"} {
		if _, err := parseInt([]byte(ok)); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		text string
		str  bool
		unit Unit
		want int64
	}{
		{"1500", false, Millis, 1500}, {"-1", false, Millis, -1}, {"2", false, Seconds, 2000},
		{"1700000000.001", false, Seconds, 1700000000001}, {"1700000000.9999", false, Seconds, 1700000000999},
		{"1999", false, Micros, 1}, {"-1", false, Micros, -1}, {"1999999", false, Nanos, 1},
		{"253402300799999", false, Millis, 253402300799999},
		{"1970-01-01T00:00:01Z", true, Millis, 1000}, {"1970-01-02", true, RFC3339, 86400000},
		{"1970-01-01 00:00:00.25", true, RFC3339, 250}, {"1970-01-01T01:00:00+01:00", true, Millis, 0},
		{"1969-12-31T23:00-0100", true, Millis, 0}, {"2024-02-29T12:00:00.123456Z", true, RFC3339, 1709208000123},
		{"12", true, Seconds, 12000},
	} {
		if got, err := ParseTime([]byte(c.text), c.str, c.unit); err != nil || got != c.want {
			t.Errorf("%s %s: got %d, %v, want %d", c.text, c.unit, got, err, c.want)
		}
	}
	for _, c := range []struct {
		text string
		str  bool
		unit Unit
	}{{"9223372036854775808", false, Millis}, {"-9223372036854775808", false, Millis}, {"9223372036854775807", false, Seconds}, {"1e300", false, Millis}, {"2023-02-29", true, Millis},
		{"12", false, RFC3339}, {"", true, Millis}, {"yesterday", true, Millis}, {"2024-01-01T25:00:00Z", true, Millis},
		{"2024-01-01T12:00:00+1", true, Millis}, {"2024-01-01T12:00:00.Z", true, Millis}} {
		if got, err := ParseTime([]byte(c.text), c.str, c.unit); err == nil {
			t.Errorf("%q %s was read as %d", c.text, c.unit, got)
		}
	}
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 2))
	for range 2000 {
		want := time.UnixMilli(rnd.Int64N(4e12) - 1e12).In(time.FixedZone("", rnd.IntN(100)*900-45000))
		text := want.Format("2006-01-02T15:04:05.000Z07:00")
		if got, err := ParseTime([]byte(text), true, Millis); err != nil || got != want.UnixMilli() {
			t.Fatalf("seed %d: %s read as %d, %v", seed, text, got, err)
		}
	}
}

var allTypes = []abi.Field{{Name: "i", Type: abi.TypeInt64}, {Name: "f", Type: abi.TypeFloat64}, {Name: "b", Type: abi.TypeBool},
	{Name: "s", Type: abi.TypeString}, {Name: "y", Type: abi.TypeBytes}, {Name: "t", Type: abi.TypeTime}}

// TestRowRoundTrip: line -> typed row -> line.
func TestRowRoundTrip(t *testing.T) {
	d := NewJSON(Plan{Fields: allTypes, Row: allTypes, Time: "t", Unit: Seconds, Key: []string{"s", "i"}})
	e := NewRowEncoder(allTypes)
	for _, c := range []struct{ in, out, key string }{
		{`{"s":"x","i":5,"f":0.1,"b":true,"y":"AAE=","t":7,"more":[]}`, `{"i":5,"f":0.1,"b":true,"s":"x","y":"AAE=","t":7000}`, "x\x00\x015"},
		{`{"s":"","i":-0,"t":"1970-01-01T00:00:01Z"}`, `{"i":0,"f":null,"b":null,"s":"","y":null,"t":1000}`, "\x00\x010"},
		{`{"s":"a\u0000\n\"","i":9007199254740993,"t":0,"f":1e300}`, `{"i":9007199254740993,"f":1e+300,"b":null,"s":"a\u0000\n\"","y":null,"t":0}`, "a\x00\xff\n\"\x00\x019007199254740993"},
	} {
		var r abi.Record
		if err := d.Decode([]byte(c.in), &r); err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		got, err := e.Append(nil, r.Value)
		if err != nil || string(got) != c.out {
			t.Errorf("%s: got %s, %v, want %s", c.in, got, err, c.out)
		}
		if string(r.Key) != c.key {
			t.Errorf("%s: key %q, want %q", c.in, r.Key, c.key)
		}
		k, err := NewKeyer([]string{"s", "i"}, false, allTypes).Key(r.Value)
		if err != nil || !bytes.Equal(k, r.Key) {
			t.Errorf("%s: key of the row %q, %v, of the line %q", c.in, k, err, r.Key)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	d := NewJSON(Plan{Fields: allTypes, Row: allTypes, Time: "t", Key: []string{"s"}})
	for line, want := range map[string]string{
		`{"t":1,"i":1.5,"s":"a"}`:       `field "i": not a fitting number`,
		`{"t":1,"i":"1","s":"a"}`:       `field "i": expected an integer`,
		`{"t":1,"s":5}`:                 `field "s": expected a string`,
		"{\"t\":1,\"s\":\"\xff\"}":      `field "s": not UTF-8`,
		`{"s":"a"}`:                     `field "t": no event time`,
		`{"t":null,"s":"a"}`:            `field "t": no event time`,
		`{"t":9223372036854775808}`:     `field "t": not a fitting number`,
		`{"t":1}`:                       `null key`,
		`{"t":1,"s":null}`:              `null key`,
		`{"t":1,"y":"%","s":"a"}`:       `field "y": expected base64`,
		`{"t":1,"b":1,"s":"a"}`:         `field "b": expected true or false`,
		`{"t":{},"s":"a"}`:              `field "t": expected a time`,
		`{"t":1,"s":"a","f":1e400}`:     `field "f": not a fitting number`,
		`{"t":1,"s":"a","f":"Infinity"`: `invalid JSON at byte 30`,
	} {
		var r abi.Record
		if err := d.Decode([]byte(line), &r); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}

// TestEmptyKey: "" is a key, null is none (C017).
func TestEmptyKey(t *testing.T) {
	d := NewJSON(Plan{Key: []string{"k"}})
	var r abi.Record
	if err := d.Decode([]byte(`{"k":""}`), &r); err != nil || r.Key == nil || len(r.Key) != 0 {
		t.Errorf("key %v, %v", r.Key, err)
	}
	if err := d.Decode([]byte(`{"k":null}`), &r); !errors.Is(err, ErrNullKey) {
		t.Errorf("got %v", err)
	}
}

func TestSplitKey(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 3))
	seen := map[string]string{}
	for range 5000 {
		var parts [][]byte
		var key []byte
		for i := range 1 + rnd.IntN(3) {
			p := make([]byte, rnd.IntN(4))
			for j := range p {
				p[j] = []byte{0, 1, 0xff, 'a'}[rnd.IntN(4)]
			}
			parts = append(parts, p)
			key = appendKeyPart(key, p, i == 0)
		}
		name := fmt.Sprintf("%q", parts)
		if other, ok := seen[string(key)]; ok && other != name {
			t.Fatalf("seed %d: %s and %s have one key %q", seed, name, other, key)
		}
		seen[string(key)] = name
		if got := fmt.Sprintf("%q", SplitKey(key)); got != name {
			t.Fatalf("seed %d: %q split into %s, want %s", seed, key, got, name)
		}
	}
}

func TestDecodeAllocatesNothing(t *testing.T) {
	d := NewJSON(Plan{Fields: allTypes[:4], Row: allTypes[:4], Key: []string{"s"}, Time: "i"})
	var r abi.Record
	line := []byte(`{"i":1700000000000,"f":12.25,"b":false,"s":"k\u00e4y-0042"}`)
	if n := testing.AllocsPerRun(100, func() {
		if err := d.Decode(line, &r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per line", n)
	}
}

var benchLine = []byte(`{"ts":1700000012345,"key":"key-0000123","amount":123.45}`)

func BenchmarkScan(b *testing.B) {
	s := NewScanner([]string{"ts", "key", "amount"})
	out := make([]Value, 3)
	for b.Loop() {
		if err := s.Scan(benchLine, out); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRow(b *testing.B) {
	fields := []abi.Field{{Name: "ts", Type: abi.TypeTime}, {Name: "key", Type: abi.TypeString}, {Name: "amount", Type: abi.TypeFloat64}}
	d := NewJSON(Plan{Fields: fields, Row: fields, Key: []string{"key"}, Time: "ts"})
	var r abi.Record
	for b.Loop() {
		if err := d.Decode(benchLine, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeRaw(b *testing.B) {
	d := NewJSON(Plan{Key: []string{"key"}, Time: "ts"})
	var r abi.Record
	for b.Loop() {
		if err := d.Decode(benchLine, &r); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzRowEncoder: rows come from guests; whatever they hold, the encoder gives JSON or an error.
func FuzzRowEncoder(f *testing.F) {
	b := NewRowBuilder(len(allTypes))
	b.Reset()
	b.Bytes(3, []byte("text\xff"))
	f.Add(b.Row())
	f.Fuzz(func(t *testing.T, row []byte) {
		if out, err := NewRowEncoder(allTypes).Append(nil, row); err == nil && !json.Valid(out) {
			t.Errorf("%x gives %s", row, out)
		}
	})
}
