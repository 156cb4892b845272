package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/operatortest"
)

const samples = "../../examples/flights/data"

var flightFields = []abi.Field{{Name: "origin", Type: abi.TypeString}, {Name: "delay", Type: abi.TypeInt64}, {Name: "date", Type: abi.TypeTime}}

func flightsNode(dir, name string) *operators.Node {
	n := sourceNode(dir, name)
	n.Source.Format = strings.TrimPrefix(filepath.Ext(name), ".")
	n.Source.Fields, n.Schema = flightFields, flightFields
	n.Source.Time = &operators.TimeSettings{Field: "date", Unit: "ms", OutOfOrderness: 28 * time.Hour}
	n.Source.Key = &operators.KeyByNode{Fields: []string{"origin"}}
	return n
}

func lines(t *testing.T, c *operatortest.Collected, fields []abi.Field) (out []string) {
	t.Helper()
	e := format.NewRowEncoder(fields)
	for _, r := range c.Records {
		b, err := e.Append(nil, r.Value)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %d %s", r.Key, r.Time, b))
	}
	return out
}

// TestFlightsFormats: the sample gives the same records and watermarks from Parquet as from JSON lines.
func TestFlightsFormats(t *testing.T) {
	for _, name := range []string{"flights", "flights-by-report"} {
		pq := operatortest.OpenSource(t, NewSource(flightsNode(samples, name+".parquet")), operatortest.Context(t, "in", "")).Drain(256)
		js := operatortest.OpenSource(t, NewSource(flightsNode(samples, name+".ndjson")), operatortest.Context(t, "in", "")).Drain(100)
		a, b := lines(t, &pq.Out, flightFields), lines(t, &js.Out, flightFields)
		if len(a) != 6306 || !slices.Equal(a, b) {
			t.Errorf("%s: %d rows, %d lines, or they differ", name, len(a), len(b))
		}
		if !reflect.DeepEqual(pq.Out.Marks, js.Out.Marks) || len(pq.Out.Marks) < 100 {
			t.Errorf("%s: %d marks, %d marks", name, len(pq.Out.Marks), len(js.Out.Marks))
		}
	}
}

// TestWholeFlights reads the three million rows where they are at hand: MILLRACE_FLIGHTS names their folder.
func TestWholeFlights(t *testing.T) {
	dir := os.Getenv("MILLRACE_FLIGHTS")
	if dir == "" {
		t.Log("MILLRACE_FLIGHTS does not name the folder of flights-3m.parquet: only the sample was read")
		return
	}
	for _, name := range []string{"flights-3m.parquet", "flights-by-report.parquet"} {
		cpu := cpuTime()
		s := NewSource(flightsNode(dir, name))
		if err := s.Open(operatortest.Context(t, "in", "")); err != nil {
			t.Fatal(err)
		}
		var b abi.Batch
		rows, delay, late := 0, int64(0), 0
		w := abi.MinWatermark
		for st := operators.PollMore; st != operators.PollEnd; {
			b.Reset()
			var err error
			if st, err = s.Poll(&b, 256); err != nil {
				t.Fatal(err)
			}
			m := 0
			for i := range b.Off {
				for ; m < len(b.Marks) && int(b.Marks[m].Index) <= i; m++ {
					w = b.Marks[m].Watermark
				}
				f := b.Frame(i)
				if f.Time() <= w {
					late++
				}
				delay += f.Time() % 7
			}
			for ; m < len(b.Marks); m++ {
				w = b.Marks[m].Watermark
			}
			rows += b.Len()
		}
		t.Logf("%s: %d rows, %d late, %.0f ns of CPU a row", name, rows, late, float64(cpuTime()-cpu)/float64(rows))
		if rows != 3_000_000 || late != 0 {
			t.Errorf("%s: %d rows, %d late", name, rows, late)
		}
	}
}

type every struct {
	I32  int32     `parquet:"i32"`
	U32  uint32    `parquet:"u32"`
	I64  *int64    `parquet:"i64,optional"`
	F32  float32   `parquet:"f32"`
	F64  *float64  `parquet:"f64,optional"`
	B    bool      `parquet:"b"`
	S    string    `parquet:"s,dict"`
	Y    []byte    `parquet:"y"`
	Ms   time.Time `parquet:"ms,timestamp(millisecond)"`
	Us   time.Time `parquet:"us,timestamp(microsecond)"`
	Ns   time.Time `parquet:"ns,timestamp(nanosecond)"`
	Day  int32     `parquet:"day,date"`
	Text string    `parquet:"text"`
	Sec  int64     `parquet:"sec"`
}

