// Flights and mean delay per origin airport and UTC day, emitted when the day is over.
package main

import (
	"errors"
	"time"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

const dayMS = 24 * 60 * 60 * 1000

// Day is what is known of one day.
type Day struct{ Flights, Delay int64 }

var (
	input = []millrace.Field{{Name: "delay", Type: millrace.Int64}, {Name: "date", Type: millrace.Timestamp}}
	days  = millrace.NewMap("days", millrace.Int64Key, millrace.Struct[Day]()) // by day since 1970
	late  = millrace.NewOutput("late")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "flights", Functions: []millrace.Function{{
	Name: "flights", Kind: millrace.Process, Keyed: true, Input: input,
	SideOutputs: []*millrace.Output{late},
	States:      []millrace.State{days},
	Timers:      []millrace.Domain{millrace.EventTime},
	OnRecord:    onFlight,
	OnTimer:     onDayEnd,
}}})

// onFlight adds the flight to its day; several days are open at once. A flight of a day that is over is
// late.
func onFlight(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	date, ok := row.Time(1)
	if !ok {
		return errors.New("a flight without a date")
	}
	day := floorDiv(date, dayMS)
	last := (day+1)*dayMS - 1
	if last <= ctx.Watermark() {
		return ctx.ForwardTo(late, rec)
	}
	d, open, err := days.Get(ctx, day)
	if err == nil && !open {
		err = ctx.SetTimer("day", last)
	}
	if err != nil {
		return err
	}
	delay, _ := row.Int(0)
	return days.Put(ctx, day, Day{d.Flights + 1, d.Delay + delay})
}

func onDayEnd(ctx *millrace.Ctx, t millrace.Timer) error {
	day := floorDiv(t.Time(), dayMS)
	d, open, err := days.Get(ctx, day)
	if err == nil && !open {
		err = errors.New("a timer of a day without flights")
	}
	if err == nil {
		err = days.Remove(ctx, day)
	}
	if err != nil {
		return err
	}
	return ctx.Emit().JSON().Bytes("origin", t.Key()).Str("day", time.UnixMilli(t.Time()).UTC().Format(time.DateOnly)).
		Int("flights", d.Flights).Fixed("mean_delay", thousandths(d.Delay, d.Flights), 3).Send()
}

// thousandths is sum / n in thousandths, rounded half away from zero, in integers.
func thousandths(sum, n int64) int64 {
	if sum < 0 {
		return -thousandths(-sum, n)
	}
	return (2000*sum + n) / (2 * n)
}

func floorDiv(a, b int64) int64 {
	if a < 0 {
		return -((-a + b - 1) / b)
	}
	return a / b
}

func main() {}
