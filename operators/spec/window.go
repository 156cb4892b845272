package spec

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/window"
)

var windowVariant = variantOf("window", "", "Aggregates windows, per key or over everything. Results are rows: the key's fields, window_start and window_end (unless one of them is a field of the key), the aggregates; their time is the window's last instant. Late records are on its side output `late`.", nil,
	field{name: "window", kind: kindObject, object: windowShape, required: true, doc: "Which windows there are."},
	field{name: "trigger", kind: kindObject, object: triggerShape, doc: "When a window gives a result besides at its end."},
	field{name: "accumulation", kind: kindEnum, enum: []string{operators.Accumulating, operators.Discarding, operators.Retracting},
		doc: "What a further result of a window holds: everything so far (accumulating, default), what came since the last (discarding), or everything, and the last is taken back first (retracting)."},
	field{name: "lateness", kind: kindDuration, doc: "How long behind its end a window still takes records; each gives a further result, with a rising `revision`. Default 0s."},
	field{name: "aggregates", kind: kindAggregates, doc: "Columns of the results."},
	field{name: "process", kind: kindObject, object: windowGuestShape, doc: "A guest function that is called when a window gives a result, and gives outputs in its place: it gets the row of the aggregates, or without aggregates the records, which the window then keeps."},
	field{name: "evict", kind: kindObject, object: evictShape, doc: "Takes records out of a window that gives a result; the window then keeps every record."},
	from, pField,
	field{name: "on_error", kind: kindPolicy, doc: "What happens to a record, or a window's result, at which a guest function fails; default stop."})

var windowShape = &shape{fields: []field{
	{name: "type", kind: kindEnum, enum: []string{operators.WindowTumbling, operators.WindowSliding, operators.WindowCumulate,
		operators.WindowSession, operators.WindowGlobal, operators.WindowCount}, required: true,
		doc: "tumbling (size); sliding (size, slide); cumulate (size, step): from each multiple of size, growing by step; session (gap); global: one without end; count (size, slide in records)."},
	{name: "size", kind: kindSpan, doc: "Length of a window."},
	{name: "slide", kind: kindSpan, doc: "A sliding window begins at each multiple of it."},
	{name: "step", kind: kindDuration, doc: "Step of a cumulating window."},
	{name: "offset", kind: kindOffset, doc: "Windows begin so much later than at multiples (or local midnight); default 0s."},
	{name: "zone", kind: kindString, doc: "IANA time zone: days are its local days, also those of 23 and 25 hours. Default: UTC."},
	{name: "gap", kind: kindDuration, doc: "A session ends when nothing came for so long."},
	{name: "gap_field", kind: kindString, doc: "int64 field with the record's own gap in ms, instead of gap."},
	{name: "time", kind: kindEnum, enum: []string{operators.TimeEvent, operators.TimeProcessing}, doc: "event (default): the record's time; processing: the clock."},
}}

var triggerShape = &shape{fields: []field{
	{name: "early", kind: kindDuration, doc: "Before its end, at multiples of this in event time, if something came."},
	{name: "early_clock", kind: kindDuration, doc: "The same by the clock."},
	{name: "count", kind: kindInt, min: 1, max: 1 << 50, doc: "Each time so many records have come."},
	{name: "timeout", kind: kindDuration, doc: "When the clock has gone so far past the first record since the last result."},
	{name: "late", kind: kindDurationOr, enum: []string{"each"}, doc: "Late records give a result each (default), or together at multiples of this in event time."},
	{name: "end", kind: kindBool, doc: "false: not at the window's end."},
}}

var evictShape = &shape{fields: []field{
	{name: "count", kind: kindInt, min: 1, max: 1 << 50, doc: "Keeps the last so many."},
	{name: "span", kind: kindDuration, doc: "Keeps those less than so far behind the newest."},
	{name: "after", kind: kindBool, doc: "Takes them out after the result instead of before."},
}, either: [][]string{{"count", "span"}}}

// bareAggregates need no field.
var bareAggregates = []string{operators.AggCount, operators.AggCollect}

