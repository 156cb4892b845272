package abi

import (
	"encoding/binary"
	"fmt"
)

// Limits of one batch. A record over MaxBatchBytes travels alone.
const (
	DefaultBatchRecords = 256
	MaxBatchRecords     = 1024
	MaxBatchBytes       = 128 << 10
)

// Watermark values with a meaning of their own.
const (
	MinWatermark int64 = -1 << 63
	MaxWatermark int64 = 1<<63 - 1 // end of input
)

// Mark is a watermark at a place in a batch: it holds from just before record Index on; Index equal to
// the number of records means after the last one. Marks are in order of Index, with rising Watermark.
type Mark struct {
	Index     uint32
	Watermark int64 // ms: no further record with event time <= Watermark is expected
}

// Batch is a run of record frames with the watermark marks between them. It is the one unit that
// moves through operators, exchanges and guest calls. A batch belongs to one goroutine at a time.
type Batch struct {
	Data  []byte   // frames back to back
	Off   []uint32 // offset in Data of each frame
	Hash  []uint64 // keyed streams: the key's hash of each record, else empty
	Marks []Mark
}

// Len is the number of records.
func (b *Batch) Len() int { return len(b.Off) }

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.Data, b.Off, b.Hash, b.Marks = b.Data[:0], b.Off[:0], b.Hash[:0], b.Marks[:0]
}

// Frame returns record i.
func (b *Batch) Frame(i int) Frame {
	s := b.Off[i]
	e := s + binary.LittleEndian.Uint32(b.Data[s:])
	return Frame(b.Data[s:e:e])
}

// Append encodes r at the end.
func (b *Batch) Append(r *Record) {
	b.Off = append(b.Off, uint32(len(b.Data)))
	b.Data = AppendRecord(b.Data, r)
}

// AppendFrame copies f to the end.
func (b *Batch) AppendFrame(f Frame) {
	b.Off = append(b.Off, uint32(len(b.Data)))
	b.Data = append(b.Data, f...)
}

// Mark adds a watermark after the last record. A value at or below the last mark's is dropped. One at the
// same place does not replace the one before it: batches end by the clock between the two or not, and what
// a timer sees as the watermark may not depend on that.
func (b *Batch) Mark(w int64) {
	if n := len(b.Marks); n > 0 && b.Marks[n-1].Watermark >= w {
		return
	}
	b.Marks = append(b.Marks, Mark{uint32(b.Len()), w})
}

// Full says whether the batch has reached maxRecords, MaxBatchBytes or as many marks as records are allowed.
func (b *Batch) Full(maxRecords int) bool {
	return len(b.Off) >= maxRecords || len(b.Data) >= MaxBatchBytes || len(b.Marks) >= MaxBatchRecords
}

// Empty says that the batch carries neither a record nor a mark.
func (b *Batch) Empty() bool { return len(b.Off) == 0 && len(b.Marks) == 0 }

// Check verifies every frame and mark; for tests and for batches that crossed a trust boundary.
func (b *Batch) Check() error {
	rest, at := b.Data, 0
	for i, off := range b.Off {
		if int(off) != at {
			return fmt.Errorf("%w: record %d at offset %d, expected %d", ErrFrame, i, off, at)
		}
		f, r, err := NextFrame(rest)
		if err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		rest, at = r, at+len(f)
	}
	if len(rest) != 0 {
		return fmt.Errorf("%w: %d bytes after the last record", ErrFrame, len(rest))
	}
	if len(b.Hash) != 0 && len(b.Hash) != len(b.Off) {
		return fmt.Errorf("%w: %d hashes for %d records", ErrFrame, len(b.Hash), len(b.Off))
	}
	for i, m := range b.Marks {
		if int(m.Index) > len(b.Off) || i > 0 && (m.Index < b.Marks[i-1].Index || m.Watermark <= b.Marks[i-1].Watermark) {
			return fmt.Errorf("%w: mark %d out of order or out of range", ErrFrame, i)
		}
	}
	return nil
}
