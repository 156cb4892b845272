// Payment fraud: a small payment, then a large one on the same card within a minute, is an alert. A timer
// ends the suspicion. Payments are rows, keyed by card; amounts are in cents.
package main

import (
	"fmt"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

const (
	small    = 100
	large    = 50_000
	windowMS = 60_000
)

// Probe is the latest small payment.
type Probe struct{ At, Amount int64 }

var (
	input   = []millrace.Field{{Name: "amount", Type: millrace.Int64}}
	probe   = millrace.NewValue("probe", millrace.Struct[Probe]())
	cleared = millrace.NewOutput("cleared")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "fraud", Functions: []millrace.Function{{
	Name: "fraud", Kind: millrace.Process, Keyed: true, Input: input,
	SideOutputs: []*millrace.Output{cleared},
	States:      []millrace.State{probe},
	Timers:      []millrace.Domain{millrace.EventTime},
	OnRecord:    onPayment,
	OnTimer:     onExpiry,
}}})

func onPayment(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	amount, ok := row.Int(0)
	if !ok {
		amount = -1
	}
	if amount < 0 {
		return fmt.Errorf("amount %d, expected cents from 0 on", amount)
	}
	p, suspect, err := probe.Get(ctx)
	switch after := rec.Time() - p.At; {
	case err != nil:
		return err
	case amount <= small:
		if suspect {
			if err := ctx.DeleteTimer("expire", p.At+windowMS); err != nil {
				return err
			}
		}
		if err := probe.Set(ctx, Probe{rec.Time(), amount}); err != nil {
			return err
		}
		return ctx.SetTimer("expire", rec.Time()+windowMS)
	case amount >= large && suspect && after >= 0 && after <= windowMS:
		return ctx.Emit().JSON().Bytes("card", rec.Key()).Int("small", p.Amount).Int("large", amount).
			Int("after_ms", after).Int("time", rec.Time()).Send()
	}
	return nil
}

func onExpiry(ctx *millrace.Ctx, t millrace.Timer) error {
	if err := probe.Clear(ctx); err != nil {
		return err
	}
	return ctx.Emit().To(cleared).JSON().Bytes("card", t.Key()).Int("time", t.Time()).Send()
}

func main() {}
