package spec

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// timeOf reads a source's time settings.
func (b *builder) timeOf(it *item, s *operators.SourceNode) {
	t := it.obj.sub("time")
	if t == nil {
		return
	}
	ts := &operators.TimeSettings{Field: t.text("field"), Unit: t.textOr("unit", "ms"), OutOfOrderness: t.duration("out_of_orderness", 0),
		Quantum: t.duration("quantum", operators.DefaultQuantum), Idle: t.duration("idle", 0), Align: t.duration("align", 0)}
	s.Time = ts
	if v := t.text("source"); v != "event" {
		ts.Source = v
	}
	if v := t.text("watermarks"); v != "bounded" {
		ts.Watermarks = v
	}
	if v := t.text("max_future_skew"); v != "off" && ts.Source == operators.TimeFromField && ts.Watermarks != operators.WatermarksNone {
		ts.MaxFutureSkew = t.duration("max_future_skew", operators.DefaultFutureSkew)
	}
	if ts.Source == operators.TimeFromField {
		b.punctuate(it, t, ts)
	}
	was, line := it.dead, it.deadLine
	ts.OnFuture = b.policyOf(it, t, "on_future")
	if p := t.sub("on_future"); was != "" && (p == nil || p.text("path") == "") {
		it.dead, it.deadLine = was, line
	}
	if was != "" && it.dead != was {
		b.problem(it.deadLine, join(t.path, "on_future"), fmt.Sprintf("the dead letters of one source go to one place, on_error in line %d has %q", line, was), "")
	}
}

// checkTime refuses settings that contradict each other or have no effect.
func (b *builder) checkTime(it *item, s *operators.SourceNode) {
	t, ts := it.obj.sub("time"), s.Time
	if t == nil || ts == nil {
		return
	}
	useless := func(why string, names ...string) {
		for _, n := range names {
			if f := t.fields[n]; f != nil {
				b.problem(f.Line, join(t.path, n), why, "remove it")
			}
		}
	}
	least := func(name string, d time.Duration) {
		if f := t.fields[name]; f != nil && isDuration(f) && d < time.Millisecond {
			b.problem(f.Line, join(t.path, name), fmt.Sprintf("%s is at least 1ms", name), "")
		}
	}
	least("quantum", ts.Quantum)
	least("idle", ts.Idle)
	least("align", ts.Align)
	switch ts.Source {
	case operators.TimeIngestion:
		useless("has no use with source: ingestion, where the clock is the time and moves the watermark",
			"field", "unit", "watermarks", "punctuate", "out_of_orderness", "idle", "max_future_skew", "on_future", "align")
		return
	case operators.TimeProcessing:
		useless("has no use with source: processing, where records have no time",
			"field", "unit", "watermarks", "punctuate", "out_of_orderness", "quantum", "idle", "max_future_skew", "on_future", "align")
		return
	}
	if ts.Field == "" && s.Format != "binary" && s.Format != "lines" {
		b.problem(t.node.Line, join(t.path, "field"), "the field of the event time is missing", "field: <name>, or source: ingestion")
	}
	switch ts.Watermarks {
	case operators.WatermarksPunctuated:
		useless("has no use with watermarks: punctuated, where a function says the watermark", "out_of_orderness", "quantum")
	case operators.WatermarksMonotonic:
		useless("has no use with watermarks: monotonic, which says that times never fall", "out_of_orderness")
	case operators.WatermarksNone:
		useless("has no use with watermarks: none", "out_of_orderness", "quantum", "idle", "max_future_skew", "on_future")
	}
	if ts.Watermarks != operators.WatermarksNone {
		b.checkSkew(t, ts)
	}
	if f := t.fields["align"]; f != nil && it.endless && t.fields["idle"] == nil {
		b.problem(f.Line, join(t.path, "align"), "without idle, one split that gives nothing stops all others", "idle: 10s")
	}
}

func (b *builder) checkSkew(t *object, ts *operators.TimeSettings) {
	if f := t.fields["max_future_skew"]; f != nil && isDuration(f) && ts.MaxFutureSkew < time.Millisecond {
		b.problem(f.Line, join(t.path, "max_future_skew"), "max_future_skew is at least 1ms", "max_future_skew: off")
	}
	if f := t.fields["on_future"]; f != nil && t.text("max_future_skew") == "off" {
		b.problem(f.Line, join(t.path, "on_future"), "has no use without max_future_skew", "max_future_skew: 5m")
	}
}

// isDuration says that a value is right: what is not has been reported.
func isDuration(n *yaml.Node) bool {
	_, err := ParseDuration(n.Value)
	return err == nil
}

// punctuateShape is a source's watermark function.
var punctuateShape = &shape{fields: []field{
	{name: "module", kind: kindString, required: true, doc: "WebAssembly module, relative to this file."},
	{name: "function", kind: kindString, doc: "Function of kind watermark; may be left out if the module offers one."},
	{name: "digest", kind: kindString, doc: "SHA-256 the module must have, hexadecimal."},
	{name: "memory", kind: kindSize, doc: "Linear memory of one instance; default 64MiB."},
	{name: "fuel", kind: kindInt, min: 1, max: 1 << 50, doc: "Fuel per record; default 52428800."},
	{name: "clock", kind: kindEnum, enum: []string{"event", "processing"}, doc: "What the guest sees as time: that of the record (default), or the host's."},
	{name: "describe", kind: kindObject, object: describeShape, doc: "What the function is, for a module that does not describe itself."},
}}

// punctuate reads the watermark function of a source, and checks that it and watermarks go together.
func (b *builder) punctuate(it *item, t *object, ts *operators.TimeSettings) {
	c := t.sub("punctuate")
	switch {
	case ts.Watermarks == operators.WatermarksPunctuated && c == nil && !t.bad["punctuate"]:
		b.problem(t.node.Line, join(t.path, "punctuate"), "the function that says the watermark is missing", "punctuate: {module: <file>}")
	case ts.Watermarks != operators.WatermarksPunctuated && c != nil:
		b.problem(c.node.Line, c.path, "has no use without watermarks: punctuated", "watermarks: punctuated")
	case c != nil:
		ts.Punctuate = b.windowFunction(it, c, abi.FunctionWatermark)
	}
}

// punctuated fits the watermark function of a source to its records.
func (b *builder) punctuated(it *item) {
	if t := it.node.Source.Time; t != nil && t.Punctuate != nil && t.Punctuate.Fn != nil {
		t.Punctuate.Input = it.node.Schema
		b.reads(it, t.Punctuate, it.node.Schema)
	}
}

// punctuationNeeds collects the fields that a source's watermark function reads. A dead letter shows the
// whole record.
func punctuationNeeds(s *operators.SourceNode, used map[string]bool, all *bool) {
	if s.Time == nil || s.Time.Punctuate == nil {
		return
	}
	fn := s.Time.Punctuate.Fn
	if fn == nil || len(fn.Input) == 0 || s.OnError != nil && s.OnError.Policy == operators.PolicyDeadLetter {
		*all = true
		return
	}
	for _, f := range fn.Input {
		used[f.Name] = true
	}
}