var aggregateShape = &shape{fields: []field{
	{name: operators.AggCount, kind: kindString, doc: "Records in which the field is not null."},
	{name: operators.AggSum, kind: kindString, doc: "Sum."},
	{name: operators.AggMin, kind: kindString, doc: "Least value."},
	{name: operators.AggMax, kind: kindString, doc: "Greatest value."},
	{name: operators.AggAvg, kind: kindString, doc: "Mean."},
	{name: operators.AggFirst, kind: kindString, doc: "Value of the earliest record."},
	{name: operators.AggLast, kind: kindString, doc: "Value of the latest record."},
	{name: operators.AggDistinct, kind: kindString, doc: "Number of different values."},
	{name: operators.AggDistinctApprox, kind: kindString, doc: "The same, 1.6 % off, in at most 4 KiB."},
	{name: operators.AggCollect, kind: kindString, doc: "All values, in order of arrival."},
	{name: operators.AggTop, kind: kindObject, object: topShape, doc: "The records with the greatest values."},
	{name: operators.AggQuantile, kind: kindObject, object: quantileShape, doc: "A quantile, within 1 %."},
	{name: operators.AggGuest, kind: kindObject, object: windowGuestShape, doc: "What a guest's aggregate function gives: a column of this name, or of several each with its own name behind."},
}, either: [][]string{{operators.AggCount, operators.AggSum, operators.AggMin, operators.AggMax, operators.AggAvg, operators.AggFirst,
	operators.AggLast, operators.AggDistinct, operators.AggDistinctApprox, operators.AggCollect, operators.AggTop, operators.AggQuantile, operators.AggGuest}}}

var topShape = &shape{fields: []field{
	{name: "by", kind: kindString, required: true, doc: "Field to compare."},
	{name: "n", kind: kindInt, min: 1, max: 1000, required: true, doc: "How many."},
}}

var quantileShape = &shape{fields: []field{
	{name: "of", kind: kindString, required: true, doc: "Field of numbers."},
	{name: "q", kind: kindNumber, required: true, doc: "From 0 to 1."},
}}

// aggregates checks a kindAggregates value.
func (r *reader) aggregates(n *yaml.Node, path string) bool {
	before := len(r.problems)
	keys, values, ok := r.mapping(n, path)
	if ok && len(keys) == 0 {
		r.problem(n.Line, path, "expected names with aggregates, like {flights: count, worst: {max: delay}}", "")
	}
	for i, k := range keys {
		if k.Value == "" {
			r.problem(k.Line, path, "a column's name is empty", "")
		}
		p := join(path, clip(k.Value))
		if values[i].Kind == yaml.MappingNode {
			r.object(values[i], aggregateShape, p)
		} else {
			r.scalar(values[i], &field{name: k.Value, kind: kindEnum, enum: bareAggregates}, p)
		}
	}
	return len(r.problems) == before
}

// window builds a window node.
func (b *builder) window(it *item) {
	o := it.obj
	w := &operators.WindowNode{Time: operators.TimeEvent, Accumulation: o.textOr("accumulation", operators.Accumulating),
		Lateness: ms(o.duration("lateness", 0)), Aggregates: b.aggregateList(it, o.fields["aggregates"], join(o.path, "aggregates")), OnError: b.policy(it, "on_error")}
	if c := o.sub("process"); c != nil {
		w.Process = b.windowFunction(it, c, abi.FunctionWindow)
	}
	switch line := o.node.Line; {
	case len(w.Aggregates) == 0 && w.Process == nil && !o.bad["aggregates"] && !o.bad["process"]:
		b.problem(line, o.path, "a window needs aggregates, or a process function, or both", "aggregates: {n: count}")
	case o.fields["on_error"] != nil && len(it.functions) == 0:
		b.problem(o.fields["on_error"].Line, join(o.path, "on_error"), "no guest function is here that could fail", "")
	}
	it.node.Kind, it.node.Window = operators.NodeWindow, w
	s := o.sub("window")
	if s == nil {
		return
	}
	w.Time = s.textOr("time", operators.TimeEvent)
	w.Window = b.windowShape(s)
	w.Trigger = operators.DefaultTrigger(w.Window)
	if w.Window.CountSlide > 0 && o.fields["evict"] == nil {
		w.Evictor = &operators.WindowEvictor{Count: w.Window.Count}
	}
	if t := o.sub("trigger"); t != nil {
		b.trigger(w, t)
	}
	if e := o.sub("evict"); e != nil {
		w.Evictor = &operators.WindowEvictor{Count: e.integer("count", 0), Span: ms(e.duration("span", 0)), After: e.truth("after")}
	}
	once := w.Trigger
	once.Purge, once.AtEnd = false, false
	endless := w.Window.Type == operators.WindowGlobal || w.Window.Type == operators.WindowCount
	w.Revision = w.Lateness > 0 || once != operators.WindowTrigger{} && !endless
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

func (b *builder) windowShape(s *object) operators.WindowShape {
	w := operators.WindowShape{Type: s.text("type"), Step: ms(s.duration("step", 0)), Zone: s.text("zone"),
		Gap: ms(s.duration("gap", 0)), GapField: s.text("gap_field")}
	if n := s.fields["offset"]; n != nil {
		d, _ := ParseDuration(strings.TrimPrefix(n.Value, "-")) // checked
		if w.Offset = ms(d); strings.HasPrefix(n.Value, "-") {
			w.Offset = -w.Offset
		}
	}
	count := w.Type == operators.WindowCount
	span := func(name string) int64 {
		n := s.fields[name]
		if n == nil {
			return 0
		}
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			if !count {
				b.problem(n.Line, join(s.path, name), fmt.Sprintf("a %s window has a time, not a number of records", w.Type), "add a unit, like 10s")
			}
			return v
		}
		if count {
			b.problem(n.Line, join(s.path, name), "a count window has a number of records, not a time", "")
		}
		return ms(s.duration(name, 0))
	}
	if count {
		w.Count, w.CountSlide = span("size"), span("slide")
	} else {
		w.Size, w.Slide = span("size"), span("slide")
	}
	uses := map[string][]string{operators.WindowTumbling: {"size", "offset", "zone"}, operators.WindowSliding: {"size", "slide", "offset", "zone"},
		operators.WindowCumulate: {"size", "step", "offset"}, operators.WindowSession: {"gap", "gap_field"}, operators.WindowCount: {"size", "slide"}}
	for name, n := range s.fields {
		if name != "type" && name != "time" && !slices.Contains(uses[w.Type], name) {
			b.problem(n.Line, join(s.path, name), fmt.Sprintf("a %s window has no %s", w.Type, name), "")
		}
	}
	return w
}

