package millrace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

type vector struct {
	name   string
	bad    bool
	fields [][2]string
	bytes  map[string][]byte
}

// readVectors reads the byte vectors of the repository, which pin the encodings for every language.
func readVectors(t *testing.T, file string) []vector {
	t.Helper()
	b, err := os.ReadFile("../../abi/vectors/" + file)
	if err != nil {
		t.Fatal(err)
	}
	isBytes := map[string]bool{"hex": true, "block": true, "out": true, "after": true}
	var list []vector
	last := ""
	for _, line := range strings.Split(string(b), "\n") {
		name, text, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case name == "name" || name == "bad":
			list = append(list, vector{name: text, bad: name == "bad", bytes: map[string][]byte{}})
		case name == "" || isBytes[name]:
			if name != "" {
				last = name
			}
			raw, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			v := list[len(list)-1]
			v.bytes[last] = append(v.bytes[last], raw...)
		default:
			v := &list[len(list)-1]
			v.fields = append(v.fields, [2]string{name, text})
		}
	}
	if len(list) == 0 {
		t.Fatal("no vectors in " + file)
	}
	return list
}

func unquote(t *testing.T, s string) []byte {
	t.Helper()
	if s == "null" {
		return nil
	}
	u, err := strconv.Unquote(s)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{}, u...)
}

func TestFrameVectors(t *testing.T) {
	for _, v := range readVectors(t, "frames.txt") {
		if v.bad {
			continue // the host has checked every frame
		}
		var r Input
		var output uint8
		var cause uint32
		for _, f := range v.fields {
			var err error
			switch s := f[1]; f[0] {
			case "key":
				r.Key = unquote(t, s)
			case "value":
				r.Value = unquote(t, s)
			case "time":
				if r.Time = NoTime; s != "none" {
					_, err = fmt.Sscan(s, &r.Time)
				}
			case "op":
				_, err = fmt.Sscan(s, &r.Op)
			case "output":
				_, err = fmt.Sscan(s, &output)
			case "cause":
				_, err = fmt.Sscan(s, &cause)
			case "pos":
				_, err = fmt.Sscanf(s, "%d/%d", &r.Split, &r.Offset)
			case "header":
				k, x, _ := strings.Cut(s, " ")
				r.Headers = append(r.Headers, Header{unquote(t, k), unquote(t, x)})
			default:
				t.Fatalf("%s: unknown field %s", v.name, f[0])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		got := appendFrame(nil, &r)
		got[frameOutput] = output
		le.PutUint32(got[frameCause:], cause)
		if !bytes.Equal(got, v.bytes["hex"]) {
			t.Errorf("%s: encoded\n%x, expected\n%x", v.name, got, v.bytes["hex"])
		}
		if o := readFrame(v.bytes["hex"]); o.Output != output || !o.Input.Equal(r) {
			t.Errorf("%s: decoded %+v, expected %+v", v.name, o, r)
		}
	}
}

func TestRowVectors(t *testing.T) {
	for _, v := range readVectors(t, "rows.txt") {
		var fields []Field
		var cells []any
		for _, f := range v.fields {
			if f[0] == "types" {
				for _, s := range strings.Fields(f[1]) {
					fields = append(fields, Field{s, Type(s)})
				}
				continue
			}
			cells = append(cells, cell(t, fields[len(cells)].Type, f[1]))
		}
		r, err := CheckRow(v.bytes["hex"], fields)
		if v.bad {
			if err == nil {
				t.Errorf("%s: accepted", v.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", v.name, err)
			continue
		}
		if got := encodeRow(cells); !bytes.Equal(got, v.bytes["hex"]) {
			t.Errorf("%s: encoded\n%x, expected\n%x", v.name, got, v.bytes["hex"])
		}
		for i, want := range cells {
			if got := column(r, i, fields[i].Type); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: column %d is %v, expected %v", v.name, i, got, want)
			}
		}
	}
}

func cell(t *testing.T, ft Type, s string) (c any) {
	t.Helper()
	var err error
	switch {
	case s == "null":
	case ft == Int64 || ft == Timestamp:
		c, err = strconv.ParseInt(s, 10, 64)
	case ft == Float64:
		c, err = strconv.ParseFloat(s, 64)
	case ft == Bool:
		c, err = strconv.ParseBool(s)
	case ft == String:
		c = string(unquote(t, s))
	default:
		c = unquote(t, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func column(r Row, i int, ft Type) (v any) {
	if r.IsNull(i) {
		return nil
	}
	switch ft {
	case Float64:
		v, _ = r.Float(i)
	case Bool:
		v, _ = r.Bool(i)
	case String:
		v, _ = r.Str(i)
	case Bytes:
		v, _ = r.Bytes(i)
	default:
		v, _ = r.Int(i)
	}
	return v
}

func TestBlockVectors(t *testing.T) {
	m := &Module{Name: "vectors", Functions: []Function{{Name: "counted", Kind: Process, Keyed: true}}}
	seen := NewValue("seen", Uint64Value)
	f := &m.Functions[0]
	f.States = []State{seen}
	f.OnRecord = func(ctx *Ctx, rec Record) error {
		n, _, err := seen.Get(ctx)
		if err == nil {
			err = seen.Set(ctx, n+1)
		}
		if err != nil {
			return err
		}
		return ctx.Emit().Time(ctx.Watermark()).Value(rec.Value())
	}
	m.bind()
	for _, v := range readVectors(t, "blocks.txt") {
		host = &testHost{fn: f}
		host.resume(0)
		var ctx Ctx
		block, out := bytes.Clone(v.bytes["block"]), make([]byte, 64<<10)
		status := ctx.process(m, block, out, 0)
		host = nil
		out = out[:outHeader+int(le.Uint32(out[outBytes:]))]
		if status != statusDone || !bytes.Equal(out, v.bytes["out"]) {
			t.Errorf("%s: status %d, wrote\n%x, expected\n%x", v.name, status, out, v.bytes["out"])
		}
		if !bytes.Equal(block, v.bytes["after"]) {
			t.Errorf("%s: the block is\n%x, expected\n%x", v.name, block, v.bytes["after"])
		}
	}
}
