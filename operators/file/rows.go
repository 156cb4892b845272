package file

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// csvSplit reads CSV records; offsets are bytes.
type csvSplit struct {
	in    *operators.Intake
	num   int
	index uint32
	src   io.ReaderAt
	dec   *format.CSV
	rec   abi.Record
}

func (r *csvSplit) read(b *abi.Batch, max int) (bool, error) {
	for n := 0; n < max && !b.Full(max); n++ {
		at := r.dec.Offset()
		err := r.dec.Next(&r.rec)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		r.rec.Pos = abi.Position{Split: r.index, Offset: uint64(at)}
		var raw []byte
		if err != nil && !errors.Is(err, format.ErrNullKey) {
			raw = r.bytes(at, r.dec.Offset())
		}
		if err := r.in.Decoded(b, r.num, &r.rec, raw, err); err != nil {
			return false, err
		}
	}
	return false, nil
}

// bytes is the text of a record that could not be read, for its dead letter.
func (r *csvSplit) bytes(from, to int64) []byte {
	raw := make([]byte, min(to-from, abi.MaxRecordBytes))
	n, _ := r.src.ReadAt(raw, from) // as much as can be had
	raw = raw[:n]
	for len(raw) > 0 && (raw[len(raw)-1] == '\n' || raw[len(raw)-1] == '\r') {
		raw = raw[:len(raw)-1]
	}
	return raw
}

func (r *csvSplit) offset() int64 { return r.dec.Offset() }
func (r *csvSplit) close() error  { return nil }

// parquetSplit reads Parquet rows; offsets are row numbers from 0.
type parquetSplit struct {
	in    *operators.Intake
	num   int
	index uint32
	dec   *format.Parquet
	rec   abi.Record
}

func (r *parquetSplit) read(b *abi.Batch, max int) (bool, error) {
	for n := 0; n < max && !b.Full(max); n++ {
		at := r.dec.Row()
		err := r.dec.Next(&r.rec)
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if errors.Is(err, format.ErrFile) {
			return false, err
		}
		r.rec.Pos = abi.Position{Split: r.index, Offset: uint64(at)}
		if err := r.in.Decoded(b, r.num, &r.rec, nil, err); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *parquetSplit) offset() int64 { return r.dec.Row() }
func (r *parquetSplit) close() error  { return r.dec.Close() }

// binarySplit reads record frames back to back; offsets are bytes. The frames' own positions are
// replaced.
type binarySplit struct {
	in    *operators.Intake
	num   int
	index uint32
	r     *bufio.Reader
	at    int64
	buf   []byte
}

func newBinarySplit(src io.ReaderAt, offset, size int64) *binarySplit {
	return &binarySplit{r: bufio.NewReaderSize(io.NewSectionReader(src, offset, size-offset), blockBytes), at: offset}
}

// maxFrame is a record at its limit with key and headers.
const maxFrame = abi.MaxRecordBytes + abi.FrameHeader

func (r *binarySplit) read(b *abi.Batch, max int) (bool, error) {
	for n := 0; n < max && !b.Full(max); n++ {
		var head [4]byte
		if _, err := io.ReadFull(r.r, head[:]); errors.Is(err, io.EOF) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("frame at byte %d: %w", r.at, err)
		}
		size := int(binary.LittleEndian.Uint32(head[:]))
		if size < abi.FrameHeader || size > maxFrame {
			return false, fmt.Errorf("%w: frame at byte %d of %d bytes", abi.ErrFrame, r.at, size)
		}
		r.buf = append(r.buf[:0], head[:]...)
		r.buf = append(r.buf, make([]byte, size-4)...)
		if _, err := io.ReadFull(r.r, r.buf[4:]); err != nil {
			return false, fmt.Errorf("frame at byte %d: %w", r.at, err)
		}
		f, _, err := abi.NextFrame(r.buf)
		if err != nil {
			return false, fmt.Errorf("frame at byte %d: %w", r.at, err)
		}
		rec := f.Record()
		rec.Pos = abi.Position{Split: r.index, Offset: uint64(r.at)}
		rec.Output, rec.Cause = 0, 0
		r.at += int64(size)
		if err := r.in.Decoded(b, r.num, &rec, nil, nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *binarySplit) offset() int64 { return r.at }
func (r *binarySplit) close() error  { return nil }
