package jobtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
)

// TestC016MapChangedWhileIterating: an iterator sees the state as of its creation, on every backend.
func TestC016MapChangedWhileIterating(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"memory", "disk"} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w := New(t, fmt.Sprintf(`name: scan
state: %s
memory: 1MiB
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: logic
    process: {module: "@goguest-go", function: scan, fuel: 100000000000}
  - {id: out, sink: file, path: out/, envelope: true}
`, state))
			rs := []abi.Record{Text("small", 1, "small"), Text("small", 2, "open"), Text("small", 3, "left")}
			for i := 0; i < 100_000; i += 5000 {
				rs = append(rs, Text("large", 4, fmt.Sprintf("fill %d %d", i, i+5000)))
			}
			rs = append(rs, Text("large", 5, "left"), Text("large", 6, "drain"), Text("large", 7, "left"))
			w.Sources["in"] = [][]abi.Record{rs}
			w.RunToEnd()
			w.expectValues("small", "a:1,b:2,c:3 then a:1,c:9,d:4", "open 1", "left 3")
			w.expectValues("large", "left 100000", "seen 100000", "left 0")
		})
	}
}

// TestC017NullEmptyAbsent: values null and empty, keys null and empty are different things up to the sink.
func TestC017NullEmptyAbsent(t *testing.T) {
	t.Parallel()
	records := []abi.Record{
		{Key: []byte("k1"), Time: 1},
		{Key: []byte("k2"), Time: 2, Value: []byte{}},
		{Time: 3, Value: []byte("v")},
		{Key: []byte{}, Time: 4, Value: []byte("w")},
	}
	lines := []string{`{"key":"k1","value":null,"time":1}`, `{"key":"k2","value":"","time":2}`,
		`{"key":null,"value":"v","time":3}`, `{"key":"","value":"w","time":4}`}
	t.Run("unkeyed", func(t *testing.T) {
		w := New(t, `name: identity
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: pass
    map: {module: "@identity", function: identity}
  - {id: out, sink: file, path: out.ndjson, envelope: true}
`)
		w.Sources["in"] = [][]abi.Record{records}
		w.RunToEnd()
		if got := w.Lines("out.ndjson"); !slices.Equal(got, lines) {
			t.Errorf("got %q, expected %q", got, lines)
		}
	})
	for _, p := range []int{1, 2} {
		t.Run(fmt.Sprint("keyed, parallelism ", p), func(t *testing.T) {
			w := New(t, fmt.Sprintf(`name: identity
parallelism: %d
operators:
  - {id: in, source: generator, kind: counter, records: 1}
  - id: pass
    process: {module: "@identity", function: keyed_identity}
    on_error: {policy: dead_letter, path: dead.ndjson}
  - {id: out, sink: file, path: out/, envelope: true}
`, p))
			w.Sources["in"] = [][]abi.Record{records}
			res := w.RunToEnd()
			got := w.Lines("out/")
			slices.Sort(got)
			want := []string{lines[3], lines[0], lines[1]}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, expected %q", got, want)
			}
			dead := w.Lines("dead.ndjson")
			if len(dead) != 1 || !strings.Contains(dead[0], `"key":null,"value":"v"`) || !strings.Contains(dead[0], "null key") {
				t.Errorf("dead letters %q", dead)
			}
			if n := res.Stats.Total("pass", "dead letters"); n != 1 {
				t.Errorf("dead letter counter %d, expected 1", n)
			}
		})
	}
	t.Run("state", func(t *testing.T) {
		w := effectsWorld(t, Text("k", 1, "value;set;value;unset;value"))
		w.RunToEnd()
		w.expectValues("k", "no value", "value ", "no value")
	})
	// A source's own dead letters: a null key where the key_by is done while decoding, a line that is no JSON.
	t.Run("source", func(t *testing.T) {
		w := New(t, `name: lines
operators:
  - {id: in, source: file, path: in.ndjson, fields: {k: string}, on_error: {policy: dead_letter, path: bad.ndjson}}
  - id: by
    key_by: {fields: [k], null: {policy: dead_letter, path: nokey.ndjson}}
  - id: pass
    process: {module: "@identity", function: keyed_identity}
  - {id: out, sink: file, path: out.ndjson, envelope: true}
`)
		w.File("in.ndjson", `{"k":"a"}`+"\n"+`{"k":null}`+"\n"+`no json`+"\n"+`{"k":""}`+"\n"+`{}`+"\n"+`{"k":"z"}`+"\n")
		w.RunToEnd()
		if a, b, c := len(w.Lines("out.ndjson")), len(w.Lines("nokey.ndjson")), len(w.Lines("bad.ndjson")); a != 3 || b != 2 || c != 1 {
			t.Errorf("%d records, %d without key, %d malformed, expected 3, 2, 1", a, b, c)
		}
	})
}
