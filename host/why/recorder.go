package why

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// recorder notes the steps of one guest operator that wanted says yes to. It implements guestop.Observer and
// noter.
type recorder struct {
	node     *operators.Node
	describe func(abi.Position) string
	wanted   func(f abi.Frame, timer bool) bool
	// found is called with each output of a wanted step: whether it is the one; then came, and when the step
	// is noted end.
	found func(f abi.Frame) bool
	came  func(cause abi.Frame)
	end   func()
	most  int // steps kept, the last ones

	total  int64
	steps  []*Step
	input  *format.RowEncoder
	output *format.RowEncoder
	values []schema.Codec // by state
	ukeys  []schema.Codec
}

var be = binary.BigEndian

func newRecorder(n *operators.Node, most int) (*recorder, error) {
	fn := n.Guest.Fn
	r := &recorder{node: n, most: most}
	if len(fn.Input) > 0 {
		r.input = format.NewRowEncoder(fn.Input)
	}
	if len(fn.Output) > 0 {
		r.output = format.NewRowEncoder(fn.Output)
	}
	for i := range fn.States {
		d := &fn.States[i]
		v, err := schema.Compile(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("operator %s: schema of state %s: %w", n.ID, d.Name, err)
		}
		k, err := schema.Compile(d.KeySchema)
		if err != nil {
			return nil, fmt.Errorf("operator %s: schema of the entries of state %s: %w", n.ID, d.Name, err)
		}
		r.values, r.ukeys = append(r.values, v), append(r.ukeys, k)
	}
	return r, nil
}

// Call implements guestop.Observer. A wanted record has a call of its own; timers may share one.
func (r *recorder) Call(c *guestop.Call) error {
	timer := c.Kind != abi.KindRecords
	var steps []*Step // by record of the call, nil: not wanted
	for i := range c.Len() {
		if r.wanted(c.Record(i), timer) {
			if steps == nil {
				steps = make([]*Step, c.Len())
			}
			steps[i] = r.step(c.Kind, c.Record(i))
		}
	}
	if steps == nil {
		return nil
	}
	if len(steps) == 1 {
		steps[0].Fuel = c.Fuel
	}
	if err := r.effects(c, steps); err != nil {
		return err
	}
	for i, f := range c.Outputs {
		if s := steps[i]; s != nil {
			o := r.outputOf(f)
			if o.This = r.found(f); o.This {
				r.came(c.Record(i))
			}
			s.Outputs = append(s.Outputs, o)
		}
	}
	for _, s := range steps {
		if s == nil {
			continue
		}
		r.add(s)
		if slices.ContainsFunc(s.Outputs, func(o Output) bool { return o.This }) {
			r.end()
			break
		}
	}
	return nil
}

