// An authorised payment has to be settled within ten minutes, else an event-time timer raises an alert.
// Records are rows keyed by payment, in any order that the watermark allows.
package main

import (
	"errors"
	"fmt"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

const deadlineMS = 10 * 60 * 1000

// Payment is what is known of a payment, each half with whether it is known.
type Payment struct {
	Authorised bool
	At, Amount int64
	Settled    bool
	SettledAt  int64
}

func (p Payment) inTime() bool {
	after := p.SettledAt - p.At
	return p.Authorised && p.Settled && after >= 0 && after <= deadlineMS
}

var (
	input     = []millrace.Field{{Name: "kind", Type: millrace.String}, {Name: "amount", Type: millrace.Int64}}
	payment   = millrace.NewValue("payment", millrace.Struct[Payment]())
	unmatched = millrace.NewOutput("unmatched")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "deadline", Functions: []millrace.Function{{
	Name: "deadline", Kind: millrace.Process, Keyed: true, Input: input,
	SideOutputs: []*millrace.Output{unmatched},
	States:      []millrace.State{payment},
	Timers:      []millrace.Domain{millrace.EventTime},
	OnRecord:    onEvent,
	OnTimer:     onTimer,
}}})

func onEvent(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	p, _, err := payment.Get(ctx)
	if err != nil {
		return err
	}
	kind, ok := row.Str(0)
	if !ok {
		kind = "null"
	}
	switch {
	case kind == "authorised" && !p.Authorised:
		p.Authorised, p.At = true, rec.Time()
		p.Amount, _ = row.Int(1)
		err = ctx.SetTimer("deadline", p.At+deadlineMS)
	case kind == "settled" && !p.Settled:
		p.Settled, p.SettledAt = true, rec.Time()
		err = ctx.SetTimer("unmatched", p.SettledAt)
	default:
		err = fmt.Errorf("kind %q a second time, or neither authorised nor settled", kind)
	}
	if err != nil {
		return err
	}
	if !p.inTime() {
		return payment.Set(ctx, p)
	}
	return errors.Join(ctx.DeleteTimer("deadline", p.At+deadlineMS), ctx.DeleteTimer("unmatched", p.SettledAt), payment.Clear(ctx))
}

// onTimer ends the half whose time has come; the other one has its own timer.
func onTimer(ctx *millrace.Ctx, t millrace.Timer) error {
	p, ok, err := payment.Get(ctx)
	switch {
	case err != nil:
		return err
	case !ok:
		return errors.New("a timer of a payment that is not there")
	case t.Name() == "deadline":
		p.Authorised = false
		err = ctx.Emit().JSON().Bytes("payment", t.Key()).Int("amount", p.Amount).Int("authorised", p.At).Int("deadline", t.Time()).Send()
	default:
		p.Settled = false
		err = ctx.Emit().To(unmatched).JSON().Bytes("payment", t.Key()).Int("settled", p.SettledAt).Send()
	}
	if err != nil {
		return err
	}
	if p.Authorised || p.Settled {
		return payment.Set(ctx, p)
	}
	return payment.Clear(ctx)
}

func main() {}
