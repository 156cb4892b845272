// Keyed running count and sum, each update out: the module of the throughput measurements.
package main

import (
	"encoding/binary"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// Total is what is kept per key.
type Total struct {
	Count uint64
	Sum   int64
}

var (
	input  = []millrace.Field{{Name: "amount", Type: millrace.Int64}}
	ofRaw  = millrace.NewValue("total", millrace.Struct[Total]())
	ofRows = millrace.NewValue("total", millrace.Struct[Total]())
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "count", Functions: []millrace.Function{
	{Name: "count", Kind: millrace.Process, Keyed: true, States: []millrace.State{ofRaw}, OnRecord: addRaw},
	{Name: "count_row", Kind: millrace.Process, Keyed: true, Input: input, States: []millrace.State{ofRows}, OnRecord: addRow},
}})

func update(ctx *millrace.Ctx, total *millrace.Value[Total], amount int64) (Total, error) {
	t, _, err := total.Get(ctx)
	if err != nil {
		return t, err
	}
	t.Count++
	t.Sum += amount
	return t, total.Set(ctx, t)
}

var out [16]byte

// addRaw takes the value's first 8 bytes, little endian, as amount (0 if it is shorter); out go count and
// sum, 8 bytes each.
func addRaw(ctx *millrace.Ctx, rec millrace.Record) error {
	amount := int64(0)
	if v := rec.Value(); len(v) >= 8 {
		amount = int64(binary.LittleEndian.Uint64(v))
	}
	t, err := update(ctx, ofRaw, amount)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(out[:], t.Count)
	binary.LittleEndian.PutUint64(out[8:], uint64(t.Sum))
	return ctx.Emit().Value(out[:])
}

// addRow takes a column of the row as amount (null counts as 0); out goes a JSON line.
func addRow(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	amount, _ := row.Int(0)
	t, err := update(ctx, ofRows, amount)
	if err != nil {
		return err
	}
	return ctx.Emit().JSON().Bytes("key", rec.Key()).Uint("count", t.Count).Int("sum", t.Sum).Send()
}

func main() {}
