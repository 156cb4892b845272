// Package abi is the contract between the Millrace host and a guest module: the record frame, the
// call block, the names and numbers of the calls in both directions, and the module descriptor.
//
// It imports only the standard library, so that SDKs and tools can build it anywhere. The normative
// text is spec/v0.md; the tables in abi_gen.go come from abi.yaml.
package abi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Op says what a record does to the table its stream describes.
type Op uint8

// Changelog operations. A plain stream holds only OpInsert.
const (
	OpInsert       Op = 0 // +I
	OpUpdateBefore Op = 1 // -U
	OpUpdateAfter  Op = 2 // +U
	OpDelete       Op = 3 // -D
)

// NoTime is the event time of a record that has none.
const NoTime int64 = math.MinInt64

// Bits of a frame's flags. A clear FlagKey means the key is null; set with length 0, it is empty.
const (
	FlagKey     = 1 << 0
	FlagValue   = 1 << 1
	FlagHeaders = 1 << 2
	flagsKnown  = FlagKey | FlagValue | FlagHeaders
)

// Byte offsets inside a frame; all integers are little endian.
//
//	0  u32 size      whole frame, header included
//	4  u8  flags     FlagKey | FlagValue | FlagHeaders
//	5  u8  op        Op
//	6  u8  output    in an output: 0 main, n = n-th side output; in an input: the input's number
//	7  u8  0
//	8  i64 event time, ms since 1970, NoTime if none
//	16 u32 key length
//	20 u32 value length
//	24 u32 split     source position: number of the split ...
//	28 u32 cause     in an output: index in its block of the record that wrote it; else 0
//	32 u64 offset    ... and offset in it
//	40 key, value, headers
//
// Headers, if flagged: u32 count, then for each u32 key length, u32 value length (NullLen = null),
// key, value; order and repeated keys are kept.
const (
	FrameSize     = 0
	FrameFlags    = 4
	FrameOp       = 5
	FrameOutput   = 6
	FrameTime     = 8
	FrameKeyLen   = 16
	FrameValueLen = 20
	FrameSplit    = 24
	FrameCause    = 28
	FrameOffset   = 32
	FrameHeader   = 40
	NullLen       = math.MaxUint32
)

// Header is one entry of a record's header list. A nil Value is a null value.
type Header struct {
	Key   []byte
	Value []byte
}

// Position is where a record came from: a split of a source and an offset in it.
type Position struct {
	Split  uint32
	Offset uint64
}

// NoPosition is that of timers and of windows' results: no single record is what they come from.
var NoPosition = Position{Split: 1<<32 - 1, Offset: 1<<64 - 1}

// Record is the decoded form of a frame. Null, empty and absent are three things: a nil Key or Value
// is null, a non-nil one of length 0 is empty. Slices alias the frame they were decoded from.
type Record struct {
	Time    int64 // event time in ms, NoTime if none
	Key     []byte
	Value   []byte
	Headers []Header
	Op      Op
	Output  uint8
	Cause   uint32
	Pos     Position
}

// ErrFrame is wrapped by every error about a malformed frame.
var ErrFrame = errors.New("malformed record frame")

// AppendRecord appends r as a frame and returns the extended buffer.
func AppendRecord(dst []byte, r *Record) []byte {
	start := len(dst)
	var h [FrameHeader]byte
	dst = append(dst, h[:]...)
	flags := byte(0)
	if r.Key != nil {
		flags |= FlagKey
		dst = append(dst, r.Key...)
	}
	if r.Value != nil {
		flags |= FlagValue
		dst = append(dst, r.Value...)
	}
	if len(r.Headers) > 0 {
		flags |= FlagHeaders
		dst = appendHeaders(dst, r.Headers)
	}
	f := dst[start:]
	binary.LittleEndian.PutUint32(f[FrameSize:], uint32(len(f)))
	f[FrameFlags], f[FrameOp], f[FrameOutput] = flags, byte(r.Op), r.Output
	binary.LittleEndian.PutUint64(f[FrameTime:], uint64(r.Time))
	binary.LittleEndian.PutUint32(f[FrameKeyLen:], uint32(len(r.Key)))
	binary.LittleEndian.PutUint32(f[FrameValueLen:], uint32(len(r.Value)))
	binary.LittleEndian.PutUint32(f[FrameSplit:], r.Pos.Split)
	binary.LittleEndian.PutUint32(f[FrameCause:], r.Cause)
	binary.LittleEndian.PutUint64(f[FrameOffset:], r.Pos.Offset)
	return dst
}

func appendHeaders(dst []byte, hs []Header) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(hs)))
	for _, h := range hs {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.Key)))
		n := uint32(NullLen)
		if h.Value != nil {
			n = uint32(len(h.Value))
		}
		dst = binary.LittleEndian.AppendUint32(dst, n)
		dst = append(dst, h.Key...)
		dst = append(dst, h.Value...)
	}
	return dst
}

// Frame is the bytes of exactly one checked frame. Its accessors do not check again.
type Frame []byte

