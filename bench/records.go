package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/millrace-io/millrace/abi"
)

// The records of every throughput figure, so that natives and guests do the same work: a 12-byte key
// "k" + 11 digits, uniform over a number of keys, and an 80-byte value whose first 8 bytes are a
// little-endian u64, the amount; event time rises by 1 ms.
//
// The stateless work is filter then map: drop a record whose amount is divisible by 4 (a quarter of
// them), then write amount*3+1 in the amount's place. The keyed work is a running count per key: each
// record gives out its key and, as value, the key's count so far as a little-endian u64.
const (
	keyBytes   = 12
	valueBytes = 80
	benchSeed  = 20010101
)

// makeBatches makes n batches of size records.
func makeBatches(n, size, keys int) []*abi.Batch {
	rng := rand.New(rand.NewPCG(benchSeed, uint64(keys)))
	value := make([]byte, valueBytes)
	for i := range value {
		value[i] = byte(i)
	}
	batches := make([]*abi.Batch, n)
	ordinal := int64(0)
	for i := range batches {
		b := &abi.Batch{}
		for j := 0; j < size; j++ {
			binary.LittleEndian.PutUint64(value, rng.Uint64()>>16)
			key := fmt.Appendf(nil, "k%011d", rng.IntN(keys))
			b.Append(&abi.Record{Time: ordinal, Key: key, Value: value, Pos: abi.Position{Offset: uint64(ordinal)}})
			ordinal++
		}
		batches[i] = b
	}
	return batches
}

func countRecords(batches []*abi.Batch) (n int) {
	for _, b := range batches {
		n += b.Len()
	}
	return n
}
