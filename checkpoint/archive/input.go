package archive

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Input writes what the sources gave after a snapshot, in a form that this package does not look into. It is in the
// file behind the snapshot: each Write is a skippable frame of Zstandard, so that tools and readers that know
// nothing of it pass over it.
type Input func(ctx context.Context, w io.Writer) error

const (
	inputFrame  = 0x184D2A5C
	frameHeader = 8
	zstdHeader  = 5 // magic and descriptor
)

// frameWriter makes each Write a skippable frame.
type frameWriter struct{ to io.Writer }

func (f frameWriter) Write(p []byte) (int, error) {
	h := binary.LittleEndian.AppendUint32(nil, inputFrame)
	if _, err := f.to.Write(binary.LittleEndian.AppendUint32(h, uint32(len(p)))); err != nil {
		return 0, err
	}
	return f.to.Write(p)
}

// frameReader reads what frames like that hold, up to the end.
type frameReader struct {
	from io.Reader
	left int64
	any  bool // there was a frame
}

// Read implements io.Reader.
func (f *frameReader) Read(p []byte) (int, error) {
	for f.left == 0 {
		var h [frameHeader]byte
		if _, err := io.ReadFull(f.from, h[:]); err != nil {
			return 0, err
		}
		if magic := binary.LittleEndian.Uint32(h[:]); magic != inputFrame {
			return 0, fmt.Errorf("%w: behind the snapshot is %x, which is no input", ErrDamaged, magic)
		}
		f.left, f.any = int64(binary.LittleEndian.Uint32(h[4:])), true
	}
	n, err := f.from.Read(p[:min(int64(len(p)), f.left)])
	if f.left -= int64(n); err == io.EOF && f.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// oneFrame reads exactly one Zstandard frame of a stream, so that what is behind it is left for others.
type oneFrame struct {
	from    io.Reader
	head    []byte // read and not yet given on
	left    int64  // of the block
	began   bool
	last    bool // the block is the frame's last
	trailer int  // bytes of the checksum, still to come
}

// Read implements io.Reader.
func (f *oneFrame) Read(p []byte) (int, error) {
	if len(f.head) == 0 && f.left == 0 {
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.head) > 0 {
		n := copy(p, f.head)
		f.head = f.head[n:]
		return n, nil
	}
	n, err := f.from.Read(p[:min(int64(len(p)), f.left)])
	if f.left -= int64(n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// next reads the header of the frame or of the next block, or the end.
func (f *oneFrame) next() error {
	switch {
	case !f.began:
		return f.begin()
	case f.last && f.trailer > 0:
		f.left, f.trailer = int64(f.trailer), 0
		return nil
	case f.last:
		return io.EOF
	}
	if err := f.read(3); err != nil {
		return err
	}
	h := uint32(f.head[0]) | uint32(f.head[1])<<8 | uint32(f.head[2])<<16
	f.last, f.left = h&1 != 0, int64(h>>3)
	if h>>1&3 == 1 { // one byte that is repeated
		f.left = 1
	}
	return nil
}

// begin reads the frame's header; how long it is, its descriptor says.
func (f *oneFrame) begin() error {
	f.began = true
	if err := f.read(zstdHeader); err != nil {
		return err
	}
	d := f.head[4]
	single := d&0x20 != 0
	more := []int{0, 1, 2, 4}[d&3] + []int{0, 2, 4, 8}[d>>6]
	switch {
	case !single:
		more++ // the window
	case d>>6 == 0:
		more++ // the size, in one byte
	}
	if d&4 != 0 {
		f.trailer = 4
	}
	first := f.head
	if err := f.read(more); err != nil {
		return err
	}
	f.head = append(first, f.head...)
	return nil
}

func (f *oneFrame) read(n int) error {
	f.head = make([]byte, n)
	_, err := io.ReadFull(f.from, f.head)
	if err != nil {
		f.head = nil
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
