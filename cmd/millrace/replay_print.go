package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/millrace-io/millrace/host/replay"
)

// printReplay prints what two versions of code did.
func printReplay(w io.Writer, r *replay.Report) {
	until := "to the present end of the input"
	switch {
	case r.To != 0:
		until = fmt.Sprintf("to snapshot %d", r.To)
	case r.Over:
		until = "to the end of the input"
	}
	fmt.Fprintf(w, "%s from snapshot %d, %s records, %s, in %v\n", r.Job, r.From, thousands(r.Records), until, time.Duration(r.Millis)*time.Millisecond)
	if len(r.Operators) == 0 {
		fmt.Fprintln(w, "nothing was compared: no operator has other code (--module names some)")
	}
	for _, o := range r.Operators {
		printCompared(w, o, r.Exact)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

func printCompared(w io.Writer, o *replay.Operator, exact bool) {
	fmt.Fprintf(w, "\n%s", o.ID)
	if o.Function != "" {
		fmt.Fprintf(w, " (%s)", o.Function)
	}
	fmt.Fprintf(w, ": module %.12s against %.12s\n", o.Old, o.New)
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("compared", "%s records, %s timers", thousands(o.Records), thousands(o.Timers))
	follow := ""
	if o.Follow > 0 {
		follow = fmt.Sprintf(", and %s that may follow from these, of keys whose state differed before", thousands(o.Follow))
	}
	row("differ", "%s%s", thousands(o.Differ), follow)
	if text := kindsText(o); text != "" {
		row("in", "%s", text)
	}
	if o.FuelOnly > 0 {
		of := "records"
		if !exact {
			of = "calls"
		}
		row("fuel alone", "%s %s", thousands(o.FuelOnly), of)
	}
	if o.OldFuel.Total > 0 || o.NewFuel.Total > 0 {
		at := ""
		if o.NewFuel.MaxAt != "" {
			at = " (" + o.NewFuel.MaxAt + ")"
		}
		row("fuel", "%s to %s, x %.3f; half at most %s to %s, most %s to %s%s", thousands(o.OldFuel.Total), thousands(o.NewFuel.Total), o.FuelRatio(),
			thousands(o.OldFuel.P50), thousands(o.NewFuel.P50), thousands(o.OldFuel.Max), thousands(o.NewFuel.Max), at)
	}
	if o.Stopped != "" {
		row("stopped", "the new version could not go on: %s; %s records were not compared", o.Stopped, thousands(o.NotCompared))
	}
	t.Flush()
	for _, d := range o.Samples {
		printDifference(w, d)
	}
}

// kindsText says in what records differ.
func kindsText(o *replay.Operator) string {
	var parts []string
	for _, k := range replay.Kinds {
		if n := o.Kinds[k.Name]; n > 0 && k.Kind != replay.KindFuel {
			parts = append(parts, fmt.Sprintf("%s %s", k.Name, thousands(n)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if o.StateOnly > 0 {
		text += fmt.Sprintf("; in state alone %s", thousands(o.StateOnly))
	}
	return text
}

func printDifference(w io.Writer, d *replay.Difference) {
	fmt.Fprintf(w, "  %s", d.Position)
	if d.KeyRow != "" && !d.Timer {
		fmt.Fprintf(w, ", key %s", d.KeyRow)
	}
	if d.Records > 1 {
		fmt.Fprintf(w, ", and the %d behind it in the call", d.Records-1)
	}
	fmt.Fprintln(w)
	for _, x := range d.Details {
		name := x.Kind.String()
		if x.Of != "" {
			name += " " + x.Of
		}
		fmt.Fprintf(w, "    %s\n      - %s\n      + %s\n", name, orNone(x.Before), orNone(x.After))
	}
}

func orNone(s string) string {
	if s == "" {
		return "(nothing)"
	}
	return s
}

// printRepetition prints how a replay compares with the run itself.
func printRepetition(w io.Writer, r *replay.Repetition) {
	fmt.Fprintf(w, "%s from snapshot %d to %d, %s records, in %v\n", r.Report.Job, r.Report.From, r.Report.To, thousands(r.Report.Records), time.Duration(r.Report.Millis)*time.Millisecond)
	for _, d := range r.States {
		if d.Differ == 0 {
			fmt.Fprintf(w, "  %s, state %s: %s entries, all as they were\n", d.Operator, d.State, thousands(d.Entries))
			continue
		}
		fmt.Fprintf(w, "  %s, state %s: %s of %s entries differ\n", d.Operator, d.State, thousands(d.Differ), thousands(d.Entries))
		for _, x := range d.Samples {
			fmt.Fprintf(w, "    key %s %s\n      - %s\n      + %s\n", x.Key, x.Of, orNone(x.Before), orNone(x.After))
		}
	}
	for _, o := range r.Outputs {
		switch {
		case o.Skipped != "":
			fmt.Fprintf(w, "  %s: not compared, %s\n", o.Sink, o.Skipped)
		case o.Same:
			fmt.Fprintf(w, "  %s: %s lines, all as they were\n", o.Sink, thousands(o.Lines))
		case o.Reordered:
			fmt.Fprintf(w, "  %s: %s lines, all as they were, those of different tasks in another order\n", o.Sink, thousands(o.Lines))
		default:
			fmt.Fprintf(w, "  %s: %s lines were published, the replay gives %s; the first that differ\n      - %s\n      + %s\n", o.Sink, thousands(o.Lines), thousands(o.Again),
				orNone(strings.TrimSuffix(o.First, "\n")), orNone(strings.TrimSuffix(o.Instead, "\n")))
		}
	}
	for _, p := range r.Positions {
		fmt.Fprintf(w, "  %s\n", p)
	}
	for _, n := range r.Report.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
}

// printReplayStep prints a record with everything that came of it.
func printReplayStep(w io.Writer, x *replay.Step) {
	fmt.Fprintf(w, "%s: %s", x.Operator, x.Position)
	if x.Key != "" && x.Input != "" {
		fmt.Fprintf(w, ", key %s", x.Key)
	}
	if x.Time != nil && x.Input != "" {
		fmt.Fprintf(w, ", at %s", time.UnixMilli(*x.Time).UTC().Format(time.RFC3339Nano))
	}
	fmt.Fprintln(w)
	line := func(name, text string) { fmt.Fprintf(w, "  %-7s %s\n", name, text) }
	if x.Input != "" {
		line("input", x.Input)
	}
	for _, c := range x.Calls {
		line("call", c)
	}
	for _, d := range x.State {
		line("state", fmt.Sprintf("%s: %s -> %s", d.Of, orNone(d.Before), orNone(d.After)))
	}
	for _, t := range x.Timers {
		line("timer", t)
	}
	for _, d := range x.Outputs {
		if d.Of != "" {
			line("output", d.Of+" "+d.After)
			continue
		}
		line("output", d.After)
	}
	for _, l := range x.Logs {
		line("log", l)
	}
	if x.Failed != "" {
		line("failed", x.Failed)
	}
	line("fuel", thousands(x.Fuel))
}
