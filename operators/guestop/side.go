package guestop

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// side is one code of an operator with what it takes to call it. While a canary is on there are two, over the
// same state; outside a call the one in force is in the operator.
type side struct {
	module  Module
	node    *operators.GuestNode
	fn      *abi.Function
	guest   Guest
	env     *env
	proj    *projection // nil: rows are as the function wants them
	blk     block
	states  []stateRef // by number in fn.States
	numbers []int      // of each in keyed
	pre     []prefetched
	trial   *Trial // nil: none under way
	stats   Stats
}

// bindAs connects a side's declared states, found by name among those of another side, to their stores.
func (o *Op) bindAs(was *side, preOf []int) {
	number := map[string]int{}
	for i, s := range was.states {
		number[s.desc.Name] = was.numbers[i]
	}
	o.numbers = make([]int, len(o.states))
	for i := range o.states {
		o.numbers[i] = number[o.states[i].desc.Name]
	}
	o.bindStates(preOf)
	o.env.op = o
	o.env.begin()
}

// bindStates connects the declared states to their stores, found by o.numbers.
func (o *Op) bindStates(preOf []int) {
	for p, i := range preOf {
		o.pre[p].value = o.keyed.Value(o.numbers[i])
	}
	for i := range o.states {
		r := &o.states[i]
		switch {
		case slices.Contains(preOf, i):
		case r.desc.Kind == abi.StateValue:
			r.value = o.keyed.Value(o.numbers[i])
		default:
			r.ordered = o.keyed.Ordered(o.numbers[i])
		}
	}
	o.bindRaw()
}

// add adds other counters.
func (s Stats) add(o Stats) Stats {
	return Stats{In: s.In + o.In, Out: s.Out + o.Out, Skipped: s.Skipped + o.Skipped, Dead: s.Dead + o.Dead, Timers: s.Timers + o.Timers,
		Calls: s.Calls + o.Calls, Faults: s.Faults + o.Faults, Resets: s.Resets + o.Resets, Fuel: s.Fuel + o.Fuel}
}

// total is what both sides counted.
func (o *Op) total() Stats {
	if o.canary == nil {
		return o.stats
	}
	return o.stats.add(o.canary.asleep.stats)
}