// effects notes what the records of a call did to state and timers, and what they said.
func (r *recorder) effects(c *guestop.Call, steps []*Step) error {
	if err := c.Changes(func(ch guestop.Change) error {
		if s := steps[ch.Record]; s != nil {
			if x, ok := r.change(&ch); ok {
				s.State = append(s.State, x)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for t := range c.Timers {
		if s := steps[t.Record]; s != nil {
			s.Timers = append(s.Timers, Timer{Domain: domainName(t.Domain), Name: text(t.Name), At: t.At, Delete: t.Delete})
		}
	}
	for l := range c.Logs {
		if l.Record >= 0 && steps[l.Record] != nil {
			steps[l.Record].Logs = append(steps[l.Record].Logs, string(l.Text))
		}
	}
	for i, t := range c.Failures {
		if steps[i] != nil {
			steps[i].Failed = t
		}
	}
	return nil
}

// Failed implements guestop.Observer: what the guest said of itself is in its call.
func (r *recorder) Failed(kind uint32, f abi.Frame, fault *guestop.Fault) {
	if fault.Kind == guestop.FaultReturned || !r.wanted(f, kind != abi.KindRecords) {
		return
	}
	s := r.step(kind, f)
	s.Failed = string(fault.Kind) + ": " + fault.Message
	r.add(s)
}

// Host implements guestop.Observer.
func (r *recorder) Host(*guestop.HostCall) {}

func (r *recorder) add(s *Step) {
	r.total++
	s.Number = r.total
	if r.steps = append(r.steps, s); r.most > 0 && len(r.steps) > 2*r.most {
		r.steps = append(r.steps[:0], r.steps[len(r.steps)-r.most:]...)
	}
}

// told is the steps that are kept, and how many came before them.
func (r *recorder) told() (steps []*Step, left int) {
	if r.most > 0 && len(r.steps) > r.most {
		r.steps = r.steps[len(r.steps)-r.most:]
	}
	return r.steps, int(r.total) - len(r.steps)
}

func (r *recorder) step(kind uint32, f abi.Frame) *Step {
	s := &Step{}
	if kind != abi.KindRecords {
		d := state.Domain(abi.DomainEvent)
		if kind == abi.KindProcessingTimers {
			d = abi.DomainProcessing
		}
		s.Timer = &Timer{Domain: domainName(d), Name: text(f.Value()), At: f.Time()}
		return s
	}
	s.Input, s.Time = rowOf(r.input, f.Value()), timeOf(f)
	if p := f.Pos(); p != abi.NoPosition {
		s.Split, s.Offset, s.Position = &p.Split, &p.Offset, r.describe(p)
	}
	return s
}

func (r *recorder) outputOf(f abi.Frame) Output {
	o := Output{Key: text(f.Key()), Time: timeOf(f)}
	if n := int(f.Output()); n > 0 && n <= len(r.node.Guest.Fn.Outputs) {
		o.Output = r.node.Guest.Fn.Outputs[n-1]
		o.Value = rowOf(nil, f.Value())
		return o
	}
	o.Value = rowOf(r.output, f.Value())
	return o
}

// change is an entry as people see it; ok false: it is the bookkeeping of a list, or nothing changed.
func (r *recorder) change(c *guestop.Change) (out Change, ok bool) {
	d := &r.node.Guest.Fn.States[c.State]
	if (c.Old == nil) == (c.New == nil) && bytes.Equal(c.Old, c.New) {
		return out, false
	}
	out.State = d.Name
	switch d.Kind {
	case abi.StateList:
		if !guestop.IsListItem(c.UKey) {
			return out, false
		}
		out.Entry = strconv.AppendUint(nil, be.Uint64(c.UKey[1:]), 10)
	case abi.StateMap:
		out.Entry = decoded(r.ukeys[c.State], c.UKey)
	}
	if c.Old != nil {
		out.Old = decoded(r.values[c.State], c.Old)
	}
	if c.New != nil {
		out.New = decoded(r.values[c.State], c.New)
	}
	return out, true
}

// decoded shows bytes by a schema, or as they are where they don't fit it.
func decoded(c schema.Codec, b []byte) json.RawMessage {
	out, err := c.AppendJSON(nil, b)
	if err != nil {
		return text(b)
	}
	return out
}

// text shows bytes of no known form; nil is null.
func text(b []byte) json.RawMessage {
	if b == nil {
		return json.RawMessage("null")
	}
	out, _ := schema.Raw{}.AppendJSON(nil, b) // never fails
	return out
}

// rowOf shows a value: a row by its encoder, JSON as it is, other bytes as text.
func rowOf(e *format.RowEncoder, v []byte) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	if e != nil {
		if out, err := e.Append(nil, v); err == nil {
			return out
		}
	}
	if json.Valid(v) {
		return bytes.Clone(v)
	}
	return text(v)
}

func timeOf(f abi.Frame) *int64 {
	t := f.Time()
	if t == abi.NoTime {
		return nil
	}
	return &t
}

func domainName(d state.Domain) string {
	if d == abi.DomainProcessing {
		return abi.DomainNameProcessing
	}
	return "event"
}