func (b *builder) trigger(w *operators.WindowNode, t *object) {
	tr := &w.Trigger
	if t.fields["end"] != nil {
		tr.AtEnd = t.truth("end") && tr.AtEnd
	}
	tr.Every, tr.EveryClock = ms(t.duration("early", 0)), ms(t.duration("early_clock", 0))
	tr.IfChanged = tr.Every > 0 || tr.EveryClock > 0
	tr.Count = t.integer("count", tr.Count)
	tr.Timeout = ms(t.duration("timeout", 0))
	if n := t.fields["late"]; n != nil && n.Value != "each" {
		tr.LateEvery = ms(t.duration("late", 0))
	}
}

// aggregateList reads checked aggregates.
func (b *builder) aggregateList(it *item, n *yaml.Node, path string) (as []operators.WindowAggregate) {
	if n == nil {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		a := operators.WindowAggregate{Name: n.Content[i].Value}
		if v := n.Content[i+1]; v.Kind == yaml.ScalarNode {
			a.Kind = v.Value
		} else {
			o := objectOf(v, join(path, a.Name))
			for kind := range o.fields {
				a.Kind, a.Field = kind, o.text(kind)
			}
			if c := o.sub(operators.AggGuest); c != nil {
				a.Field, a.Guest = "", b.windowFunction(it, c, abi.FunctionAggregate)
			}
			if t := o.sub(operators.AggTop); t != nil {
				a.Field, a.N = t.text("by"), int(t.integer("n", 0))
			}
			if q := o.sub(operators.AggQuantile); q != nil {
				a.Field, a.Quantile = q.text("of"), q.number("q")
			}
		}
		as = append(as, a)
	}
	return as
}

