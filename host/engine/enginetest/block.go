// Package enginetest helps tests and measurements that drive a guest without an operator around it: call
// blocks made of records, and an Env that keeps what it is told.
package enginetest

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/abi"
)

// Block is a call block of the batch's records for a function, without keys, states and marks.
func Block(b *abi.Batch, function uint32) []byte {
	frames := (abi.BlockHeader + 4*b.Len() + 7) &^ 7
	block := make([]byte, frames, frames+len(b.Data))
	le := binary.LittleEndian
	le.PutUint32(block[abi.BlockN:], uint32(b.Len()))
	le.PutUint32(block[abi.BlockOffsets:], abi.BlockHeader)
	le.PutUint32(block[abi.BlockFunction:], function)
	le.PutUint64(block[abi.BlockWatermark:], 1<<63) // abi.MinWatermark
	for i, off := range b.Off {
		le.PutUint32(block[abi.BlockHeader+4*i:], uint32(frames)+off)
	}
	return append(block, b.Data...)
}

// Values is a batch of records with these values, at offsets 0, 1, ...
func Values(values ...string) *abi.Batch {
	b := &abi.Batch{}
	for i, v := range values {
		b.Append(&abi.Record{Time: int64(1000 + i), Value: []byte(v), Pos: abi.Position{Offset: uint64(i)}})
	}
	return b
}

// Frames takes output frames apart; it panics if they are malformed, as only a test may.
func Frames(out []byte) []abi.Record {
	var rs []abi.Record
	for len(out) > 0 {
		f, rest, err := abi.NextFrame(out)
		if err != nil {
			panic(err)
		}
		rs, out = append(rs, f.Record()), rest
	}
	return rs
}
