package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators"
)

// timed is a pipeline whose source has the given fields.
func timed(source string) string {
	return "name: p\noperators:\n  - {id: a, " + source + "}\n  - {id: o, sink: file, path: out/}\n"
}

func TestTimeSettings(t *testing.T) {
	const file = "source: file, path: x, "
	base := operators.TimeSettings{Field: "at", Unit: "ms", Quantum: 100 * time.Millisecond, MaxFutureSkew: 5 * time.Minute}
	for text, change := range map[string]func(*operators.TimeSettings){
		"{field: at}": func(*operators.TimeSettings) {},
		"{field: at, source: event, watermarks: bounded, out_of_orderness: 5s}": func(s *operators.TimeSettings) { s.OutOfOrderness = 5 * time.Second },
		"{field: at, watermarks: monotonic, idle: 500ms}": func(s *operators.TimeSettings) {
			s.Watermarks, s.Idle = operators.WatermarksMonotonic, 500*time.Millisecond
		},
		"{field: at, watermarks: none}": func(s *operators.TimeSettings) {
			s.Watermarks, s.MaxFutureSkew = operators.WatermarksNone, 0
		},
		"{field: at, max_future_skew: off, align: 10s}": func(s *operators.TimeSettings) { s.MaxFutureSkew, s.Align = 0, 10*time.Second },
		"{field: at, max_future_skew: 1h, on_future: skip}": func(s *operators.TimeSettings) {
			s.MaxFutureSkew, s.OnFuture = time.Hour, operators.ErrorPolicy{Policy: "skip"}
		},
		"{source: ingestion}": func(s *operators.TimeSettings) {
			s.Source, s.Field, s.MaxFutureSkew = operators.TimeIngestion, "", 0
		},
		"{source: processing}": func(s *operators.TimeSettings) {
			s.Source, s.Field, s.MaxFutureSkew = operators.TimeProcessing, "", 0
		},
	} {
		want := base
		change(&want)
		if got := *good(t, timed(file+"time: "+text)).Nodes[0].Source.Time; got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", text, got, want)
		}
	}
	for text, field := range map[string]string{
		"source: tcp, address: 'h:1', time: {source: ingestion}":                         "",
		"source: file, path: x, format: binary, time: {idle: 1s, out_of_orderness: 1ms}": "",
	} {
		if got := good(t, timed(text)).Nodes[0].Source.Time; got == nil || got.Field != field {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

func TestTimeProblems(t *testing.T) {
	const file = "source: file, path: x, "
	for text, want := range map[string]string{
		file + "time: {unit: s}": "the field of the event time is missing",
		file + "time: {field: at, watermarks: monotonic, out_of_orderness: 1s}":                                           "no use with watermarks: monotonic",
		file + "time: {field: at, watermarks: none, idle: 1s}":                                                            "no use with watermarks: none",
		file + "time: {field: at, watermarks: punctuated}":                                                                "the function that says the watermark is missing",
		file + "time: {field: at, punctuate: {module: marks.wasm}}":                                                       "no use without watermarks: punctuated",
		file + "time: {field: at, watermarks: punctuated, quantum: 1s, punctuate: {module: marks.wasm}}":                  "no use with watermarks: punctuated",
		file + "time: {source: ingestion, watermarks: punctuated, punctuate: {module: marks.wasm}}":                       "has no use with source: ingestion",
		file + "time: {field: at, watermarks: punctuated, punctuate: {module: flights.wasm}}":                             "no function of kind watermark",
		file + "time: {field: at, watermarks: punctuated, punctuate: {module: flights.wasm, function: clean}}":            `function "clean" is a map, not a watermark`,
		file + "time: {field: at, watermarks: punctuated, punctuate: {module: marks.wasm, function: ends}}":               `reads the field "last", but its input is raw bytes`,
		file + "time: {field: at, idle: 0s}":                                                                              "idle is at least 1ms",
		file + "time: {field: at, align: 0s}":                                                                             "align is at least 1ms",
		file + "time: {field: at, max_future_skew: 0s}":                                                                   "max_future_skew: off",
		file + "time: {field: at, max_future_skew: no}":                                                                   "expected a number with a unit",
		file + "time: {field: at, max_future_skew: off, on_future: skip}":                                                 "no use without max_future_skew",
		file + "follow: true, time: {field: at, align: 1s}":                                                               "one split that gives nothing stops all others",
		file + "time: {source: ingestion, field: at}":                                                                     "has no use with source: ingestion",
		file + "time: {source: processing, idle: 1s}":                                                                     "has no use with source: processing",
		file + "format: binary, time: {field: at}":                                                                        "no fields to take the time from",
		"source: stdin, time: {idle: 1s}":                                                                                 "no fields to take the time from",
		file + "on_error: {policy: dead_letter, path: d/}, time: {field: at, on_future: {policy: dead_letter, path: f/}}": "dead letters of one source go to one place",
	} {
		_, ps := parse(t, timed(text))
		if !slices.ContainsFunc(ps, func(p Problem) bool { return p.Line == 3 && strings.Contains(p.Message+" "+p.Hint, want) }) {
			t.Errorf("%s: nothing with %q among:\n%v", text, want, ps)
		}
	}
}

// TestFutureDeadLetters: records from the future go where the source's other dead letters go.
func TestFutureDeadLetters(t *testing.T) {
	for _, policy := range []string{"dead_letter", "{policy: dead_letter, path: d/}"} {
		g := good(t, timed(fmt.Sprintf("source: file, path: x, on_error: {policy: dead_letter, path: d/}, time: {field: at, on_future: %s}", policy)))
		if n := len(g.Nodes); n != 3 || g.Nodes[2].Sink.Path != "d/" {
			t.Errorf("%s: %d nodes, dead letters in %+v", policy, n, g.Nodes[n-1].Sink)
		}
	}
	g := good(t, timed("source: file, path: x, time: {field: at, on_future: dead_letter}"))
	if n := len(g.Nodes); n != 3 || g.Nodes[2].Sink.Path != "dead-letters/a/" {
		t.Errorf("alone: %d nodes", n)
	}
}