// windowFlow fits a window to its input.
func (b *builder) windowFlow(it *item, in []abi.Field, known, keyed bool) {
	n, w := it.node, it.node.Window
	w.Input, w.Unkeyed, it.inputKnown = in, !keyed, known
	if w.Unkeyed {
		if it.explicit && n.Parallelism > 1 {
			b.problem(n.Line, join(it.path, "parallelism"), "windows over everything are one task's: the input has no key", "put a key_by before it")
		}
		n.Parallelism = 1
	} else {
		w.KeyFields = b.keyColumns(it)
		for _, f := range w.KeyFields { // windows of windows: the key says which, and a column is there once
			w.HideBounds = w.HideBounds || f.Name == window.ColumnStart || f.Name == window.ColumnEnd
		}
	}
	n.Keyed, it.known = keyed, known
	switch {
	case !known && b.opts.Modules == nil: // a module would say
		return
	case !known:
		b.problem(n.Line, it.path, "what the input's values hold is not known, so they can't be aggregated", "describe the function above it")
		return
	}
	for _, a := range w.Aggregates {
		if names := fieldNames(in); a.Field != "" && format.FieldIndex(in, a.Field) < 0 {
			hint := nearest(a.Field, names)
			if len(in) == 0 {
				hint = "give the source fields:"
			}
			b.problem(n.Line, join(it.path, "aggregates."+clip(a.Name)), fmt.Sprintf("the input has no field %q, it has %s", clip(a.Field), schemaText(in)), hint)
			return
		}
	}
	endless := w.Window.Type == operators.WindowGlobal || w.Window.Type == operators.WindowCount
	if w.Time == operators.TimeEvent && !endless {
		if id := b.timeless(it, map[*item]bool{}); id != "" {
			b.problem(n.Line, join(it.path, "window"), fmt.Sprintf("windows by event time, but the records of %q have no time", id), "give the source time:, or the window time: processing")
		}
	}
	if !b.windowFunctions(it) {
		it.known = false
		return
	}
	if w.Window.Type == "" || math.MaxInt64-w.Lateness < w.Window.Size {
		return
	}
	if err := window.Validate(w); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			b.problem(n.Line, it.path, line, "")
		}
		return
	}
	n.Schema = window.Schema(w)
	n.Keyed = keyed && w.Process == nil
}

// timeless is the id of a source above whose records have no event time; "": all have.
func (b *builder) timeless(it *item, seen map[*item]bool) string {
	if seen[it] {
		return ""
	}
	seen[it] = true
	if s := it.node.Source; s != nil {
		if s.Time == nil || s.Time.Source == operators.TimeProcessing {
			return it.node.ID
		}
		return ""
	}
	for _, r := range it.refs {
		if id := b.timeless(b.byID[r.id], seen); id != "" {
			return id
		}
	}
	return ""
}

// keyColumns are the columns of a key: the fields of the key_by above, nil where they are not known or
// differ. Keys that a source or a whole value gives are one column, `key`.
func (b *builder) keyColumns(it *item) (fs []abi.Field) {
	for i, r := range it.refs {
		var own []abi.Field
		switch up := b.byID[r.id]; {
		case up.node.KeyBy != nil:
			own = keyFieldsOf(up.node)
		case up.node.Source != nil:
			own = []abi.Field{{Name: "key", Type: abi.TypeString}}
		case up.node.Window != nil:
			own = up.node.Window.KeyFields
		default:
			own = b.keyColumns(up)
		}
		if i > 0 && !slices.Equal(fs, own) {
			return nil
		}
		fs = own
	}
	return fs
}

func keyFieldsOf(n *operators.Node) (fs []abi.Field) {
	if n.KeyBy.Whole {
		if len(n.Schema) > 0 {
			return nil // a row's bytes
		}
		return []abi.Field{{Name: "key", Type: abi.TypeString}}
	}
	for _, name := range n.KeyBy.Fields {
		f := abi.Field{Name: name, Type: abi.TypeString}
		if i := format.FieldIndex(n.Schema, name); i >= 0 {
			f = n.Schema[i]
		}
		fs = append(fs, f)
	}
	return fs
}

// windowNeeds collects the fields that a window reads; false: all of them.
func windowNeeds(g *operators.Graph, n *operators.Node, used map[string]bool) bool {
	w := n.Window
	if w.Late && len(readers(g, n.ID, 1)) > 0 {
		return false
	}
	for _, g := range w.GuestNodes("") {
		if g.Guest.Fn == nil || len(g.Guest.Fn.Input) == 0 {
			return false
		}
	}
	if len(w.GuestNodes("")) > 0 && w.OnError.Policy == operators.PolicyDeadLetter {
		return false // the whole record is shown
	}
	for _, a := range w.Aggregates {
		if a.Guest != nil {
			for _, f := range a.Guest.Fn.Input {
				used[f.Name] = true
			}
		}
		if a.Kind == operators.AggTop || a.Kind == operators.AggCollect && a.Field == "" {
			return false
		}
	}
	for _, a := range w.Aggregates {
		if a.Field != "" {
			used[a.Field] = true
		}
	}
	if w.Process != nil && len(w.Aggregates) == 0 {
		for _, f := range w.Process.Fn.Input {
			used[f.Name] = true
		}
	}
	if w.Window.GapField != "" {
		used[w.Window.GapField] = true
	}
	return true
}
