package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// expiring is a pipeline of a function with states, seen of a minute and cart, and these fields more.
func expiring(function, more string) string {
	return "name: p\noperators:\n  - {id: a, source: file, path: x}\n  - {id: k, key_by: {whole: true}}\n" +
		"  - {id: f, " + function + ", " + more + "}}\n  - {id: o, sink: file, path: out/}\n"
}

const visits = "process: {module: sessions.wasm, function: visits"

func TestStateTTLs(t *testing.T) {
	minute := abi.TTL{MS: 60_000}
	for text, want := range map[string][2]*abi.TTL{
		"fuel: 5":                {&minute, nil},
		"state_ttl: {cart: 1h}":  {&minute, {MS: 3_600_000}},
		"state_ttl: {seen: off}": {nil, nil},
		"state_ttl: {seen: 5ms}": {{MS: 5}, nil},
		"state_ttl: {seen: {after: 2d, domain: processing}, cart: {after: 1s, domain: event, refresh: read}}": {
			{MS: 2 * 86_400_000, Domain: "processing"}, {MS: 1000, Domain: "event", Refresh: "read"}},
	} {
		g := good(t, expiring(visits, text))
		i := slices.IndexFunc(g.Nodes, func(n *operators.Node) bool { return n.ID == "f" })
		for j, s := range g.Nodes[i].Guest.Fn.States {
			if !s.TTL.Equal(want[j]) {
				t.Errorf("%s: state %s lives for %v, want %v", text, s.Name, s.TTL, want[j])
			}
		}
	}
	if s := testModules["sessions.wasm"][0].States[0]; !s.TTL.Equal(&minute) {
		t.Errorf("the module's descriptor was changed: %v", s.TTL)
	}
}

func TestStateTTLProblems(t *testing.T) {
	for text, want := range map[string]string{
		"state_ttl: {carts: 1h}":                       `function "visits" has no state "carts", it has seen, cart`,
		"state_ttl: {seen: 1}":                         "expected text",
		"state_ttl: {seen: 0s}":                        "at least 1ms",
		"state_ttl: {seen: {after: 1us}}":              "at least 1ms",
		"state_ttl: {seen: {after: off}}":              "no duration",
		"state_ttl: {seen: {domain: event}}":           `the field "after" is missing`,
		"state_ttl: {seen: {after: 1s, domain: wall}}": `"wall" is not allowed`,
		"state_ttl: {}":                                "expected names of states",
		"state_ttl: 1h":                                "expected fields",
	} {
		_, ps := parse(t, expiring(visits, text))
		if !slices.ContainsFunc(ps, func(p Problem) bool { return p.Line == 5 && strings.Contains(p.Message+" "+p.Hint, want) }) {
			t.Errorf("%s: nothing with %q among:\n%v", text, want, ps)
		}
	}
	_, ps := parse(t, expiring("filter: {module: sessions.wasm, function: tidy", "state_ttl: {seen: 1h}"))
	if !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.Message, `function "tidy" has no state`) }) {
		t.Errorf("a function without states: %v", ps)
	}
}

// TestPunctuated: the source knows its function, and keeps the fields that it reads.
func TestPunctuated(t *testing.T) {
	g := good(t, `name: p
operators:
  - id: a
    source: file
    path: x.ndjson
    fields: {at: timestamp, last: bool, origin: string, delay: int64}
    time: {field: at, watermarks: punctuated, idle: 1s, punctuate: {module: marks.wasm, fuel: 100}}
  - {id: k, key_by: origin}
  - {id: w, window: {type: tumbling, size: 1h}, aggregates: {n: count}}
  - {id: o, sink: file, path: out/}
`)
	s := g.Nodes[0]
	p := s.Source.Time.Punctuate
	if p == nil || p.Fn == nil || p.Function != "ends" || p.Fuel != 100 {
		t.Fatalf("the function: %+v", p)
	}
	if !slices.ContainsFunc(s.Schema, func(f abi.Field) bool { return f.Name == "last" }) || len(s.Schema) > 2 || !slices.Equal(p.Input, s.Schema) {
		t.Errorf("the source gives %v, the function gets %v", s.Schema, p.Input)
	}
	ids := []string{}
	for _, n := range g.GuestNodes() {
		ids = append(ids, n.ID)
	}
	if !slices.Equal(ids, []string{operators.PunctuatorID("a")}) {
		t.Errorf("modules are wanted for %v", ids)
	}
}