var everyFields = []abi.Field{{Name: "i32", Type: abi.TypeInt64}, {Name: "u32", Type: abi.TypeInt64}, {Name: "i64", Type: abi.TypeInt64},
	{Name: "f32", Type: abi.TypeFloat64}, {Name: "f64", Type: abi.TypeFloat64}, {Name: "b", Type: abi.TypeBool}, {Name: "s", Type: abi.TypeString},
	{Name: "y", Type: abi.TypeBytes}, {Name: "ms", Type: abi.TypeTime}, {Name: "us", Type: abi.TypeTime}, {Name: "ns", Type: abi.TypeTime},
	{Name: "day", Type: abi.TypeTime}, {Name: "text", Type: abi.TypeTime}, {Name: "sec", Type: abi.TypeTime}}

// TestParquetTypes: every type, nulls, several row groups, restored at every row.
func TestParquetTypes(t *testing.T) {
	dir := t.TempDir()
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	var rows []every
	var want []string
	for i := range 25 {
		r := every{I32: int32(-i), U32: 1<<31 + uint32(i), F32: 0.5, B: i%2 == 0, S: strings.Repeat("é", i%3), Y: []byte{byte(i), 255},
			Ms: at, Us: at, Ns: at, Day: int32(i), Text: "1970-01-01T00:00:01Z", Sec: int64(i)}
		i64, f64 := "null", "null"
		if i%3 != 0 {
			n, f := int64(i)<<40, float64(i)/8
			r.I64, r.F64 = &n, &f
			i64, f64 = fmt.Sprint(n), fmt.Sprint(f)
		}
		rows = append(rows, r)
		want = append(want, fmt.Sprintf(`%d %d {"i32":%d,"u32":%d,"i64":%s,"f32":0.5,"f64":%s,"b":%v,"s":%q,"y":%q,"ms":%d,"us":%d,"ns":%d,"day":%d,"text":1000,"sec":%d}`,
			-i, i*1000, -i, 1<<31+i, i64, f64, i%2 == 0, strings.Repeat("é", i%3), []string{"AP8="}[0], at.UnixMilli(), at.UnixMilli(), at.UnixMilli(), i*86_400_000, i*1000))
	}
	for i := range want { // base64 of the two bytes
		b := format.NewRowEncoder([]abi.Field{{Name: "y", Type: abi.TypeBytes}})
		rb := format.NewRowBuilder(1)
		rb.Reset()
		rb.Bytes(0, []byte{byte(i), 255})
		enc, _ := b.Append(nil, rb.Row())
		want[i] = strings.Replace(want[i], `"y":"AP8="`, strings.Trim(string(enc), "{}"), 1)
	}
	if err := parquet.WriteFile(filepath.Join(dir, "x.parquet"), rows, parquet.MaxRowsPerRowGroup(7)); err != nil {
		t.Fatal(err)
	}
	n := sourceNode(dir, "x.parquet")
	n.Source.Format, n.Source.Fields, n.Schema = "parquet", everyFields, everyFields
	n.Source.Time = &operators.TimeSettings{Field: "sec", Unit: "s"}
	n.Source.Key = &operators.KeyByNode{Fields: []string{"i32"}}
	for stop := range len(rows) + 1 {
		r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", ""))
		for range stop {
			if err := r.Poll(1); err != nil {
				t.Fatal(err)
			}
		}
		ctx := operatortest.Context(t, "in", "")
		ctx.Restored = []checkpoint.OperatorSnapshot{{Splits: r.Source.Positions()}}
		got := lines(t, &r.Out, everyFields)
		r.Source.Close()
		got = append(got, lines(t, &operatortest.OpenSource(t, NewSource(n), ctx).Drain(10).Out, everyFields)...)
		if !slices.Equal(got, want) {
			t.Fatalf("stopped after %d rows:\ngot  %q\nwant %q", stop, got, want)
		}
	}
}

func TestParquetErrors(t *testing.T) {
	dir := t.TempDir()
	if err := parquet.WriteFile(filepath.Join(dir, "x.parquet"), []every{{S: "a"}}); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "bad.parquet", "PAR1 no parquet file at all PAR1")
	whole, err := os.ReadFile(filepath.Join(samples, "flights.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < 2000; i += 40 { // page headers and data, not the footer
		whole[i] ^= 0xff
	}
	write(t, dir, "torn.parquet", string(whole))
	for _, c := range []struct {
		file  string
		field abi.Field
		want  string
	}{
		{"x.parquet", abi.Field{Name: "gone", Type: abi.TypeInt64}, `there is no column "gone", the file has i32, u32`},
		{"x.parquet", abi.Field{Name: "s", Type: abi.TypeInt64}, "a column of type STRING can't be read as int64"},
		{"x.parquet", abi.Field{Name: "f64", Type: abi.TypeInt64}, "a column of type DOUBLE can't be read as int64"},
		{"bad.parquet", abi.Field{Name: "s", Type: abi.TypeInt64}, "not a Parquet file"},
		{"torn.parquet", abi.Field{Name: "date", Type: abi.TypeTime}, "Parquet"},
	} {
		n := sourceNode(dir, c.file)
		n.Source.Format, n.Source.Fields = "parquet", []abi.Field{c.field}
		n.Schema = n.Source.Fields
		n.Source.OnError = &operators.ErrorPolicy{Policy: "skip"} // is for rows, not for files
		r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", ""))
		var err error
		for err == nil && r.Status != operators.PollEnd {
			err = r.Poll(1000)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %v: got %v, want %s", c.file, c.field, err, c.want)
		}
		r.Source.Close()
	}
}

