package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// fakeModules offers functions by path.
type fakeModules map[string][]abi.Function

func (m fakeModules) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	fs, ok := m[filepath.Base(path)]
	if !ok {
		return nil, "", fmt.Errorf("there is no module %s", filepath.Base(path))
	}
	return &abi.Descriptor{Functions: fs}, strings.Repeat("ab", 32), nil
}

var flightFields = []abi.Field{{Name: "date", Type: abi.TypeTime}, {Name: "delay", Type: abi.TypeInt64}}

var testModules = fakeModules{"flights.wasm": {
	{Name: "daily", Kind: abi.FunctionProcess, Keyed: true, Input: flightFields, Outputs: []string{"late", "odd"},
		Output: []abi.Field{{Name: "origin", Type: abi.TypeString}, {Name: "n", Type: abi.TypeInt64}}},
	{Name: "clean", Kind: abi.FunctionMap},
}, "marks.wasm": {
	{Name: "ends", Kind: abi.FunctionWatermark, Input: []abi.Field{{Name: "last", Type: abi.TypeBool}}},
}, "sessions.wasm": {
	{Name: "visits", Kind: abi.FunctionProcess, Keyed: true, States: []abi.StateDescriptor{
		{Name: "seen", Kind: abi.StateValue, MaxBytes: 8, TTL: &abi.TTL{MS: 60_000}}, {Name: "cart", Kind: abi.StateMap}}},
	{Name: "tidy", Kind: abi.FunctionFilter},
}}

func parse(t *testing.T, text string) (*operators.Graph, Problems) {
	t.Helper()
	g, err := Parse("p.yaml", []byte(text), Options{Dir: t.TempDir(), Modules: testModules})
	var ps Problems
	if err != nil && !errors.As(err, &ps) {
		t.Fatalf("error of type %T: %v", err, err)
	}
	return g, ps
}

func good(t *testing.T, text string) *operators.Graph {
	t.Helper()
	g, ps := parse(t, text)
	if len(ps) > 0 {
		t.Fatalf("problems:\n%v", ps)
	}
	return g
}

