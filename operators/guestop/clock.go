package guestop

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// UsesClock implements operators.ClockUser: the function takes the clock for its time, or has timers or state
// that go by it. Also before Open. A function that only reads the processing time of its call is not counted: the SDKs
// say that it is another one in a replay.
func (o *Op) UsesClock() bool {
	fn := o.fn
	return o.node.Clock == operators.TimeProcessing || slices.Contains(fn.Timers, abi.DomainNameProcessing) ||
		slices.ContainsFunc(fn.States, func(d abi.StateDescriptor) bool { return ttlOf(d).MS > 0 && ttlOf(d).Domain == abi.DomainProcessing })
}
