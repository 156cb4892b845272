package drive

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// command is a verb and, for most, one argument: ["register-event", 10].
type command []json.RawMessage

// line is the command as the guest reads it. JSON text without white space has no line break.
func (c command) line() (string, error) {
	var verb string
	if len(c) == 0 || len(c) > 2 || json.Unmarshal(c[0], &verb) != nil {
		return "", fmt.Errorf("command %s, expected a verb and at most one argument", c)
	}
	if len(c) == 1 {
		return verb + "\n", nil
	}
	return verb + " " + corpus.Canonical(c[1]) + "\n", nil
}

func lines(cs []command) (string, error) {
	var b strings.Builder
	for _, c := range cs {
		l, err := c.line()
		if err != nil {
			return "", err
		}
		b.WriteString(l)
	}
	return b.String(), nil
}

// timers is a keyed function that does with timers what its records say: the guest of that name.
func timers(text json.RawMessage) (*driven, error) {
	var o struct {
		Kind  string `json:"kind"`
		Keyed bool   `json:"keyed"`
		Rules []struct {
			Domain string    `json:"domain"`
			At     *int64    `json:"at"`
			Below  *int64    `json:"below"`
			Key    *string   `json:"key"`
			Do     []command `json:"do"`
		} `json:"on_timer"`
	}
	if err := strict(text, &o); err != nil {
		return nil, err
	}
	if !o.Keyed {
		return nil, fmt.Errorf("operator: a timers function that is not keyed")
	}
	var rules strings.Builder
	for _, r := range o.Rules {
		rules.WriteString("on " + r.Domain)
		if r.At != nil {
			fmt.Fprintf(&rules, " at %d", *r.At)
		}
		if r.Below != nil {
			fmt.Fprintf(&rules, " below %d", *r.Below)
		}
		if r.Key != nil {
			rules.WriteString(" key " + hex.EncodeToString([]byte(*r.Key)))
		}
		do, err := lines(r.Do)
		if err != nil {
			return nil, err
		}
		rules.WriteString("\n" + do)
	}
	return &driven{open: openTimers, record: func(r *corpus.Record) ([]byte, error) {
		var v struct {
			Do []command `json:"do"`
		}
		if err := json.Unmarshal(r.Value, &v); err != nil {
			return nil, err
		}
		do, err := lines(v.Do)
		return []byte(rules.String() + "\n" + do), err
	}}, nil
}

func openTimers(w *World, v Variant) (operators.Operator, error) {
	m := w.compiled[v.Interpreter]
	f := &m.Descriptor().Functions[0]
	return guestop.New(guestop.Config{Module: m, OpenKeyed: w.openKeyed, Node: &operators.Node{
		ID: "op", Kind: operators.NodeGuest, Parallelism: 1, Guest: &operators.GuestNode{Module: "timers", Function: f.Name,
			Kind: f.Kind, Keyed: f.Keyed, Fn: f, OnError: operators.ErrorPolicy{Policy: operators.PolicyStop}}}}), nil
}
