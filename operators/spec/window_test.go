package spec

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

const windowFile = `name: p
operators:
  - {id: a, source: file, path: x, fields: {t: timestamp, user: string, v: int64, spare: string}, time: {field: t}}
  - {id: k, key_by: [user, v]}
  - id: w
    %s
  - {id: o, sink: stdout}
`

func windowOf(t *testing.T, text string) *operators.Node {
	t.Helper()
	g := good(t, fmt.Sprintf(windowFile, text))
	return find(g, "w")
}

func TestWindow(t *testing.T) {
	n := windowOf(t, `window: {type: tumbling, size: 1m, offset: "-5s"}
    trigger: {early: 10s, late: 5s}
    accumulation: retracting
    lateness: 30s
    aggregates: {n: count, worst: {max: v}}`)
	w := n.Window
	if w.Window != (operators.WindowShape{Type: operators.WindowTumbling, Size: 60_000, Offset: -5000}) || w.Lateness != 30_000 || !w.Revision || w.Late || w.Unkeyed {
		t.Errorf("%+v", w)
	}
	if w.Trigger != (operators.WindowTrigger{AtEnd: true, Every: 10_000, IfChanged: true, LateEvery: 5000}) {
		t.Errorf("trigger %+v", w.Trigger)
	}
	want := []abi.Field{{Name: "user", Type: abi.TypeString}, {Name: "v", Type: abi.TypeInt64}, {Name: "window_start", Type: abi.TypeTime},
		{Name: "window_end", Type: abi.TypeTime}, {Name: "n", Type: abi.TypeInt64}, {Name: "worst", Type: abi.TypeInt64}, {Name: "revision", Type: abi.TypeInt64}}
	if !slices.Equal(n.Schema, want) || !n.Keyed {
		t.Errorf("schema %v", n.Schema)
	}
	if !slices.Equal(w.Input, []abi.Field{{Name: "v", Type: abi.TypeInt64}}) {
		t.Errorf("input %v: it needs v alone", w.Input)
	}
}

func TestWindowForms(t *testing.T) {
	for text, want := range map[string]operators.WindowShape{
		"window: {type: sliding, size: 1m, slide: 10s}":                 {Type: operators.WindowSliding, Size: 60_000, Slide: 10_000},
		"window: {type: cumulate, size: 1h, step: 10m}":                 {Type: operators.WindowCumulate, Size: 3600_000, Step: 600_000},
		"window: {type: session, gap: 5s}":                              {Type: operators.WindowSession, Gap: 5000},
		"window: {type: session, gap_field: v}":                         {Type: operators.WindowSession, GapField: "v"},
		"window: {type: count, size: 10, slide: 2}":                     {Type: operators.WindowCount, Count: 10, CountSlide: 2},
		"window: {type: tumbling, size: 1d, zone: Europe/Berlin}":       {Type: operators.WindowTumbling, Size: 86_400_000, Zone: "Europe/Berlin"},
		"window: {type: global}\n    trigger: {count: 5}":               {Type: operators.WindowGlobal},
		"window: {type: tumbling, size: 1m, time: processing}":          {Type: operators.WindowTumbling, Size: 60_000},
		"window: {type: tumbling, size: 1m}\n    evict: {span: 5s}":     {Type: operators.WindowTumbling, Size: 60_000},
		"window: {type: tumbling, size: 1m}\n    trigger: {late: each}": {Type: operators.WindowTumbling, Size: 60_000},
	} {
		if n := windowOf(t, text+"\n    aggregates: {n: count, l: collect, b: {top: {by: v, n: 3}}, q: {quantile: {of: v, q: 0.5}}}"); n.Window.Window != want {
			t.Errorf("%s: %+v, expected %+v", text, n.Window.Window, want)
		}
	}
}

// TestLateOutput: what is late has the input's fields, all of them.
func TestLateOutput(t *testing.T) {
	g := good(t, fmt.Sprintf(windowFile, "window: {type: session, gap: 5s}\n    aggregates: {n: count}")+"  - {id: l, sink: stdout, from: w.late}\n")
	w, l := find(g, "w"), find(g, "l")
	if !w.Window.Late || len(w.Window.Input) != 4 || !slices.Equal(l.Sink.Input, w.Window.Input) || l.Inputs[0].Output != 1 {
		t.Errorf("window %+v, sink %+v", w.Window, l)
	}
}

