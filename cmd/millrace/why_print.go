package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/millrace-io/millrace/host/why"
)

// printStory tells a story to people: the output, then each operator on its way with its steps.
func printStory(w io.Writer, s *why.Story) {
	fmt.Fprintf(w, "%s\n", s.Output)
	at := "the beginning"
	if s.Snapshot > 0 {
		at = fmt.Sprintf("snapshot %d", s.Snapshot)
	}
	fmt.Fprintf(w, "of sink %s; %s records run again from %s in %d ms\n", s.Sink, thousands(s.Records), at, s.Millis)
	for _, c := range s.Chapters {
		printChapter(w, c)
	}
}

func printChapter(w io.Writer, c *why.Chapter) {
	fmt.Fprintf(w, "\noperator %s", c.Operator)
	if c.Function != "" {
		fmt.Fprintf(w, ", function %s of %s", c.Function, c.Module)
	}
	if len(c.Digest) >= 12 {
		fmt.Fprintf(w, " (%.12s)", c.Digest)
	}
	if c.Key != nil {
		fmt.Fprintf(w, ", key %s", c.Key)
	}
	fmt.Fprintln(w)
	for _, row := range c.Before {
		var r struct {
			State               string
			Entry, Value, Timer json.RawMessage
		}
		if json.Unmarshal(row, &r) == nil {
			fmt.Fprintf(w, "  had     %s\n", words(r.State, r.Entry, r.Value, r.Timer))
		}
	}
	if c.Left > 0 {
		fmt.Fprintf(w, "  ... %s steps before, --steps 0 tells all\n", thousands(int64(c.Left)))
	}
	for _, s := range c.Steps {
		printStep(w, s)
	}
}

func printStep(w io.Writer, s *why.Step) {
	head := s.Position
	switch {
	case s.Timer != nil:
		head = fmt.Sprintf("timer %s of %s time, %s", s.Timer.Name, s.Timer.Domain, instant(s.Timer.At))
	case s.Fired:
		head = "the window fired"
	case head == "":
		head = "a record of an operator"
	}
	fmt.Fprintf(w, "%6d  %s", s.Number, head)
	if s.Fuel > 0 {
		fmt.Fprintf(w, ", fuel %s", thousands(s.Fuel))
	}
	fmt.Fprintln(w)
	line := func(name string, text string) { fmt.Fprintf(w, "        %-7s %s\n", name, text) }
	if s.Input != nil {
		line("input", string(s.Input))
	}
	for _, x := range s.State {
		line("state", words(x.State, x.Entry)+": "+orNothing(x.Old)+" -> "+orNothing(x.New))
	}
	for _, t := range s.Timers {
		what := "set"
		if t.Delete {
			what = "deleted"
		}
		line("timer", fmt.Sprintf("%s of %s time %s, %s", t.Name, t.Domain, what, instant(t.At)))
	}
	for _, l := range s.Logs {
		line("log", l)
	}
	if s.Failed != "" {
		line("failed", s.Failed)
	}
	for _, o := range s.Outputs {
		mark := ""
		if o.This {
			mark = "   <- this one"
		}
		name := "output"
		if o.Output != "" {
			name = o.Output
		}
		line(name, string(o.Value)+mark)
	}
}

func orNothing(v json.RawMessage) string {
	if v == nil {
		return "nothing"
	}
	return string(v)
}

// words joins what is there.
func words(name string, parts ...json.RawMessage) string {
	out := []string{name}
	for _, p := range parts {
		if p != nil {
			out = append(out, string(p))
		}
	}
	return strings.Join(out, " ")
}

func instant(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
