// Package windowtest says what windows must hold in the end, by trying every possibility: it shares
// nothing with the operator, and is slow.
package windowtest

import (
	"cmp"
	"slices"

	"github.com/millrace-io/millrace/operators"
)

// Rec is a record with one number.
type Rec struct {
	Key  string
	Time int64
	V    int64
}

// Window is a window of a key.
type Window struct {
	Key        string
	Start, End int64
}

// Stats are what aggregates over a window's numbers give.
type Stats struct{ Count, Sum, Min, Max int64 }

// Add folds a number in.
func (s Stats) Add(v int64) Stats { return s.Merge(Stats{1, v, v, v}) }

// Merge folds another part in.
func (s Stats) Merge(o Stats) Stats {
	switch {
	case s.Count == 0:
		return o
	case o.Count == 0:
		return s
	}
	return Stats{s.Count + o.Count, s.Sum + o.Sum, min(s.Min, o.Min), max(s.Max, o.Max)}
}

// Gap is a record's own session gap where sessions are dynamic: odd, 1 to 13 ms.
func Gap(v int64) int64 { return 1 + 2*(max(v, -v)%7) }

// Finals is what every window holds once all records are in, if none is late. The global window has no bounds.
// Sessions with a gap field have Gap.
func Finals(w operators.WindowShape, rs []Rec) map[Window]Stats {
	if w.Type == operators.WindowSession {
		return sessions(w, rs)
	}
	out := map[Window]Stats{}
	if w.Type == operators.WindowGlobal {
		for _, r := range rs {
			out[Window{Key: r.Key}] = out[Window{Key: r.Key}].Add(r.V)
		}
		return out
	}
	for _, r := range rs {
		for start := r.Time - w.Size - 1; start <= r.Time; start++ {
			for _, end := range ends(w, start) {
				if start <= r.Time && r.Time < end {
					k := Window{r.Key, start, end}
					out[k] = out[k].Add(r.V)
				}
			}
		}
	}
	return out
}

// ends are those of the windows that begin at start.
func ends(w operators.WindowShape, start int64) (es []int64) {
	multiple := func(of int64) bool { return (start-w.Offset)%of == 0 }
	switch w.Type {
	case operators.WindowTumbling:
		if multiple(w.Size) {
			es = append(es, start+w.Size)
		}
	case operators.WindowSliding:
		if multiple(w.Slide) {
			es = append(es, start+w.Size)
		}
	case operators.WindowCumulate:
		for l := w.Step; multiple(w.Size) && l <= w.Size; l += w.Step {
			es = append(es, start+l)
		}
	}
	return es
}

// sessions are runs of records, each of which begins before the time up to which one before it keeps the
// session open.
func sessions(shape operators.WindowShape, rs []Rec) map[Window]Stats {
	gap := func(r Rec) int64 {
		if shape.GapField != "" {
			return Gap(r.V)
		}
		return shape.Gap
	}
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b Rec) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Time, b.Time))
	})
	out := map[Window]Stats{}
	for i := 0; i < len(rs); {
		w := Window{rs[i].Key, rs[i].Time, rs[i].Time}
		var s Stats
		for i < len(rs) && rs[i].Key == w.Key && rs[i].Time <= w.End {
			s = s.Add(rs[i].V)
			w.End = max(w.End, rs[i].Time+gap(rs[i]))
			i++
		}
		out[w] = s
	}
	return out
}