func TestWindowOverEverything(t *testing.T) {
	g := good(t, "name: p\nparallelism: 4\noperators:\n  - {id: a, source: file, path: x, fields: {t: timestamp, v: int64}, time: {field: t}}\n  - {id: w, window: {type: tumbling, size: 1m}, aggregates: {n: {sum: v}}}\n  - {id: o, sink: blackhole}\n")
	if n := find(g, "w"); !n.Window.Unkeyed || n.Parallelism != 1 || n.Keyed || n.Schema[0].Name != "window_start" {
		t.Errorf("%+v", n)
	}
}

func TestWindowProblems(t *testing.T) {
	agg := "\n    aggregates: {n: count}"
	for text, want := range map[string]string{
		"window: {type: tumbling, size: 10}" + agg:                                                      "a number of records",
		"window: {type: count, size: 10s}" + agg:                                                        "number of records, not a time",
		"window: {type: session, gap: 5s, size: 1m}" + agg:                                              "a session window has no size",
		"window: {type: tumbling}" + agg:                                                                "size 0 ms",
		"window: {type: tumbling, size: 1m, offset: 2m}" + agg:                                          "less than the size",
		"window: {type: tumbling, size: 1d, zone: Europe/Berln}" + agg:                                  "no IANA time zone",
		"window: {type: cumulate, size: 1m, step: 7s}" + agg:                                            "no multiple",
		"window: {type: tumblng, size: 1m}" + agg:                                                       `did you mean "tumbling"?`,
		"window: {type: global}\n    trigger: {early: 5x}" + agg:                                        "is no duration",
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: {max: w}}":                             `no field "w"`,
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: {sum: user}}":                          "needs a number",
		"window: {type: tumbling, size: 1m}\n    aggregates: {user: count}":                             "column of that name",
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: {max: v, min: v}}":                     "exactly one of",
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: coun}":                                 `did you mean "count"?`,
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: {quantile: {of: v, q: 2}}}":            "expected 0 to 1",
		"window: {type: tumbling, size: 1m}\n    trigger: {late: 5s}" + agg:                             "need lateness",
		"window: {type: tumbling, size: 1m, time: processing}\n    lateness: 5s" + agg:                  "nothing is late by the clock",
		"window: {type: tumbling, size: 1m}\n    trigger: {end: false}" + agg:                           "never fires",
		"window: {type: tumbling, size: 1m}\n    evict: {count: 2, span: 5s}" + agg:                     "exactly one of",
		"window: {type: tumbling, size: 1m}\n    aggregates: {n: {top: {by: v}}}":                       `"n" is missing`,
		"window: {type: session, gap_field: user}" + agg:                                                "int64 field",
		"window: {type: sliding, size: 1m, slide: 10s, zone: Europe/Berlin}" + agg:                      "whole days",
		"window: {type: tumbling, size: 1m}\n    accumulation: retracting\n    evict: {count: 1}" + agg: "can't be retracted",
	} {
		_, ps := parse(t, fmt.Sprintf(windowFile, text))
		if !slices.ContainsFunc(ps, func(p Problem) bool { return strings.Contains(p.Message+" "+p.Hint, want) }) {
			t.Errorf("%s: %v, expected %q", text, ps, want)
		}
	}
	_, ps := parse(t, "name: p\noperators:\n  - {id: a, source: stdin}\n  - {id: w, window: {type: tumbling, size: 1m}, aggregates: {n: count}}\n  - {id: o, sink: blackhole}\n")
	if len(ps) != 1 || !strings.Contains(ps[0].Message, "have no time") {
		t.Errorf("no time: %v", ps)
	}
}

// TestWindowBehindAnUnknownFunction: without modules what it gives is not known, and no problem.
func TestWindowBehindAnUnknownFunction(t *testing.T) {
	text := "name: p\noperators:\n  - {id: a, source: file, path: x, fields: {t: timestamp, v: int64}, time: {field: t}}\n  - {id: m, map: {module: m.wasm}}\n  - {id: w, window: {type: tumbling, size: 1m}, aggregates: {n: {sum: x}}}\n  - {id: o, sink: blackhole}\n"
	if _, err := Parse("p.yaml", []byte(text), Options{}); err != nil {
		t.Error(err)
	}
}
