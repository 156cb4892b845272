package ci

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes a report as a comment on a pull request: a verdict, a table, and the samples folded away.
func (r *Report) Markdown(w io.Writer) {
	verdict := "within the policy"
	if !r.Within {
		verdict = "**beyond the policy**"
	}
	fmt.Fprintf(w, "### millrace ci: %s\n\n", verdict)
	for _, b := range r.Beyond {
		fmt.Fprintf(w, "- %s\n", escaped(b))
	}
	if len(r.Beyond) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%s, snapshot %d and the %s records behind it of %s, %s%s.\n\n", code(r.Slice.Job), r.Slice.Snapshot, thousands(r.Slice.Records),
		escaped(strings.Join(r.Slice.Sources, ", ")), r.Slice.span(), end(r.Slice.Over))
	if len(r.Operators) > 0 {
		fmt.Fprintln(w, "| operator | compared | output | state | timers | faults | fuel |")
		fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|")
	}
	for _, o := range r.Operators {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", strings.ReplaceAll(code(o.ID), "|", "\\|"), thousands(o.Records+o.Timers), cell(o.Differ["output"]), cell(o.Differ["state"]),
			cell(o.Differ["timer"]), cell(o.Differ["fault"]), percent(o.Ratio()))
	}
	if len(r.Operators) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range r.Change {
		fmt.Fprintf(w, "- %s: %s\n", d.Kind, escaped(d.String()))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "- check of %s: %s\n", code(f.Operator), escaped(f.Text))
	}
	if len(r.Change) == 0 {
		fmt.Fprintln(w, "- no change: the modules and the pipeline are those of the snapshot")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "- %s\n", escaped(n))
	}
	for _, o := range r.Operators {
		o.markdown(w)
	}
}

func cell(n int64) string {
	if n == 0 {
		return "same"
	}
	return thousands(n) + " differ" + singular(n)
}

func (o *Operator) markdown(w io.Writer) {
	if len(o.Samples) == 0 {
		return
	}
	fmt.Fprintf(w, "\n<details><summary>%s: the first differences</summary>\n", html(o.ID))
	for _, s := range o.Samples {
		fmt.Fprintf(w, "\n%s at %s", s.Kind, code(s.Position))
		if s.Key != "" {
			fmt.Fprintf(w, ", key %s", code(clipped(s.Key, 80)))
		}
		if s.Of != "" {
			fmt.Fprintf(w, ", in %s", code(clipped(s.Of, 80)))
		}
		fmt.Fprint(w, follows(s.Follow))
		fence := fenceFor(s.Before + s.After)
		fmt.Fprintf(w, "\n\n%sdiff\n- %s\n+ %s\n%s\n", fence, clipped(or(s.Before, "nothing"), 400), clipped(or(s.After, "nothing"), 400), fence)
	}
	fmt.Fprintln(w, "\n</details>")
}

// fenceFor is longer than any run of back ticks in a text.
func fenceFor(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence
}

// code is a text as code in a line.
func code(s string) string {
	s = clipped(s, 200)
	ticks := "`"
	for strings.Contains(s, ticks) {
		ticks += "`"
	}
	if len(ticks) > 1 {
		return ticks + " " + s + " " + ticks
	}
	return ticks + s + ticks
}

var plain = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "|", "\\|", "<", "&lt;", ">", "&gt;", "#", "\\#", "@", "&#64;")

// escaped is a text that Markdown leaves as it is.
func escaped(s string) string { return plain.Replace(clipped(s, 2000)) }

var inHTML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func html(s string) string { return inHTML.Replace(clipped(s, 200)) }
