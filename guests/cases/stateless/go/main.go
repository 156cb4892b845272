// Filter and map for throughput: drops a quarter of the records, rewrites the rest.
//
// The value begins with a u64, little endian. Records where it is a multiple of 4, and those with fewer than 8
// bytes, are dropped; of the others it becomes n * 3 + 1, wrapping, and the rest stays.
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

func passes(v []byte) bool { return len(v) >= 8 && v[0]%4 != 0 }

var number [8]byte

func filterMap(ctx *millrace.Ctx, rec millrace.Record) error {
	v := rec.Value()
	if !passes(v) {
		return nil
	}
	binary.LittleEndian.PutUint64(number[:], binary.LittleEndian.Uint64(v)*3+1)
	return ctx.Emit().Parts(number[:], v[8:])
}

func keep(_ *millrace.Ctx, rec millrace.Record) (bool, error) { return passes(rec.Value()), nil }

func main() {}
