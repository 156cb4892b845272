// Drops records whose key was seen before, until the key has been silent for ten minutes.
package main

import millrace "github.com/millrace-io/millrace/sdk/go"

const silenceMS = 10 * 60 * 1000

var (
	expires    = millrace.NewValue("expires", millrace.Int64Value) // when the key is forgotten
	duplicates = millrace.NewOutput("duplicates")
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "dedup", Functions: []millrace.Function{{
	Name: "dedup", Kind: millrace.Process, Keyed: true,
	SideOutputs: []*millrace.Output{duplicates},
	States:      []millrace.State{expires},
	Timers:      []millrace.Domain{millrace.EventTime},
	OnRecord:    onRecord,
	OnTimer:     onTimer,
}}})

func onRecord(ctx *millrace.Ctx, rec millrace.Record) error {
	old, seen, err := expires.Get(ctx)
	if err != nil {
		return err
	}
	at := rec.Time() + silenceMS
	if seen && at > old {
		err = ctx.DeleteTimer("expire", old)
	}
	if err == nil && (!seen || at > old) {
		if err = expires.Set(ctx, at); err == nil {
			err = ctx.SetTimer("expire", at)
		}
	}
	if err != nil {
		return err
	}
	if seen {
		return ctx.ForwardTo(duplicates, rec)
	}
	return ctx.Forward(rec)
}

func onTimer(ctx *millrace.Ctx, _ millrace.Timer) error { return expires.Clear(ctx) }

func main() {}
