package modcheck

import (
	"fmt"
	"strings"
)

// Report is what the check of a module found. It is serialisable.
type Report struct {
	Digest    string     `json:"digest"`
	Exempt    string     `json:"exempt,omitempty"` // why nothing was checked; empty: everything that could be was
	Functions []Function `json:"functions,omitempty"`
}

// Function is what was found of one function.
type Function struct {
	Name    string `json:"function"`
	Kind    string `json:"kind"`
	Sample  string `json:"sample"`  // where its records came from
	Records int    `json:"records"` // steps of an aggregate, windows of a window function, else records
	Timers  int    `json:"timers,omitempty"`
	Failed  int    `json:"failed,omitempty"` // of them, by fault or the function's own word
	// Fresh is how many of records and timers had an instance of their own; the others shared fresh ones by 7
	// and by 256 as far as Covered.
	Fresh      int         `json:"fresh"`
	Covered    int         `json:"covered"`
	NotChecked string      `json:"not_checked,omitempty"` // why; empty: it was
	Difference *Difference `json:"difference,omitempty"`  // nil: none
	Notes      []string    `json:"notes,omitempty"`
	Cached     bool        `json:"cached,omitempty"` // it was checked before
}

// Difference is the first place where a function gave something else.
type Difference struct {
	What string `json:"what"` // between which ways of calling
	At   string `json:"at"`   // record, step, window or timer
	Got  string `json:"got"`
	Want string `json:"want"`
	Hint string `json:"hint,omitempty"`
}

func (d *Difference) String() string {
	s := fmt.Sprintf("%s: at %s it gave %s, but %s", d.What, d.At, d.Got, d.Want)
	if d.Hint != "" {
		s += "; " + d.Hint
	}
	return s
}

// String is one line of what was found.
func (f *Function) String() string {
	switch {
	case f.Difference != nil:
		return fmt.Sprintf("function %s %s", f.Name, f.Difference)
	case f.NotChecked != "":
		return fmt.Sprintf("function %s: not checked: %s", f.Name, f.NotChecked)
	case f.Cached:
		return fmt.Sprintf("function %s keeps nothing between calls (checked before)", f.Name)
	}
	s := fmt.Sprintf("function %s keeps nothing between calls: %d %s of %s", f.Name, f.Records, unit(f.Kind), f.Sample)
	if f.Timers > 0 {
		s += fmt.Sprintf(" and %d timers", f.Timers)
	}
	if f.Failed > 0 {
		s += fmt.Sprintf(", %d failed", f.Failed)
	}
	return s + fmt.Sprintf("; the first %d one by one on fresh instances, %d by 7 and 256", f.Fresh, f.Covered)
}

// Problems are the differences, a line each; none: the module passed.
func (r *Report) Problems() (lines []string) {
	for i := range r.Functions {
		if r.Functions[i].Difference != nil {
			lines = append(lines, r.Functions[i].String())
		}
	}
	return lines
}

// Err is nil or a *Error with everything that was found.
func (r *Report) Err(module string) error {
	if lines := r.Problems(); len(lines) > 0 {
		return &Error{Module: module, Digest: r.Digest, Problems: lines}
	}
	return nil
}

// Error refuses a module whose functions give something else on another instance or in another batch.
type Error struct {
	Module   string // path
	Digest   string
	Problems []string
}

func (e *Error) Error() string {
	return fmt.Sprintf("module %s (%.12s) does not give the same on a fresh instance, so that a restart could change results:\n  %s\n"+
		"  (check: off beside function: in the pipeline file lets it run all the same)", e.Module, e.Digest, strings.Join(e.Problems, "\n  "))
}
