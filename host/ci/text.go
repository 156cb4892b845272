package ci

import (
	"fmt"
	"io"
	"strings"
)

// Text writes a report for a terminal.
func (r *Report) Text(w io.Writer) {
	fmt.Fprintf(w, "slice      %s, snapshot %d and the %s records behind it of %s\n", r.Slice.Job, r.Slice.Snapshot, thousands(r.Slice.Records), strings.Join(r.Slice.Sources, ", "))
	fmt.Fprintf(w, "           %s%s\n", r.Slice.span(), end(r.Slice.Over))
	for _, d := range r.Change {
		fmt.Fprintf(w, "change     %s: %v\n", d.Kind, d)
	}
	if len(r.Change) == 0 {
		fmt.Fprintln(w, "change     none: the modules and the pipeline are those of the snapshot")
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "check      %s: %s\n", f.Operator, f.Text)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note       %s\n", n)
	}
	for _, o := range r.Operators {
		o.text(w)
	}
	fmt.Fprintln(w)
	if r.Within {
		fmt.Fprintln(w, "within the policy")
		return
	}
	for _, b := range r.Beyond {
		fmt.Fprintf(w, "beyond     %s\n", b)
	}
}

func end(over bool) string {
	if over {
		return ", to the end of the input"
	}
	return ""
}

func (o *Operator) text(w io.Writer) {
	fmt.Fprintf(w, "\n%s (%s), %s%s\n", o.ID, o.Function, count(o.Records, "record", "records"), timers(o.Timers))
	for _, k := range []string{"output", "state", "timer", "fault"} {
		fmt.Fprintf(w, "  %-6s  %s\n", k, differs(o.Differ[k], o.Records+o.Timers))
	}
	if o.Follow > 0 {
		fmt.Fprintf(w, "          %s may follow from an earlier one of the same key\n", thousands(o.Follow))
	}
	if o.Stopped != "" {
		fmt.Fprintf(w, "  stopped %s\n", clipped(o.Stopped, 400))
	}
	fmt.Fprintf(w, "  fuel    %s: %s, was %s; differs at %s\n", percent(o.Ratio()), thousands(o.NewFuel), thousands(o.OldFuel), thousands(o.Differ["fuel"]))
	for _, s := range o.Samples {
		fmt.Fprintf(w, "  %s at %s%s%s%s\n", s.Kind, s.Position, named(", key ", s.Key), named(", in ", s.Of), follows(s.Follow))
		fmt.Fprintf(w, "    - %s\n    + %s\n", clipped(or(s.Before, "nothing"), 200), clipped(or(s.After, "nothing"), 200))
	}
}

func follows(follow bool) string {
	if follow {
		return " (may follow from an earlier one)"
	}
	return ""
}

func timers(n int64) string {
	if n == 0 {
		return ""
	}
	return " and " + count(n, "timer", "timers")
}

func differs(n, of int64) string {
	if n == 0 {
		return "the same"
	}
	return fmt.Sprintf("differs at %s of %s (%.4f %%)", thousands(n), thousands(of), float64(n)*100/float64(max(1, of)))
}

func named(what, s string) string {
	if s == "" {
		return ""
	}
	return what + clipped(s, 80)
}
