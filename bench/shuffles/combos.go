package main

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
)

// shape is a kind of window under a name, with the triggers that make sense for it.
type shape struct {
	name     string
	window   operators.WindowShape
	triggers []named
}

type named struct {
	name    string
	trigger operators.WindowTrigger
}

// shapes are the windows whose final results do not depend on the order of arrival. Count windows do, and so
// do windows by the clock, and those of an evictor: which records they hold is the order.
var shapes = []shape{
	{"tumbling", operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, bounded},
	{"sliding", operators.WindowShape{Type: operators.WindowSliding, Size: 12, Slide: 4}, bounded},
	{"sliding-uneven", operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 4, Offset: -1}, bounded},
	{"sliding-gaps", operators.WindowShape{Type: operators.WindowSliding, Size: 4, Slide: 10}, bounded},
	{"cumulate", operators.WindowShape{Type: operators.WindowCumulate, Size: 12, Step: 4, Offset: 1}, bounded},
	{"session", operators.WindowShape{Type: operators.WindowSession, Gap: 7}, bounded},
	{"session-dynamic", operators.WindowShape{Type: operators.WindowSession, GapField: "gap"}, bounded},
	{"global", operators.WindowShape{Type: operators.WindowGlobal}, endless},
}

// bounded are the triggers of windows with an end. All fire there: without, the last records of a window
// would be in no result.
var bounded = []named{
	{"end", operators.WindowTrigger{AtEnd: true}},
	{"every", operators.WindowTrigger{AtEnd: true, Every: 4}},
	{"every-changed", operators.WindowTrigger{AtEnd: true, Every: 3, IfChanged: true}},
	{"count", operators.WindowTrigger{AtEnd: true, Count: 3}},
	{"every-count", operators.WindowTrigger{AtEnd: true, Every: 5, IfChanged: true, Count: 2}},
	{"clock", operators.WindowTrigger{AtEnd: true, EveryClock: 9}},
	{"clock-changed", operators.WindowTrigger{AtEnd: true, EveryClock: 6, IfChanged: true}},
	{"timeout", operators.WindowTrigger{AtEnd: true, Timeout: 8}},
	{"timeout-reset-count", operators.WindowTrigger{AtEnd: true, Count: 4, Timeout: 5, TimeoutReset: true, TimeoutClear: true}},
	{"late", operators.WindowTrigger{AtEnd: true, LateEvery: 4}},
	{"every-late", operators.WindowTrigger{AtEnd: true, Every: 3, IfChanged: true, LateEvery: 5}},
}

// endless are those of the global window; all fire with the final watermark.
var endless = []named{
	{"end-of-stream", operators.WindowTrigger{EndOfStream: true}},
	{"every", operators.WindowTrigger{EndOfStream: true, Every: 7}},
	{"every-changed", operators.WindowTrigger{EndOfStream: true, Every: 6, IfChanged: true}},
	{"count", operators.WindowTrigger{EndOfStream: true, Count: 3}},
	{"clock", operators.WindowTrigger{EndOfStream: true, EveryClock: 9}},
	{"timeout", operators.WindowTrigger{EndOfStream: true, Timeout: 8}},
}

var accumulations = []string{operators.Accumulating, operators.Discarding, operators.Retracting}

// latenesses are the allowed ones, ms.
var latenesses = []int64{0, 15}

// fields are the columns of records: a number, and the gap of dynamic sessions.
var fields = []abi.Field{{Name: "v", Type: abi.TypeInt64}, {Name: "gap", Type: abi.TypeInt64}}

// combo is one combination of window, trigger, accumulation and lateness.
type combo struct {
	name   string
	number int
	shape  *shape
	node   operators.WindowNode
	clocks bool // the trigger goes by the clock
}

// combos are all combinations that the operator takes and whose name contains each of the words.
func combos(words []string) (cs []*combo) {
	n := 0
	for i := range shapes {
		s := &shapes[i]
		for _, tr := range s.triggers {
			for _, acc := range accumulations {
				for _, late := range latenesses {
					c := &combo{name: fmt.Sprintf("%s/%s/%s/%d", s.name, tr.name, acc, late), number: n, shape: s,
						clocks: tr.trigger.EveryClock > 0 || tr.trigger.Timeout > 0,
						node: operators.WindowNode{Window: s.window, Time: operators.TimeEvent, Trigger: tr.trigger, Accumulation: acc,
							Lateness: late, Late: true, Input: fields, Aggregates: aggregates(false)}}
					if window.Validate(&c.node) != nil { // late firings without lateness
						continue
					}
					n++
					if hasAll(c.name, words) {
						cs = append(cs, c)
					}
				}
			}
		}
	}
	return cs
}

func hasAll(name string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(name, w) {
			return false
		}
	}
	return true
}

// aggregates are those of a result; with contents, the window keeps its records too.
func aggregates(contents bool) []operators.WindowAggregate {
	as := []operators.WindowAggregate{{Name: "n", Kind: operators.AggCount}, {Name: "sum", Kind: operators.AggSum, Field: "v"},
		{Name: "min", Kind: operators.AggMin, Field: "v"}, {Name: "max", Kind: operators.AggMax, Field: "v"}}
	if contents {
		as = append(as, operators.WindowAggregate{Name: "all", Kind: operators.AggCollect, Field: "v"})
	}
	return as
}

// nodeFor is the combination's operator with the options of a seed: revisions, and kept records.
func (c *combo) nodeFor(seed uint64) *operators.WindowNode {
	w := c.node
	w.Revision = seed%2 == 1
	w.Aggregates = aggregates(seed%5 == 4)
	return &w
}