// NextFrame returns the first frame in b, checked, and the bytes after it. All lengths are checked in
// 64-bit arithmetic, so b may come from a guest.
func NextFrame(b []byte) (f Frame, rest []byte, err error) {
	if len(b) < FrameHeader {
		return nil, b, fmt.Errorf("%w: %d bytes left, a frame header has %d", ErrFrame, len(b), FrameHeader)
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if size < FrameHeader || size > uint64(len(b)) {
		return nil, b, fmt.Errorf("%w: size %d, want %d to %d", ErrFrame, size, FrameHeader, len(b))
	}
	f = Frame(b[:size:size])
	if !f.plain() {
		if err := f.check(); err != nil {
			return nil, b, err
		}
	}
	return f, b[size:], nil
}

// plain says that f is well formed, as nearly all are: key and value that are not null, no headers.
func (f Frame) plain() bool {
	kl := uint64(binary.LittleEndian.Uint32(f[FrameKeyLen:]))
	vl := uint64(binary.LittleEndian.Uint32(f[FrameValueLen:]))
	return f[FrameFlags] == FlagKey|FlagValue && f[FrameOp] <= byte(OpDelete) && FrameHeader+kl+vl == uint64(len(f))
}

func (f Frame) check() error {
	flags := f[FrameFlags]
	kl := uint64(binary.LittleEndian.Uint32(f[FrameKeyLen:]))
	vl := uint64(binary.LittleEndian.Uint32(f[FrameValueLen:]))
	body := FrameHeader + kl + vl
	switch {
	case flags&^flagsKnown != 0:
		return fmt.Errorf("%w: unknown flags %#x", ErrFrame, flags)
	case f[FrameOp] > byte(OpDelete):
		return fmt.Errorf("%w: unknown op %d", ErrFrame, f[FrameOp])
	case flags&FlagKey == 0 && kl != 0 || flags&FlagValue == 0 && vl != 0:
		return fmt.Errorf("%w: a null key or value with a length", ErrFrame)
	case body > uint64(len(f)):
		return fmt.Errorf("%w: key %d + value %d bytes exceed the frame's %d", ErrFrame, kl, vl, len(f))
	case flags&FlagHeaders == 0 && body != uint64(len(f)):
		return fmt.Errorf("%w: %d bytes after the value", ErrFrame, uint64(len(f))-body)
	case flags&FlagHeaders != 0:
		return checkHeaders(f[body:])
	}
	return nil
}

func checkHeaders(b []byte) error {
	_, rest, err := decodeHeaders(b, nil)
	if err == nil && len(rest) != 0 {
		err = fmt.Errorf("%w: %d bytes after the headers", ErrFrame, len(rest))
	}
	return err
}

func decodeHeaders(b []byte, into func(Header)) (n int, rest []byte, err error) {
	if len(b) < 4 {
		return 0, b, fmt.Errorf("%w: header count cut off", ErrFrame)
	}
	n, b = int(binary.LittleEndian.Uint32(b)), b[4:]
	for i := 0; i < n; i++ {
		if len(b) < 8 {
			return i, b, fmt.Errorf("%w: header %d of %d cut off", ErrFrame, i, n)
		}
		kl := uint64(binary.LittleEndian.Uint32(b))
		vl := uint64(binary.LittleEndian.Uint32(b[4:]))
		null := vl == NullLen
		if null {
			vl = 0
		}
		b = b[8:]
		if kl+vl > uint64(len(b)) {
			return i, b, fmt.Errorf("%w: header %d of %d cut off", ErrFrame, i, n)
		}
		if into != nil {
			h := Header{Key: b[:kl:kl]}
			if !null {
				h.Value = b[kl : kl+vl : kl+vl]
			}
			into(h)
		}
		b = b[kl+vl:]
	}
	return n, b, nil
}

// Time is the event time in ms, NoTime if none.
func (f Frame) Time() int64 { return int64(binary.LittleEndian.Uint64(f[FrameTime:])) }

// Op is the changelog operation.
func (f Frame) Op() Op { return Op(f[FrameOp]) }

// Output is the output (or input) number.
func (f Frame) Output() uint8 { return f[FrameOutput] }

// Cause is the index of the record that wrote this output.
func (f Frame) Cause() uint32 { return binary.LittleEndian.Uint32(f[FrameCause:]) }

// Pos is the source position.
func (f Frame) Pos() Position {
	return Position{binary.LittleEndian.Uint32(f[FrameSplit:]), binary.LittleEndian.Uint64(f[FrameOffset:])}
}

// Key returns the key, nil if null.
func (f Frame) Key() []byte {
	if f[FrameFlags]&FlagKey == 0 {
		return nil
	}
	n := FrameHeader + int(binary.LittleEndian.Uint32(f[FrameKeyLen:]))
	return f[FrameHeader:n:n]
}

// Value returns the value, nil if null.
func (f Frame) Value() []byte {
	if f[FrameFlags]&FlagValue == 0 {
		return nil
	}
	s := FrameHeader + int(binary.LittleEndian.Uint32(f[FrameKeyLen:]))
	e := s + int(binary.LittleEndian.Uint32(f[FrameValueLen:]))
	return f[s:e:e]
}

// Headers decodes the header list.
func (f Frame) Headers() []Header {
	if f[FrameFlags]&FlagHeaders == 0 {
		return nil
	}
	s := FrameHeader + int(binary.LittleEndian.Uint32(f[FrameKeyLen:])) + int(binary.LittleEndian.Uint32(f[FrameValueLen:]))
	var hs []Header
	_, _, _ = decodeHeaders(f[s:], func(h Header) { hs = append(hs, h) })
	return hs
}

// Record decodes f; its slices alias f.
func (f Frame) Record() Record {
	return Record{Time: f.Time(), Key: f.Key(), Value: f.Value(), Headers: f.Headers(), Op: f.Op(),
		Output: f.Output(), Cause: f.Cause(), Pos: f.Pos()}
}
