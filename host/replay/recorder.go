package replay

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// span is a part of a recorder's bytes; hi 0: there is nothing, which is another thing than no bytes.
type span struct{ lo, hi int }

// step is a record or timer that a version did.
type step struct {
	kind uint32 // abi.KindRecords, KindEventTimers, KindProcessingTimers
	pos  abi.Position
	time int64
	key  span
	name span // of a timer
	fail span // what it failed with
}

// emitted is an output of a step.
type emitted struct {
	step  int
	frame span // without its number in the call
}

// wrote is an entry of state that a step wrote last.
type wrote struct {
	step     int
	state    int
	key      span
	ukey     span
	old, now span
}

// moved is a timer that a step set or deleted.
type moved struct {
	step   int
	domain state.Domain
	key    span
	name   span
	at     int64
	del    bool
}

// work is a call: which steps, and what they cost.
type work struct {
	from, n int
	fuel    int64
}

// recorder notes what one version did with one batch. It implements guestop.Observer. All it keeps is reused.
type recorder struct {
	bytes  []byte
	steps  []step
	outs   []emitted
	states []wrote
	timers []moved
	calls  []work
}

func (r *recorder) reset() {
	r.bytes, r.steps, r.outs, r.states = r.bytes[:0], r.steps[:0], r.outs[:0], r.states[:0]
	r.timers, r.calls = r.timers[:0], r.calls[:0]
}

// keep copies bytes; nil stays nothing.
func (r *recorder) keep(b []byte) span {
	if b == nil {
		return span{}
	}
	r.bytes = append(r.bytes, 0) // so that hi is never 0 of what is there
	lo := len(r.bytes)
	r.bytes = append(r.bytes, b...)
	return span{lo, len(r.bytes)}
}

// at is what was kept, nil: nothing.
func (r *recorder) at(s span) []byte {
	if s.hi == 0 {
		return nil
	}
	return r.bytes[s.lo:s.hi:s.hi]
}

func (r *recorder) begin(kind uint32, f abi.Frame) {
	s := step{kind: kind, pos: f.Pos(), time: f.Time(), key: r.keep(f.Key())}
	if kind != abi.KindRecords {
		s.name = r.keep(f.Value())
	}
	r.steps = append(r.steps, s)
}

// Call implements guestop.Observer.
func (r *recorder) Call(c *guestop.Call) error {
	first := len(r.steps)
	for i := range c.Len() {
		r.begin(c.Kind, c.Record(i))
	}
	r.calls = append(r.calls, work{first, c.Len(), c.Billed})
	for i, f := range c.Outputs {
		at := r.keep(f)
		binary.LittleEndian.PutUint32(r.bytes[at.lo+abi.FrameCause:], 0)
		r.outs = append(r.outs, emitted{first + i, at})
	}
	for i, text := range c.Failures {
		r.steps[first+i].fail = r.keep([]byte(text))
	}
	for t := range c.Timers {
		r.timers = append(r.timers, moved{first + t.Record, t.Domain, r.keep(t.Key.Bytes), r.keep(t.Name), t.At, t.Delete})
	}
	return c.Changes(func(ch guestop.Change) error {
		r.states = append(r.states, wrote{first + ch.Record, ch.State, r.keep(ch.Key.Bytes), r.keep(ch.UKey), r.keep(ch.Old), r.keep(ch.New)})
		return nil
	})
}

// Failed implements guestop.Observer. What the guest said of itself was in its call.
func (r *recorder) Failed(kind uint32, f abi.Frame, fault *guestop.Fault) {
	if fault.Kind == guestop.FaultReturned {
		return
	}
	r.begin(kind, f)
	r.steps[len(r.steps)-1].fail = r.keep([]byte(string(fault.Kind) + ": " + fault.Message))
}

// Host implements guestop.Observer.
func (r *recorder) Host(*guestop.HostCall) {}

// same says that two versions did the same, in calls of the same records.
func (r *recorder) same(o *recorder) bool {
	return bytes.Equal(r.bytes, o.bytes) && slices.Equal(r.steps, o.steps) && slices.Equal(r.outs, o.outs) &&
		slices.Equal(r.states, o.states) && slices.Equal(r.timers, o.timers)
}

// outputs are those of a step, in order.
func (r *recorder) outputs(step int) (fs []abi.Frame) {
	for _, o := range r.outs {
		if o.step == step {
			fs = append(fs, abi.Frame(r.at(o.frame)))
		}
	}
	return fs
}
