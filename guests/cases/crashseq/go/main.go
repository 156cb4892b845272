// What crash runs check: per key, how many records came and the xor of their numbers. A record lost or
// counted twice shows in every later output of its key.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// Seen is what is kept per key.
type Seen struct{ Count, Xor uint64 }

var (
	input  = []millrace.Field{{Name: "key", Type: millrace.String}, {Name: "n", Type: millrace.Int64}}
	ofText = millrace.NewValue("seen", millrace.Struct[Seen]())
	ofRows = millrace.NewValue("seen", millrace.Struct[Seen]())
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "crashseq", Functions: []millrace.Function{
	{Name: "crashseq", Kind: millrace.Process, Keyed: true, States: []millrace.State{ofText}, OnRecord: fromText},
	{Name: "count", Kind: millrace.Process, Keyed: true, Input: input, States: []millrace.State{ofRows}, OnRecord: fromRow},
}})

// fromText takes "key n".
func fromText(ctx *millrace.Ctx, rec millrace.Record) error {
	key, number, ok := bytes.Cut(rec.Value(), []byte(" "))
	if !ok {
		return fmt.Errorf("value %q, expected \"key n\"", rec.Value())
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(number)), 10, 64)
	if err != nil {
		return err
	}
	return update(ctx, ofText, key, n)
}

func fromRow(ctx *millrace.Ctx, rec millrace.Record) error {
	row, err := rec.Row(len(input))
	if err != nil {
		return err
	}
	key, ok := row.Bytes(0)
	n, ok2 := row.Int(1)
	if !ok || !ok2 {
		return errors.New("key or n is null")
	}
	return update(ctx, ofRows, key, uint64(n))
}

func update(ctx *millrace.Ctx, seen *millrace.Value[Seen], key []byte, n uint64) error {
	s, _, err := seen.Get(ctx)
	if err != nil {
		return err
	}
	s.Count++
	s.Xor ^= n
	if err := seen.Set(ctx, s); err != nil {
		return err
	}
	return ctx.Emit().JSON().Bytes("key", key).Uint("count", s.Count).Uint("n", n).Uint("xor", s.Xor).Send()
}

func main() {}
