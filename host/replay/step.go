package replay

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state/schema"
)

// Step is one record, or timer, that a guest operator did, with everything that came of it. It is serialisable.
type Step struct {
	Operator string        `json:"operator"`
	Task     int           `json:"task"`
	Position string        `json:"position"` // of a timer: its name, key and time
	Key      string        `json:"key,omitempty"`
	Time     *int64        `json:"time,omitempty"` // event time, or the timer's; ms
	Input    string        `json:"input,omitempty"`
	Calls    []string      `json:"calls,omitempty"` // host calls, in order, with what they answered
	State    []EntryDetail `json:"state,omitempty"` // entries that were written
	Timers   []string      `json:"timers,omitempty"`
	Outputs  []Detail      `json:"outputs,omitempty"` // in After
	Logs     []string      `json:"logs,omitempty"`
	Failed   string        `json:"failed,omitempty"`
	Fuel     int64         `json:"fuel"`
}

// stepper tells every step of an operator in one task. It implements guestop.Observer.
type stepper struct {
	node     *operators.Node
	task     int
	describe func(abi.Position) string
	show     *shower
	input    *format.RowEncoder // nil: raw
	wanted   func(key []byte) bool
	tell     func(*Step)
	calls    []string
}

// NewStepper makes an Options.Observe that tells every record and timer, by one goroutine at a time where tell sees to that;
// with keys only theirs. It needs Options.Batch 1, and Trace to show host calls.
func NewStepper(g *operators.Graph, keys []string, tell func(*Step)) func(n *operators.Node, task int, describe func(abi.Position) string) guestop.Observer {
	o := Options{Keys: keys}
	return func(n *operators.Node, task int, describe func(abi.Position) string) guestop.Observer {
		show, err := newShower(g, n, n.Guest.Fn, n.Guest.Fn)
		if err != nil { // a schema that the job has compiled already
			return nil
		}
		s := &stepper{node: n, task: task, describe: describe, show: show, wanted: o.chosen, tell: tell}
		if len(n.Guest.Fn.Input) > 0 {
			s.input = format.NewRowEncoder(n.Guest.Fn.Input)
		}
		return s
	}
}

func (s *stepper) step(kind uint32, f abi.Frame) *Step {
	x := &Step{Operator: s.node.ID, Task: s.task, Key: s.show.key(f.Key()), Calls: s.calls}
	s.calls = nil
	if t := f.Time(); t != abi.NoTime {
		x.Time = &t
	}
	if kind != abi.KindRecords {
		x.Position = timerText(kind, string(f.Value()), x.Key, f.Time())
		return x
	}
	x.Position, x.Input = s.describe(f.Pos()), s.value(f)
	return x
}

func (s *stepper) value(f abi.Frame) string {
	v := f.Value()
	if v == nil {
		return "null"
	}
	if s.input != nil {
		if out, err := s.input.Append(nil, v); err == nil {
			return string(out)
		}
	}
	return plain(v)
}

// Call implements guestop.Observer.
func (s *stepper) Call(c *guestop.Call) error {
	if c.Len() != 1 { // a round of timers, of one key each
		return s.round(c)
	}
	f := c.Record(0)
	if !s.wanted(f.Key()) {
		s.calls = nil
		return nil
	}
	x := s.step(c.Kind, f)
	x.Fuel = c.Billed
	for _, text := range c.Failures {
		x.Failed = text
	}
	return s.effects(c, func(int) *Step { return x }, []*Step{x})
}

// round tells timers that fired together.
func (s *stepper) round(c *guestop.Call) error {
	steps := make([]*Step, c.Len())
	var all []*Step
	calls := s.calls
	s.calls = nil
	for i := range steps {
		if f := c.Record(i); s.wanted(f.Key()) {
			steps[i] = s.step(c.Kind, f)
			all = append(all, steps[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	all[0].Calls = calls
	all[0].Fuel = c.Billed
	for i, text := range c.Failures {
		if steps[i] != nil {
			steps[i].Failed = text
		}
	}
	return s.effects(c, func(i int) *Step { return steps[i] }, all)
}

// effects gives each step what it did, and tells them.
func (s *stepper) effects(c *guestop.Call, of func(int) *Step, all []*Step) error {
	for i, f := range c.Outputs {
		if x := of(i); x != nil {
			x.Outputs = append(x.Outputs, Detail{Kind: KindOutput, Of: s.show.old.outputName(f), After: s.show.old.frame(f)})
		}
	}
	for t := range c.Timers {
		x := of(t.Record)
		if x == nil {
			continue
		}
		what := "set for " + timeText(t.At)
		if t.Delete {
			what = "deleted"
		}
		x.Timers = append(x.Timers, fmt.Sprintf("%s timer %s %s", domainName(t.Domain), plain(t.Name), what))
	}
	for l := range c.Logs {
		if x := of(l.Record); x != nil {
			x.Logs = append(x.Logs, string(l.Text))
		}
	}
	err := c.Changes(func(ch guestop.Change) error {
		x := of(ch.Record)
		if x == nil || equal(ch.Old, ch.New) {
			return nil
		}
		d := s.show.old
		x.State = append(x.State, EntryDetail{Key: x.Key, Of: d.entry(ch.State, ch.UKey), Before: d.value(ch.State, ch.Old), After: d.value(ch.State, ch.New)})
		return nil
	})
	if err != nil {
		return err
	}
	for _, x := range all {
		s.tell(x)
	}
	return nil
}

// Failed implements guestop.Observer.
func (s *stepper) Failed(kind uint32, f abi.Frame, fault *guestop.Fault) {
	if fault.Kind == guestop.FaultReturned || !s.wanted(f.Key()) {
		return
	}
	x := s.step(kind, f)
	x.Input = ""
	x.Failed = string(fault.Kind) + ": " + fault.Message
	s.tell(x)
}

// Host implements guestop.Observer.
func (s *stepper) Host(h *guestop.HostCall) {
	var b strings.Builder
	b.WriteString(h.Name)
	d := s.show.old
	if h.State >= 0 && d.fn != nil && h.State < len(d.fn.States) {
		b.WriteString(" " + d.fn.States[h.State].Name)
		if h.Arg != nil && d.fn.States[h.State].Kind == abi.StateMap {
			b.WriteString("[" + decoded(d.ukeys[h.State], h.Arg) + "]")
		}
	} else if h.Arg != nil {
		b.WriteString(" " + plain(h.Arg))
	}
	switch h.Name {
	case "get", "put", "append":
		if h.Value != nil {
			b.WriteString(" " + d.value(h.State, h.Value))
		}
	case "emit":
		b.WriteString(" " + d.frame(abi.Frame(bytes.Clone(h.Value))))
	case "random":
		out, _ := schema.Raw{}.AppendJSON(nil, h.Value) // never fails
		b.Write(out)
	case "timer_set", "now":
		b.WriteString(" " + timeText(h.Number))
	case "count":
		b.WriteString(" " + strconv.FormatInt(h.Number, 10))
	}
	if h.Status != abi.StatusOK {
		fmt.Fprintf(&b, " -> %v", h.Status)
	}
	s.calls = append(s.calls, b.String())
}
