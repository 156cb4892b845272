// Filter and map for throughput: drops a quarter of the records, rewrites the rest.
//
// The value is u32 kind, u32 amount (little endian), payload. Records with kind % 4 == 3 or a value under 8
// bytes are dropped; the others go on with amount * 3 + 1, wrapping, and the same payload.
package main

import (
	"encoding/binary"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

// Module is what the program offers.
var Module = millrace.Register(millrace.Module{Name: "stateless", Functions: []millrace.Function{
	{Name: "filter_map", Kind: millrace.FlatMap, OnRecord: filterMap},
	{Name: "keep", Kind: millrace.Filter, Keep: keep},
}})

func passes(v []byte) bool { return len(v) >= 8 && v[0]%4 != 3 }

var amount [4]byte

func filterMap(ctx *millrace.Ctx, rec millrace.Record) error {
	v := rec.Value()
	if !passes(v) {
		return nil
	}
	binary.LittleEndian.PutUint32(amount[:], binary.LittleEndian.Uint32(v[4:])*3+1)
	return ctx.Emit().Parts(v[:4], amount[:], v[8:])
}

func keep(_ *millrace.Ctx, rec millrace.Record) (bool, error) { return passes(rec.Value()), nil }

func main() {}
