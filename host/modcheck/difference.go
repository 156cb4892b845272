package modcheck

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state/schema"
)

// difference is where t is not as base; nil: nowhere.
func (s *subject) difference(t, base *trace) *Difference {
	p, found := differs(t, base)
	if !found {
		if t.err != nil {
			return &Difference{What: fmt.Sprintf("ends early on %v", t.way), At: s.at(t, len(t.entries)), Got: t.err.Error(), Want: "it went on on " + base.way.String()}
		}
		return nil
	}
	d := &Difference{At: s.at(base, p.entry)}
	switch {
	case t.way.engine != "":
		d.What = "is not the same on two engines"
	case t.way.fresh && t.way.batch > 1:
		d.What, d.Hint = "gives something else when records come together in a call", "what a record leads to may not hang on which others are in its call"
	default:
		d.What, d.Hint = "keeps something between calls that is not state", "declare `snapshot: memory` or keep it in state"
	}
	got, want := "nothing more", "nothing more"
	if p.state != "" {
		got, want = s.held(t, p), s.held(base, p)
	} else {
		if p.entry < len(t.entries) {
			got = s.effects(&t.entries[p.entry])
		}
		if p.entry < len(base.entries) {
			want = s.effects(&base.entries[p.entry])
		}
	}
	d.Got, d.Want = fmt.Sprintf("%s on %v", got, t.way), fmt.Sprintf("%s on %v", want, base.way)
	return d
}

// unit is what the entries of a kind of function are.
func unit(kind string) string {
	switch abi.FunctionKind(kind) {
	case abi.FunctionAggregate:
		return "steps"
	case abi.FunctionWindow:
		return "windows"
	}
	return "records"
}

// at names an entry.
func (s *subject) at(t *trace, i int) string {
	if i >= len(t.entries) {
		return "the end"
	}
	e := &t.entries[i]
	if e.record < 0 {
		return e.timer
	}
	name := fmt.Sprintf("%s %d of %s", strings.TrimSuffix(unit(string(s.node.Fn.Kind)), "s"), e.record+1, s.sample.From)
	if unit(string(s.node.Fn.Kind)) != "records" || e.record >= len(s.sample.Records) {
		return name
	}
	r := &s.sample.Records[e.record]
	return fmt.Sprintf("%s (key %s, value %s)", name, text(r.Key), value(s.sample.Fields, r.Value))
}

// effects is what an entry led to, for people.
func (s *subject) effects(e *entry) string {
	if e.record < 0 && len(e.items) == 0 {
		return e.timer + " and no effects"
	}
	var parts []string
	for i := range e.items {
		parts = append(parts, s.effect(&e.items[i]))
	}
	if e.record < 0 {
		parts = append([]string{e.timer}, parts...)
	}
	if len(parts) == 0 {
		return "no output"
	}
	if len(parts) > 4 {
		parts = append(parts[:4], fmt.Sprintf("and %d more", len(parts)-4))
	}
	return strings.Join(parts, ", ")
}

var domains = []string{abi.DomainEvent: "event", abi.DomainProcessing: "processing"}

func (s *subject) effect(it *item) string {
	switch it.kind {
	case itemOutput:
		r := abi.Frame(it.data).Record()
		out, fields := "output", s.node.Fn.Output
		if it.number > 0 && it.number <= len(s.node.Fn.Outputs) {
			out, fields = "output "+s.node.Fn.Outputs[it.number-1], nil
		}
		return fmt.Sprintf("%s %s", out, value(fields, r.Value)) + keyAndTime(&r)
	case itemTimerSet:
		return fmt.Sprintf("timer %q of %s time for %d", it.data, domains[it.number], it.at)
	case itemTimerDeleted:
		return fmt.Sprintf("timer %q of %s time for %d deleted", it.data, domains[it.number], it.at)
	case itemWatermark:
		return fmt.Sprintf("watermark %d", it.at)
	}
	return "the failure " + clip(it.data)
}

func keyAndTime(r *abi.Record) string {
	if r.Time == abi.NoTime {
		return ""
	}
	return fmt.Sprintf(" (key %s, time %d)", text(r.Key), r.Time)
}

// held is what the state has under a name, for people.
func (s *subject) held(t *trace, p place) string {
	st := int(p.state[0])
	n, w := binary.Uvarint([]byte(p.state[1:]))
	key, ukey := p.state[1+w:1+w+int(n)], p.state[1+w+int(n):]
	d := &s.node.Fn.States[st]
	name := fmt.Sprintf("state %s of key %s", d.Name, text([]byte(key)))
	switch {
	case d.Kind == abi.StateMap:
		name += ", entry " + decoded(d.KeySchema, []byte(ukey))
	case d.Kind == abi.StateList && guestop.IsListItem([]byte(ukey)):
		name += ", an element"
	}
	v := t.stateAt(p.entry)[p.state]
	if v == nil {
		return name + " empty"
	}
	return name + " = " + decoded(d.Schema, v)
}

// decoded shows bytes by a schema, or as text.
func decoded(sc *abi.Schema, b []byte) string {
	if c, err := schema.Compile(sc); err == nil {
		if out, err := c.AppendJSON(nil, b); err == nil {
			return clip(string(out))
		}
	}
	return text(b)
}

// value shows a record's value.
func value(fields []abi.Field, v []byte) string {
	if v != nil && len(fields) > 0 {
		if out, err := format.NewRowEncoder(fields).Append(nil, v); err == nil {
			return clip(string(out))
		}
	}
	if json.Valid(v) {
		return clip(string(v))
	}
	return text(v)
}

func text(b []byte) string {
	if b == nil {
		return "null"
	}
	return clip(fmt.Sprintf("%q", b))
}

func clip(s string) string {
	const most = 160
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