// TestCSV: quotes, line breaks in cells, nulls, bad rows by policy with their text, and restarts anywhere.
func TestCSV(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "x.csv", "\ufeffcity,n,at,ok\n\"Sao \"\"P\"\"\",1,2026-01-01,true\n\"two\nlines\",,2026-01-02,\n,3,5000,0\nbad,x,1,1\nshort,1\nlast,-4,1970-01-01T00:00:02Z,false")
	fields := []abi.Field{{Name: "n", Type: abi.TypeInt64}, {Name: "city", Type: abi.TypeString}, {Name: "ok", Type: abi.TypeBool}, {Name: "at", Type: abi.TypeTime}}
	n := sourceNode(dir, "x.csv")
	n.Source.Format, n.Source.Fields, n.Schema = "csv", fields, fields[:3]
	n.Source.Time = &operators.TimeSettings{Field: "at"}
	n.Source.Key = &operators.KeyByNode{Fields: []string{"city"}}
	n.Source.OnError = &operators.ErrorPolicy{Policy: "dead_letter"}
	want := []string{
		`Sao "P" 1767225600000 {"n":1,"city":"Sao \"P\"","ok":true}`,
		"two\nlines " + `1767312000000 {"n":null,"city":"two\nlines","ok":null}`,
		` 5000 {"n":3,"city":"","ok":false}`,
		`last 2000 {"n":-4,"city":"last","ok":false}`,
	}
	for stop := range 8 {
		var got, dead []string
		var restored []checkpoint.OperatorSnapshot
		for _, polls := range []int{stop, 20} {
			ctx := operatortest.Context(t, "in", "")
			ctx.Restored = restored
			r := operatortest.OpenSource(t, NewSource(n), ctx)
			for range polls {
				if err := r.Poll(1); err != nil {
					t.Fatal(err)
				}
			}
			got = append(got, lines(t, &r.Out, fields[:3])...)
			dead = append(dead, r.Rejected.Values()...)
			restored = []checkpoint.OperatorSnapshot{{Splits: r.Source.Positions()}}
			r.Source.Close()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("stopped after %d:\ngot  %q\nwant %q", stop, got, want)
		}
		if !slices.Equal(dead, []string{"bad,x,1,1", "short,1"}) {
			t.Errorf("stopped after %d: dead letters %q", stop, dead)
		}
	}
}

func TestBinary(t *testing.T) {
	dir := t.TempDir()
	var b abi.Batch
	for i := range 10 {
		r := abi.Record{Time: int64(i), Key: []byte{byte(i)}, Value: []byte(fmt.Sprint(i)), Headers: []abi.Header{{Key: []byte("h")}}}
		if i == 3 {
			r.Key, r.Value = nil, nil
		}
		b.Append(&r)
	}
	write(t, dir, "x.bin", string(b.Data))
	n := sourceNode(dir, "x.bin")
	n.Source.Format = "binary"
	n.Source.Time = &operators.TimeSettings{}
	r := operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", "")).Drain(3)
	for i, rec := range r.Out.Records {
		want := b.Frame(i).Record()
		want.Pos = abi.Position{Offset: uint64(b.Off[i])}
		if !reflect.DeepEqual(rec, want) {
			t.Errorf("record %d: %+v, want %+v", i, rec, want)
		}
	}
	write(t, dir, "cut.bin", string(b.Data[:len(b.Data)-1]))
	n.Source.File.Paths = []string{"cut.bin"}
	r = operatortest.OpenSource(t, NewSource(n), operatortest.Context(t, "in", ""))
	if err := r.Poll(100); err == nil || errors.Is(err, operators.ErrInputChanged) || !strings.Contains(err.Error(), "frame at byte") {
		t.Errorf("cut off: %v", err)
	}
}

func keyOf(fields ...string) *operators.KeyByNode { return &operators.KeyByNode{Fields: fields} }
