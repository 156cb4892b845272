package window

import (
	"math"

	"github.com/millrace-io/millrace/operators"
)

// span is a window's time: [start, end).
type span struct{ start, end int64 }

// last is the last instant of a span: when it fires, and the event time of its results.
func (s span) last() int64 { return s.end - 1 }

// everything is the window of global and count windows.
var everything = span{math.MinInt64, math.MaxInt64}

// floorMod is a mod b, 0 <= result < b, for any sign of a (C001).
func floorMod(a, b int64) int64 {
	m := a % b
	if m < 0 {
		m += b
	}
	return m
}

// add and sub stop at the ends of int64.
func add(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func sub(a, b int64) int64 {
	if b > 0 && a < math.MinInt64+b {
		return math.MinInt64
	}
	return a - b
}

// assigner says which windows a time is in. Its arithmetic is in units: of 1 ms, or of local days.
type assigner struct {
	kind        string
	size, slide int64 // units; tumbling: slide = size; cumulate: slide is the step
	offset      int64
	cut         int64 // size mod slide: where slices are cut besides at slides
	zone        *zone // nil: units are ms
	part        int64 // tumbling windows shorter than a day, with a zone: their length, ms
}

func newAssigner(w *operators.WindowShape) (*assigner, error) {
	a := &assigner{kind: w.Type, size: w.Size, slide: w.Slide, offset: w.Offset}
	switch w.Type {
	case operators.WindowTumbling:
		a.slide = w.Size
	case operators.WindowCumulate:
		a.slide = w.Step
	}
	if w.Zone != "" {
		z, err := newZone(w.Zone, w.Offset)
		if err != nil {
			return nil, err
		}
		a.zone, a.offset = z, 0
		if w.Size < dayMS {
			a.part = w.Size
		} else {
			a.size, a.slide = a.size/dayMS, a.slide/dayMS
		}
	}
	if a.slide > 0 {
		a.cut = a.size % a.slide
	}
	return a, nil
}

// unit is the unit that holds a time; at is the first ms of a unit.
func (a *assigner) unit(ms int64) int64 {
	if a.zone == nil {
		return ms
	}
	return a.zone.day(ms)
}

func (a *assigner) at(unit int64) int64 {
	if a.zone == nil {
		return unit
	}
	return a.zone.start(unit)
}

// down is the last multiple of slide, shifted by the offset, at or before u.
func (a *assigner) down(u int64) int64 { return a.grid(u, a.slide) }

func (a *assigner) grid(u, by int64) int64 {
	return sub(u, floorMod(floorMod(u, by)-floorMod(a.offset, by), by))
}

// windows appends the windows that hold ms, latest start first.
func (a *assigner) windows(ms int64, dst []span) []span {
	switch a.kind {
	case operators.WindowTumbling:
		if a.part > 0 {
			return append(dst, a.zone.part(ms, a.part))
		}
		s := a.down(a.unit(ms))
		return append(dst, a.span(s, a.size))
	case operators.WindowSliding:
		u := a.unit(ms)
		for s := a.down(u); s > sub(u, a.size); s -= a.slide {
			dst = append(dst, a.span(s, a.size))
			if s < math.MinInt64+a.slide {
				break
			}
		}
	case operators.WindowCumulate:
		base := a.grid(ms, a.size)
		for l := (ms-base)/a.slide*a.slide + a.slide; l <= a.size; l += a.slide {
			dst = append(dst, span{base, add(base, l)})
		}
	default:
		return append(dst, everything)
	}
	return dst
}

func (a *assigner) span(s, size int64) span { return span{a.at(s), a.at(add(s, size))} }

// Slices: every window of a sliding or cumulating shape is a run of whole slices, so what several windows
// share is folded once.

// slice is the start of the slice that holds ms, in units.
func (a *assigner) slice(ms int64) int64 {
	u := a.unit(ms)
	s := a.down(u)
	if a.kind == operators.WindowSliding && a.cut > 0 && u-s >= a.cut {
		return s + a.cut
	}
	return s
}

// nextEnd is the end, in units, of the first window that holds slice u and is not over at watermark wm.
func (a *assigner) nextEnd(u, wm int64) (int64, bool) {
	over := a.unit(add(wm, 1)) // a window ending here or before is over
	if a.kind == operators.WindowCumulate {
		base := a.grid(u, a.size)
		e := add(max(a.down(u), a.down(max(over, base))), a.slide)
		return e, e <= add(base, a.size)
	}
	s := max(a.down(sub(u, a.size)), a.down(sub(over, a.size))) + a.slide
	return add(s, a.size), s <= u
}

// lastEnd is the end of the last window that holds slice u.
func (a *assigner) lastEnd(u int64) int64 {
	if a.kind == operators.WindowCumulate {
		return add(a.grid(u, a.size), a.size)
	}
	return add(a.down(u), a.size)
}

// ending is the start, in units, of the window that ends at e.
func (a *assigner) ending(e int64) int64 {
	if a.kind == operators.WindowCumulate {
		return a.grid(e-1, a.size)
	}
	return sub(e, a.size)
}
