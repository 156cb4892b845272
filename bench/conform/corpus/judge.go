package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Got is what a driven operator gave.
type Got struct {
	Main, Late  []Result
	LateDropped int64
	Rejected    error // why its description was refused
	FailedAt    int   // step; valid with Failure
	Failure     error // that ended the run
}

// Judge compares and returns what is wrong, in a few lines; none if all is right.
func Judge(want *Expected, got *Got) []string {
	if want.Rejected {
		if got.Rejected == nil {
			return []string{"the operator was accepted, expected that its description is refused"}
		}
		return nil
	}
	if got.Rejected != nil {
		return []string{fmt.Sprintf("the operator was refused: %v", got.Rejected)}
	}
	var bad []string
	switch {
	case want.FailsAfter != nil && got.Failure == nil:
		bad = append(bad, fmt.Sprintf("nothing failed, expected a failure at step %d", *want.FailsAfter))
	case want.FailsAfter != nil && got.FailedAt != *want.FailsAfter:
		bad = append(bad, fmt.Sprintf("failed at step %d, expected at %d: %v", got.FailedAt, *want.FailsAfter, got.Failure))
	case want.FailsAfter == nil && got.Failure != nil:
		bad = append(bad, fmt.Sprintf("failed at step %d: %v", got.FailedAt, got.Failure))
	}
	bad = append(bad, results("main", want.Order, want.Main, got.Main)...)
	bad = append(bad, results("late", want.Order, want.Late, got.Late)...)
	bad = append(bad, results("timeout", want.Order, want.Timeout, nil)...)
	if n := want.LateDropped; n != nil && *n != got.LateDropped {
		bad = append(bad, fmt.Sprintf("%d late records dropped, expected %d", got.LateDropped, *n))
	}
	return bad
}

// results compares one output step by step. Of several steps that differ the first three are told.
func results(output, order string, want, got []Result) []string {
	w, g := bySteps(order, want), bySteps(order, got)
	steps := map[int]bool{}
	for s := range w {
		steps[s] = true
	}
	for s := range g {
		steps[s] = true
	}
	var bad []string
	for _, s := range slices.Sorted(maps.Keys(steps)) {
		if slices.Equal(w[s], g[s]) {
			continue
		}
		if len(bad) == 3 {
			return append(bad, "...")
		}
		bad = append(bad, fmt.Sprintf("%s, step %d:\n      got      %s\n      expected %s", output, s, shorten(g[s]), shorten(w[s])))
	}
	return bad
}

func shorten(lines []string) string {
	const most = 12
	if len(lines) > most {
		return fmt.Sprintf("%v and %d more", lines[:most], len(lines)-most)
	}
	return fmt.Sprint(lines)
}

// bySteps writes the results of each step in an order in which equal outcomes are equal: by key, those of
// a key as they came, or with per-step sorted.
func bySteps(order string, rs []Result) map[int][]string {
	type entry struct{ key, text string }
	steps := map[int][]entry{}
	for i := range rs {
		r := &rs[i]
		e := entry{text: r.String()}
		if order == PerKey && r.Key != nil {
			e.key = *r.Key
		}
		steps[r.After] = append(steps[r.After], e)
	}
	out := map[int][]string{}
	for s, es := range steps {
		slices.SortStableFunc(es, func(a, b entry) int {
			if order != PerKey {
				return bytes.Compare([]byte(a.text), []byte(b.text))
			}
			return bytes.Compare([]byte(a.key), []byte(b.key))
		})
		for _, e := range es {
			out[s] = append(out[s], e.text)
		}
	}
	return out
}

// String is the result without its step, the same for the same content: members of objects are sorted.
func (r *Result) String() string {
	key, ts := "-", "-"
	if r.Key != nil {
		key = strconv.Quote(*r.Key)
	}
	if r.TS != nil {
		ts = strconv.FormatInt(*r.TS, 10)
	}
	return fmt.Sprintf("%s@%s %s", key, ts, Canonical(r.Value))
}

// Canonical is JSON text with sorted members and no spaces; text that is no JSON stays as it is. Numbers
// keep every digit.
func Canonical(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(text)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(text)
	}
	return string(b)
}
