package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/bench/conform/drive"
	"github.com/millrace-io/millrace/bench/result"
)

// runner runs cases and counts.
type runner struct {
	verbose, full bool
	seed          int64

	world    *drive.World
	dir      string
	families []*family
	failures []string
	runs     int
}

// family is the count of one family.
type family struct {
	name                         string
	total, passed                int
	notBuilt, noInput, onPurpose map[string]int // by kind of case, or by id
}

func (r *runner) open() (err error) {
	if r.dir, err = os.MkdirTemp("", "millrace-conform-"); err != nil {
		return err
	}
	if r.world, err = drive.NewWorld(r.dir); err != nil {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

func (r *runner) close() {
	if err := errors.Join(r.world.Close(), os.RemoveAll(r.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
	}
}

func (r *runner) family(name string) *family {
	for _, f := range r.families {
		if f.name == name {
			return f
		}
	}
	f := &family{name: name, notBuilt: map[string]int{}, noInput: map[string]int{}, onPurpose: map[string]int{}}
	r.families = append(r.families, f)
	return f
}

// one runs a case and counts how it went.
func (r *runner) one(c *corpus.Case) {
	f := r.family(c.Family)
	f.total++
	wrong, runs, err := check(r.world, c, r.full, r.seed)
	r.runs += runs
	reason, different := differences[c.ID]
	switch {
	case errors.Is(err, drive.ErrNotBuilt):
		f.notBuilt[c.Sub()]++
		return
	case errors.Is(err, errNoInput):
		f.noInput[err.Error()]++
		return
	case err != nil:
		wrong = []string{err.Error()}
	}
	switch {
	case len(wrong) == 0 && different:
		wrong = []string{"passes, but is listed as answered differently on purpose: " + reason}
	case len(wrong) == 0:
		f.passed++
		if r.verbose {
			fmt.Printf("ok   %s (%d runs)\n", c.ID, runs)
		}
		return
	case different:
		f.onPurpose[c.ID+": "+reason]++
		return
	}
	r.failures = append(r.failures, c.ID)
	fmt.Printf("FAIL %s: %s\n", c.ID, c.About)
	for _, w := range wrong {
		fmt.Printf("   %s\n", w)
	}
}

// report prints the table and one RESULT line for each family.
func (r *runner) report(w io.Writer) error {
	if len(r.families) == 0 {
		return fmt.Errorf("no case has such an id")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "family\tpassed\ttotal\t")
	passed, total := 0, 0
	for _, f := range r.families {
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\n", f.name, f.passed, f.total, f.remark())
		passed, total = passed+f.passed, total+f.total
	}
	fmt.Fprintf(t, "all\t%d\t%d\t%d runs\n", passed, total, r.runs)
	if err := t.Flush(); err != nil {
		return err
	}
	for _, f := range r.families {
		for _, line := range sorted(f.onPurpose) {
			fmt.Fprintf(w, "on purpose: %s\n", line)
		}
	}
	if len(r.failures) > 0 {
		fmt.Fprintf(w, "failed: %s\n", strings.Join(r.failures, " "))
	}
	for _, f := range r.families {
		result.AtLeast("conform."+f.name, float64(f.passed), "cases", float64(f.total-len(f.onPurpose)))
	}
	return nil
}

// remark says what of a family was not run, or on purpose not answered alike.
func (f *family) remark() string {
	var parts []string
	n := 0
	for _, c := range f.notBuilt {
		n += c
	}
	switch {
	case n > 0 && n == f.total:
		parts = append(parts, "not built")
	case n > 0:
		parts = append(parts, "not built: "+counts(f.notBuilt))
	}
	parts = append(parts, sorted(f.noInput)...)
	if n := len(f.onPurpose); n > 0 {
		parts = append(parts, fmt.Sprintf("%d different on purpose", n))
	}
	return strings.Join(parts, "; ")
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range sorted(m) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

func sorted(m map[string]int) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return ks
}
