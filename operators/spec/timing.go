package spec

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

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
			"field", "unit", "watermarks", "out_of_orderness", "idle", "max_future_skew", "on_future", "align")
		return
	case operators.TimeProcessing:
		useless("has no use with source: processing, where records have no time",
			"field", "unit", "watermarks", "out_of_orderness", "quantum", "idle", "max_future_skew", "on_future", "align")
		return
	}
	if ts.Field == "" && s.Format != "binary" && s.Format != "lines" {
		b.problem(t.node.Line, join(t.path, "field"), "the field of the event time is missing", "field: <name>, or source: ingestion")
	}
	switch ts.Watermarks {
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
