package abitest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

func read(t testing.TB, name string) []Vector {
	t.Helper()
	list, err := Read("../vectors/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no vectors", name)
	}
	return list
}

func text(t testing.TB, s string) []byte {
	t.Helper()
	if s == "null" {
		return nil
	}
	u, err := strconv.Unquote(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return append([]byte{}, u...)
}

func record(t testing.TB, v Vector) abi.Record {
	t.Helper()
	var r abi.Record
	for _, f := range v.Fields {
		var err error
		switch s := f[1]; f[0] {
		case "key":
			r.Key = text(t, s)
		case "value":
			r.Value = text(t, s)
		case "time":
			if r.Time = abi.NoTime; s != "none" {
				r.Time, err = strconv.ParseInt(s, 10, 64)
			}
		case "op":
			_, err = fmt.Sscan(s, &r.Op)
		case "output":
			_, err = fmt.Sscan(s, &r.Output)
		case "cause":
			_, err = fmt.Sscan(s, &r.Cause)
		case "pos":
			_, err = fmt.Sscanf(s, "%d/%d", &r.Pos.Split, &r.Pos.Offset)
		case "header":
			k, val, _ := strings.Cut(s, " ")
			r.Headers = append(r.Headers, abi.Header{Key: text(t, k), Value: text(t, val)})
		default:
			err = fmt.Errorf("unknown field")
		}
		if err != nil {
			t.Fatalf("%s: %s %s: %v", v.Name, f[0], f[1], err)
		}
	}
	return r
}

func TestFrames(t *testing.T) {
	for _, v := range read(t, "frames.txt") {
		f, rest, err := abi.NextFrame(v.Bytes["hex"])
		if v.Bad {
			if err == nil {
				t.Errorf("%s: decoded as %+v", v.Name, f.Record())
			}
			continue
		}
		want := record(t, v)
		if err != nil || len(rest) != 0 {
			t.Errorf("%s: %d bytes left, %v", v.Name, len(rest), err)
			continue
		}
		if got := f.Record(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v, expected %+v", v.Name, got, want)
		}
		if got := abi.AppendRecord(nil, &want); !bytes.Equal(got, v.Bytes["hex"]) {
			t.Errorf("%s: encoded\n%x, expected\n%x", v.Name, got, v.Bytes["hex"])
		}
	}
}

// rowOf returns the types of a row vector, the values as text, and the encoded row.
func rowOf(t testing.TB, v Vector) (fields []abi.Field, values []string, row []byte) {
	t.Helper()
	for _, f := range v.Fields {
		if f[0] == "value" {
			values = append(values, f[1])
			continue
		}
		for i, name := range strings.Fields(f[1]) {
			fields = append(fields, abi.Field{Name: fmt.Sprint("c", i), Type: abi.FieldType(name)})
		}
	}
	if v.Bad {
		return fields, nil, nil
	}
	var b abi.RowBuilder
	b.Reset(len(fields))
	for i, s := range values {
		if s != "null" {
			set(t, &b, i, fields[i].Type, s)
		}
	}
	return fields, values, b.Bytes()
}

func set(t testing.TB, b *abi.RowBuilder, i int, ft abi.FieldType, s string) {
	t.Helper()
	var err error
	switch ft {
	case abi.TypeInt64, abi.TypeTime:
		var n int64
		n, err = strconv.ParseInt(s, 10, 64)
		b.SetInt64(i, n)
	case abi.TypeFloat64:
		var x float64
		x, err = strconv.ParseFloat(s, 64)
		b.SetFloat64(i, x)
	case abi.TypeBool:
		b.SetBool(i, s == "true")
	case abi.TypeString:
		b.SetString(i, string(text(t, s)))
	case abi.TypeBytes:
		b.SetBytes(i, text(t, s))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// value is a column as vectors write it.
func value(r abi.Row, i int, ft abi.FieldType) string {
	if r.IsNull(i) {
		return "null"
	}
	switch ft {
	case abi.TypeFloat64:
		x, _ := r.Float64(i)
		return strconv.FormatFloat(x, 'g', -1, 64)
	case abi.TypeBool:
		x, _ := r.Bool(i)
		return strconv.FormatBool(x)
	case abi.TypeString, abi.TypeBytes:
		x, _ := r.Bytes(i)
		return strconv.QuoteToASCII(string(x))
	}
	x, _ := r.Int64(i)
	return strconv.FormatInt(x, 10)
}

func TestRows(t *testing.T) {
	for _, v := range read(t, "rows.txt") {
		fields, values, row := rowOf(t, v)
		r, err := abi.CheckRow(v.Bytes["hex"], fields)
		if v.Bad {
			if err == nil {
				t.Errorf("%s: accepted", v.Name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		if !bytes.Equal(row, v.Bytes["hex"]) {
			t.Errorf("%s: encoded\n%x, expected\n%x", v.Name, row, v.Bytes["hex"])
		}
		for i, want := range values {
			if got := value(r, i, fields[i].Type); got != want {
				t.Errorf("%s: column %d is %s, expected %s", v.Name, i, got, want)
			}
		}
	}
}

// The block vector against the constants: each table is where the header says, and cells change as told.
func TestBlocks(t *testing.T) {
	le := binary.LittleEndian
	for _, v := range read(t, "blocks.txt") {
		b, after, out := v.Bytes["block"], v.Bytes["after"], v.Bytes["out"]
		n := int(le.Uint32(b[abi.BlockN:]))
		outs := out[abi.OutHeader:]
		if int(le.Uint32(out[abi.OutConsumed:])) != n || int(le.Uint32(out[abi.OutFrames:])) != n || int(le.Uint32(out[abi.OutBytes:])) != len(outs) {
			t.Errorf("%s: output header %x", v.Name, out[:abi.OutHeader])
		}
		base, stride := le.Uint32(b[le.Uint32(b[abi.BlockStates:]):]), le.Uint32(b[le.Uint32(b[abi.BlockStates:])+4:])
		if int(stride) != abi.CellStride(8) || base%8 != 0 {
			t.Errorf("%s: cells at %d every %d", v.Name, base, stride)
		}
		mark := b[le.Uint32(b[abi.BlockMarks:]):]
		for i := range n {
			f, _, err := abi.NextFrame(b[le.Uint32(b[int(le.Uint32(b[abi.BlockOffsets:]))+4*i:]):])
			if err != nil {
				t.Fatal(err)
			}
			o, rest, err := abi.NextFrame(outs)
			if err != nil {
				t.Fatal(err)
			}
			outs = rest
			wm := int64(le.Uint64(b[abi.BlockWatermark:]))
			if uint32(i) >= le.Uint32(mark) {
				wm = int64(le.Uint64(mark[8:]))
			}
			want := f.Record()
			want.Time, want.Cause = wm, uint32(i)
			if got := o.Record(); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: output %+v, expected %+v", v.Name, got, want)
			}
			key := le.Uint32(b[int(le.Uint32(b[abi.BlockKeys:]))+4*i:])
			before, cell := b[base+key*stride:], after[base+key*stride:]
			count := uint64(0)
			if le.Uint32(before[4:])&abi.CellPresent != 0 {
				count = le.Uint64(before[abi.CellHeader:])
			}
			if le.Uint32(cell) != 8 || le.Uint32(cell[4:]) != abi.CellPresent|abi.CellChanged || le.Uint64(cell[abi.CellHeader:]) != count+1 {
				t.Errorf("%s: cell of key %d is %x", v.Name, key, cell[:stride])
			}
		}
	}
}

// Whatever the bytes: no panic, and what is accepted is stable under decode, encode, decode.
func FuzzFrame(f *testing.F) {
	for _, v := range read(f, "frames.txt") {
		f.Add(v.Bytes["hex"])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, rest, err := abi.NextFrame(b)
		if err != nil {
			return
		}
		if len(fr)+len(rest) != len(b) {
			t.Fatalf("%d + %d bytes of %d", len(fr), len(rest), len(b))
		}
		r := fr.Record()
		again := abi.AppendRecord(nil, &r)
		fr2, rest2, err := abi.NextFrame(again)
		if err != nil || len(rest2) != 0 {
			t.Fatalf("encoded again: %d bytes left, %v", len(rest2), err)
		}
		if got := fr2.Record(); !reflect.DeepEqual(got, r) {
			t.Fatalf("decoded %+v, then %+v", r, got)
		}
	})
}

func FuzzRow(f *testing.F) {
	types := []abi.FieldType{abi.TypeInt64, abi.TypeFloat64, abi.TypeBool, abi.TypeString, abi.TypeBytes, abi.TypeTime}
	for _, v := range read(f, "rows.txt") {
		fields, _, _ := rowOf(f, v)
		var schema []byte
		for _, fd := range fields {
			for i, ft := range types {
				if ft == fd.Type {
					schema = append(schema, byte(i))
				}
			}
		}
		f.Add(schema, v.Bytes["hex"])
	}
	f.Fuzz(func(t *testing.T, schema, b []byte) {
		fields := make([]abi.Field, min(len(schema), 100))
		for i := range fields {
			fields[i].Type = types[int(schema[i])%len(types)]
		}
		r, err := abi.CheckRow(b, fields)
		if err != nil {
			return
		}
		again, err := abi.CheckRow(encode(r, fields), fields)
		if err != nil {
			t.Fatal(err)
		}
		for i, fd := range fields {
			if a, b := value(r, i, fd.Type), value(again, i, fd.Type); a != b {
				t.Fatalf("column %d: %s, then %s", i, a, b)
			}
		}
	})
}

func encode(r abi.Row, fields []abi.Field) []byte {
	var b abi.RowBuilder
	b.Reset(len(fields))
	for i, f := range fields {
		if r.IsNull(i) {
			continue
		}
		switch f.Type {
		case abi.TypeFloat64:
			x, _ := r.Float64(i)
			b.SetFloat64(i, x)
		case abi.TypeBool:
			x, _ := r.Bool(i)
			b.SetBool(i, x)
		case abi.TypeString, abi.TypeBytes:
			x, _ := r.Bytes(i)
			b.SetBytes(i, x)
		default:
			x, _ := r.Int64(i)
			b.SetInt64(i, x)
		}
	}
	return b.Bytes()
}

func TestBuilderAllocatesNothing(t *testing.T) {
	var b abi.RowBuilder
	s := []byte("some text")
	build := func() {
		b.Reset(3)
		b.SetInt64(0, 1)
		b.SetBytes(2, s)
	}
	build()
	if n := testing.AllocsPerRun(100, build); n != 0 {
		t.Errorf("%v allocations a row", n)
	}
}
