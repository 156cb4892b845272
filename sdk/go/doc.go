// Package millrace writes Millrace functions in Go: keyed state, event time and timers, run by a
// Millrace pipeline inside a WebAssembly sandbox.
//
//	var total = millrace.NewValue("total", millrace.Uint64Value)
//
//	var Module = millrace.Register(millrace.Module{
//		Name: "wordcount",
//		Functions: []millrace.Function{{
//			Name: "count", Kind: millrace.Process, Keyed: true,
//			States:   []millrace.State{total},
//			OnRecord: count,
//		}},
//	})
//
//	func count(ctx *millrace.Ctx, word millrace.Record) error {
//		n, _, err := total.Get(ctx)
//		if err != nil {
//			return err
//		}
//		if err := total.Set(ctx, n+1); err != nil {
//			return err
//		}
//		return ctx.Emit().JSON().Bytes("word", word.Key()).Uint("count", n+1).Send()
//	}
//
//	func main() {}
//
// Build: GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o wordcount.wasm. Test natively with
// [NewHarness].
//
// What holds for each record: its effects (outputs, state, timers, logs, counters) count together or not
// at all. A function that returns an error leaves none, and the record goes to the operator's error
// policy; a panic does the same, at the price of a new instance. State belongs to the current key.
// Package variables are not state, for the host may replace an instance at any time, unless the module
// says [Module].Memory.
//
// Slices and records that a callback gets are valid until it returns. Nothing here allocates per record,
// but Text and the decoders of strings copy.
package millrace
