package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

var windowModules = fakeModules{"w.wasm": {
	{Name: "mean", Kind: abi.FunctionAggregate, Input: []abi.Field{{Name: "v", Type: abi.TypeInt64}}, Output: []abi.Field{{Name: "m", Type: abi.TypeFloat64}},
		States: []abi.StateDescriptor{{Name: "accumulator", Kind: abi.StateValue, MaxBytes: 16}}},
	{Name: "stats", Kind: abi.FunctionAggregate, Output: []abi.Field{{Name: "lo", Type: abi.TypeInt64}, {Name: "hi", Type: abi.TypeInt64}},
		States: []abi.StateDescriptor{{Name: "accumulator", Kind: abi.StateValue, MaxBytes: 16}}},
	{Name: "median", Kind: abi.FunctionWindow, Input: []abi.Field{{Name: "v", Type: abi.TypeInt64}}, Output: []abi.Field{{Name: "x", Type: abi.TypeFloat64}}, Outputs: []string{"odd"}},
	{Name: "rank", Kind: abi.FunctionWindow, Input: []abi.Field{{Name: "n", Type: abi.TypeInt64}, {Name: "user", Type: abi.TypeString}}},
	{Name: "keep", Kind: abi.FunctionProcess, Keyed: true},
}}

const windowGuestFile = `name: p
operators:
  - {id: a, source: file, path: x, fields: {t: timestamp, v: int64, user: string, more: string}, time: {field: t}}
  - {id: by, key_by: user}
  - id: w
    window: {type: tumbling, size: 1m}
%s
  - {id: o, sink: blackhole%s}
`

func parseWindowGuest(text, from string) (*operators.Graph, Problems) {
	g, err := Parse("p.yaml", fmt.Appendf(nil, windowGuestFile, text, from), Options{Modules: windowModules})
	ps, _ := err.(Problems)
	return g, ps
}

func TestWindowGuests(t *testing.T) {
	for text, want := range map[string]string{
		"    aggregates: {n: count, m: {guest: {module: w.wasm, function: mean}}}":                                                            "user string, window_start timestamp, window_end timestamp, n int64, m float64",
		"    aggregates: {s: {guest: {module: w.wasm, function: stats}}}\n    on_error: skip":                                                 "user string, window_start timestamp, window_end timestamp, s_lo int64, s_hi int64",
		"    process: {module: w.wasm, function: median}":                                                                                     "x float64",
		"    aggregates: {n: count, m: {guest: {module: w.wasm, function: mean}}}\n    process: {module: w.wasm, function: rank, fuel: 1000}": "",
	} {
		g, ps := parseWindowGuest(text, "")
		if len(ps) > 0 {
			t.Errorf("%s: %v", text, ps)
			continue
		}
		w := find(g, "w")
		var fs []string
		for _, f := range w.Schema {
			fs = append(fs, f.Name+" "+string(f.Type))
		}
		if got := strings.Join(fs, ", "); got != want {
			t.Errorf("%s: results %s, expected %s", text, got, want)
		}
		if w.Keyed != (w.Window.Process == nil) {
			t.Errorf("%s: keyed %t", text, w.Keyed)
		}
	}
	if _, ps := parseWindowGuest("    process: {module: w.wasm, function: median}\n    on_error: dead_letter", ", from: [w.odd, w.late]"); len(ps) == 0 {
		t.Error("raw bytes and rows joined")
	}
	g, ps := parseWindowGuest("    process: {module: w.wasm, function: median}\n    on_error: dead_letter", ", from: w.odd")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if o := find(g, "o"); o.Inputs[0].Output != 2 {
		t.Errorf("the side output odd has number %d, expected 2, behind late", o.Inputs[0].Output)
	}
	if dead := find(g, "w.dead"); dead == nil || len(dead.Sink.Input) != 4 {
		t.Errorf("dead letters: %+v", dead)
	}
	g, _ = parseWindowGuest("    aggregates: {m: {guest: {module: w.wasm, function: mean}}}", "")
	if s := find(g, "a"); slices.ContainsFunc(s.Schema, func(f abi.Field) bool { return f.Name == "more" }) {
		t.Errorf("fields that nothing reads are read: %v", s.Schema)
	}
}

func TestWindowGuestProblems(t *testing.T) {
	for text, want := range map[string]string{
		"    on_error: skip":                                                                              "p.yaml:5: operators[2]: a window needs aggregates, or a process function",
		"    aggregates: {n: count}\n    on_error: skip":                                                  "p.yaml:8: operators[2].on_error: no guest function is here",
		"    aggregates:\n      m: {guest: {module: w.wasm, function: meen}}":                             `p.yaml:8: operators[2].aggregates.m.guest.function: module w.wasm offers no function "meen", but mean, stats, median, rank, keep (did you mean "mean"?)`,
		"    aggregates:\n      m: {guest: {module: w.wasm, function: median}}":                           `function "median" is a window, not a aggregate (it belongs into a window, as its process:)`,
		"    process: {module: w.wasm, function: keep}":                                                   `function "keep" is a process, not a window`,
		"    process: {module: w.wasm, function: rank}":                                                   `p.yaml:7: operators[2]: function "rank" reads the field "n", the input has`,
		"    aggregates: {m: {sum: v}}\n    process: {module: w.wasm, function: rank}":                    `reads the field "n", the input has`,
		"    aggregates: {user: {guest: {module: w.wasm, function: mean}}}":                               "column of that name",
		"    aggregates: {m: {guest: {module: v.wasm}}}":                                                  "there is no module v.wasm",
		"    aggregates: {m: {guest: {modul: w.wasm}}}":                                                   `did you mean "module"?`,
		"    accumulation: retracting\n    lateness: 1m\n    process: {module: w.wasm, function: median}": "can't be retracted",
		"    aggregates: {m: {guest: {module: w.wasm}}}":                                                  "several functions of kind aggregate",
	} {
		_, ps := parseWindowGuest(text, "")
		if !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.String(), want) }) {
			t.Errorf("%s: %v, expected %q", text, ps, want)
		}
	}
	if _, ps := parseWindowGuest("    process: {module: w.wasm, function: median}", ", from: w.od"); len(ps) != 1 || !strings.Contains(ps[0].String(), `"w" has no side output "od", expected one of late, odd (did you mean "odd"?)`) {
		t.Errorf("unknown side output: %v", ps)
	}
	if _, err := Parse("p.yaml", fmt.Appendf(nil, windowGuestFile, "    process: {module: w.wasm, function: median}", ", from: w.odd"), Options{}); err != nil {
		t.Errorf("without modules: %v", err)
	}
}