func TestFlights(t *testing.T) {
	text, err := os.ReadFile("testdata/flights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g := good(t, string(text))
	if g.Name != "flights-per-day" || g.MemoryBytes != 512<<20 || g.Checkpoint.Retain != 3 || g.Linger.String() != "5ms" {
		t.Errorf("settings: %+v", g)
	}
	var ids []string
	for _, n := range g.Nodes {
		ids = append(ids, n.ID)
	}
	if want := []string{"flights", "by-origin", "daily", "out", "late", "daily.dead"}; !slices.Equal(ids, want) {
		t.Fatalf("nodes %v, want %v", ids, want)
	}
	src, key, daily, out, late, dead := g.Nodes[0], g.Nodes[1], g.Nodes[2], g.Nodes[3], g.Nodes[4], g.Nodes[5]
	if src.Source.Key == nil || src.Source.Key.ID != "by-origin" || key.PushedInto != "flights" || !src.Keyed {
		t.Errorf("key_by was not pushed: %+v %+v", src.Source, key)
	}
	if !reflect.DeepEqual(daily.Inputs, []operators.Edge{{From: "flights"}}) {
		t.Errorf("daily reads %v", daily.Inputs)
	}
	if len(src.Source.Fields) != 4 || !slices.Equal(daily.Guest.Input, src.Schema) {
		t.Errorf("fields %v, schema %v, input %v", src.Source.Fields, src.Schema, daily.Guest.Input)
	}
	if late.Inputs[0] != (operators.Edge{From: "daily", Output: 1}) || len(late.Sink.Input) != 0 {
		t.Errorf("late: %+v %+v", late.Inputs, late.Sink)
	}
	if !out.Sink.Single || out.Sink.Input[1].Name != "n" {
		t.Errorf("out: %+v", out.Sink)
	}
	if !dead.Hidden || !dead.Sink.DeadLetter || dead.Inputs[0].Output != operators.OutputDeadLetter {
		t.Errorf("dead: %+v", dead)
	}
}

// TestPrune: without a dead letter, rows hold only what the function reads.
func TestPrune(t *testing.T) {
	g := good(t, `
name: p
operators:
  - {id: a, source: file, path: "*.parquet", fields: {origin: string, delay: int64, date: timestamp, distance: int64}, time: {field: date}}
  - {id: k, key_by: origin}
  - {id: d, process: {module: flights.wasm, function: daily}}
  - {id: o, sink: blackhole}
`)
	want := []abi.Field{{Name: "delay", Type: abi.TypeInt64}, {Name: "date", Type: abi.TypeTime}}
	if !slices.Equal(g.Nodes[0].Schema, want) || !slices.Equal(g.Nodes[2].Guest.Input, want) || len(g.Nodes[0].Source.Fields) != 4 {
		t.Errorf("schema %v, input %v", g.Nodes[0].Schema, g.Nodes[2].Guest.Input)
	}
}

// TestPushOnlyWhereAlone: a source that others read too keeps its records as they are.
func TestPushOnlyWhereAlone(t *testing.T) {
	g := good(t, `
name: p
operators:
  - {id: a, source: file, path: x.ndjson}
  - {id: k, key_by: [a, b]}
  - {id: o, sink: blackhole}
  - {id: raw, sink: blackhole, from: a}
`)
	if g.Nodes[0].Source.Key != nil || g.Nodes[1].PushedInto != "" {
		t.Error("pushed into a source with two readers")
	}
}

var problemCases = []struct {
	name, text string
	line       int
	want       string // in message or hint
}{
	{"unknown field", "name: p\noperators:\n  - {id: a, source: file, pth: x}\n  - {id: o, sink: blackhole}\n", 3, `did you mean "path"?`},
	{"not yaml", "name: [", 1, "not YAML"},
	{"empty", "", 1, "empty"},
	{"scalar", "42", 1, "expected fields with values"},
	{"two documents", "name: p\n---\nname: q\n", 1, "more than one"},
	{"no name", "operators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 1, `"name" is missing`},
	{"duplicate id", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: a, sink: stdout}\n", 4, "taken, first in line 3"},
	{"duplicate field", "name: p\nname: q\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "twice, first in line 1"},
	{"cycle", "name: p\noperators:\n  - {id: a, union: [b]}\n  - {id: b, union: [a]}\n  - {id: o, sink: stdout}\n", 3, "circle: a <- b <- a"},
	{"itself", "name: p\noperators:\n  - {id: a, union: a}\n  - {id: o, sink: stdout}\n", 3, "circle: a <- a"},
	{"missing input", "name: p\noperators:\n  - {id: orders, source: stdin}\n  - {id: o, sink: stdout, from: order}\n", 4, `did you mean "orders"?`},
	{"nothing above", "name: p\noperators:\n  - {id: o, sink: stdout}\n", 3, "no operator above"},
	{"above is a sink", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: o, sink: stdout}\n  - {id: q, sink: stdout}\n", 5, "is a sink"},
	{"two kinds", "name: p\noperators:\n  - {id: a, source: stdin, sink: stdout}\n", 3, "has source and sink"},
	{"no kind", "name: p\noperators:\n  - {id: a, proces: {module: m}}\n", 3, `did you mean "process"?`},
	{"unknown source", "name: p\noperators:\n  - {id: a, source: kafak}\n", 3, "expected one of file, stdin, tcp, generator"},
	{"negative duration", "name: p\nlinger: \"-5s\"\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "is negative"},
	{"huge duration", "name: p\nlinger: 999999999999h\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "too large"},
	{"no unit", "name: p\nlinger: 5\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "add a unit"},
	{"negative size", "name: p\nmemory: \"-1MiB\"\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "is negative"},
	{"huge size", "name: p\nmemory: 99999999999999TiB\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "too large"},
	{"parallelism", "name: p\nparallelism: 65537\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "expected 1 to 512"},
	{"zero parallelism", "name: p\nparallelism: 0\noperators: [{id: a, source: stdin}, {id: o, sink: stdout}]\n", 2, "out of range"},
	{"anchor", "name: &n p\noperators: [{id: *n, source: stdin}]\n", 1, "anchors and aliases"},
	{"tag", "name: !!binary cA==\noperators: [{id: a, source: stdin}]\n", 1, "tag"},
	{"endless single file", "name: p\noperators:\n  - {id: a, source: tcp, address: \"h:1\"}\n  - {id: o, sink: file, path: out.ndjson}\n", 4, "published at the end"},
	{"endless dead letters", "name: p\noperators:\n  - {id: a, source: tcp, address: \"h:1\", on_error: {policy: dead_letter, path: d.ndjson}}\n  - {id: o, sink: stdout}\n", 3, "published at the end"},
	{"same path", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: o, sink: file, path: x.ndjson}\n  - {id: q, sink: file, path: ./x.ndjson, from: a}\n", 5, "already written"},
	{"keyed without key", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: timestamp, delay: int64}}\n  - {id: d, process: {module: flights.wasm, function: daily}}\n  - {id: o, sink: stdout}\n", 4, "put a key_by before it"},
	{"side output", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: timestamp, delay: int64}}\n  - {id: k, key_by: date}\n  - {id: d, process: {module: flights.wasm, function: daily}}\n  - {id: o, sink: stdout, from: d.lat}\n", 6, `did you mean "late"?`},
	{"side output of a source", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: o, sink: stdout, from: a.x}\n", 4, "no side outputs"},
	{"field type", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: timestamp, delay: string}}\n  - {id: k, key_by: date}\n  - {id: d, process: {module: flights.wasm, function: daily}}\n  - {id: o, sink: stdout}\n", 5, `"delay" as int64, the input has it as string`},
	{"field name", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: timestamp, delays: int64}}\n  - {id: k, key_by: date}\n  - {id: d, process: {module: flights.wasm, function: daily}}\n  - {id: o, sink: stdout}\n", 5, `did you mean "delays"?`},
	{"raw for typed", "name: p\noperators:\n  - {id: a, source: file, path: x}\n  - {id: k, key_by: date}\n  - {id: d, process: {module: flights.wasm, function: daily}}\n  - {id: o, sink: stdout}\n", 5, "is raw bytes"},
	{"key field", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {origin: string}}\n  - {id: k, key_by: orign}\n  - {id: o, sink: stdout}\n", 4, `did you mean "origin"?`},
	{"unknown function", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: d, map: {module: flights.wasm, function: clear}}\n  - {id: o, sink: stdout}\n", 4, `did you mean "clean"?`},
	{"wrong kind", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: d, filter: {module: flights.wasm, function: clean}}\n  - {id: o, sink: stdout}\n", 4, "is a map, not a filter"},
	{"missing module", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: d, map: {module: gone.wasm}}\n  - {id: o, sink: stdout}\n", 4, "there is no module gone.wasm"},
	{"wrong digest", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: d, map: {module: flights.wasm, digest: \"" + strings.Repeat("00", 32) + "\"}}\n  - {id: o, sink: stdout}\n", 4, "has the SHA-256 abab"},
	{"parquet without fields", "name: p\noperators:\n  - {id: a, source: file, path: x.parquet}\n  - {id: o, sink: stdout}\n", 3, "needs fields"},
	{"follow parquet", "name: p\noperators:\n  - {id: a, source: file, path: x.parquet, follow: true, fields: {a: int64}}\n  - {id: o, sink: stdout}\n", 3, "can't be followed"},
	{"time field", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: timestamp}, time: {field: dat}}\n  - {id: o, sink: stdout}\n", 3, `did you mean "date"?`},
	{"time type", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {date: bool}, time: {field: date}}\n  - {id: o, sink: stdout}\n", 3, "expected timestamp"},
	{"unread", "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: b, source: stdin}\n  - {id: o, sink: stdout}\n", 3, `nothing reads the output of "a"`},
	{"union of different", "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {a: int64}}\n  - {id: b, source: file, path: x, fields: {b: int64}}\n  - {id: u, union: [a, b]}\n  - {id: o, sink: stdout}\n", 5, "different fields"},
	{"neither path", "name: p\noperators:\n  - {id: a, source: file}\n  - {id: o, sink: stdout}\n", 3, "exactly one of the fields path, paths"},
	{"both paths", "name: p\noperators:\n  - {id: a, source: file, path: x, paths: [y]}\n  - {id: o, sink: stdout}\n", 3, "exactly one of the fields path, paths"},
	{"path without use", "name: p\noperators:\n  - {id: a, source: stdin, on_error: {policy: skip, path: x}}\n  - {id: o, sink: stdout}\n", 3, "path has no use"},
	{"bad id", "name: p\noperators:\n  - {id: a b, source: stdin}\n  - {id: o, sink: stdout}\n", 3, "is no name"},
	{"tcp address", "name: p\noperators:\n  - {id: a, source: tcp, address: localhost}\n  - {id: o, sink: stdout}\n", 3, "expected host:port"},
}

func TestProblems(t *testing.T) {
	for _, c := range problemCases {
		t.Run(c.name, func(t *testing.T) {
			_, ps := parse(t, c.text)
			for _, p := range ps {
				if p.Line == c.line && strings.Contains(p.Message+" "+p.Hint, c.want) {
					return
				}
			}
			t.Errorf("no problem in line %d with %q among:\n%v", c.line, c.want, ps)
		})
	}
}

// TestAllAtOnce: one run names every mistake.
func TestAllAtOnce(t *testing.T) {
	_, ps := parse(t, "nam: p\nlinger: 5\noperators:\n  - {id: a, sorce: file}\n  - {id: b, source: file, path: x, format: jsno}\n  - {id: c, sink: file}\n")
	var lines []int
	for _, p := range ps {
		lines = append(lines, p.Line)
	}
	for _, want := range []int{1, 2, 4, 5, 6} {
		if !slices.Contains(lines, want) {
			t.Errorf("nothing about line %d in:\n%v", want, ps)
		}
	}
	if !strings.HasPrefix(ps.Error(), "p.yaml:1: ") {
		t.Errorf("form: %v", ps)
	}
}

func TestConfine(t *testing.T) {
	text := "name: p\noperators:\n  - {id: a, source: file, path: ../x}\n  - {id: o, sink: file, path: /tmp/x.ndjson}\n"
	if _, err := Parse("p.yaml", []byte(text), Options{}); err != nil {
		t.Errorf("a local run may read anywhere: %v", err)
	}
	_, err := Parse("p.yaml", []byte(text), Options{Confine: true})
	var ps Problems
	if !errors.As(err, &ps) || len(ps) != 2 {
		t.Errorf("want two problems, got %v", err)
	}
}

func TestLimits(t *testing.T) {
	deep := "name: " + strings.Repeat("[", 10000) + strings.Repeat("]", 10000)
	if _, ps := parse(t, deep); len(ps) == 0 {
		t.Error("deep nesting was taken")
	}
	if _, ps := parse(t, "name: "+strings.Repeat("x", maxBytes)); len(ps) != 1 || !strings.Contains(ps[0].Message, "at most") {
		t.Errorf("size: %v", ps)
	}
}

// TestSharedDeadLetters: two operators that name one path share one sink.
func TestSharedDeadLetters(t *testing.T) {
	g := good(t, `
name: p
operators:
  - {id: a, source: file, path: x, on_error: {policy: dead_letter, path: d.ndjson}}
  - {id: k, key_by: {fields: f, null: {policy: dead_letter, path: d.ndjson}}}
  - {id: o, sink: blackhole}
`)
	dead := g.Nodes[3]
	if len(g.Nodes) != 4 || !slices.Equal(dead.Inputs, []operators.Edge{{From: "a", Output: operators.OutputDeadLetter}}) || g.Nodes[1].PushedInto != "a" {
		t.Errorf("dead letters: %+v, key_by %+v", dead, g.Nodes[1])
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range problemCases {
		f.Add(c.text)
	}
	text, _ := os.ReadFile("testdata/flights.yaml")
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse("p.yaml", []byte(text), Options{Modules: testModules})
		if (g == nil) == (err == nil) {
			t.Errorf("graph %v, error %v", g != nil, err)
		}
	})
}

// TestGraphIsSerialisable: a worker in another process gets the graph as JSON.
func TestGraphIsSerialisable(t *testing.T) {
	text, err := os.ReadFile("testdata/flights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g := good(t, string(text))
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var back operators.Graph
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(&back)
	if err != nil || string(again) != string(b) {
		t.Errorf("the graph changed on its way:\n%s\n%s, %v", b, again, err)
	}
}
