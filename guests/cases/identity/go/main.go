// Gives each record back as it came: null, empty and absent, headers, times and operations included.
package main

import millrace "github.com/millrace-io/millrace/sdk/go"

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "identity", Functions: []millrace.Function{
	{Name: "identity", Kind: millrace.Map, OnRecord: pass},
	{Name: "keyed_identity", Kind: millrace.Process, Keyed: true, OnRecord: pass},
}})

func pass(ctx *millrace.Ctx, rec millrace.Record) error { return ctx.Forward(rec) }

func main() {}
