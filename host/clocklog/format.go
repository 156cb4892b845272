package clocklog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// ErrDamaged: the bytes are not what was written.
var ErrDamaged = errors.New("the log of the clock is damaged")

// A log is: magic, segments, CRC-32C of all before it (4 bytes, little endian). A segment is from, to, sections; a
// section is the operator's id, watermark and processing time at its start, how far the watermark is at its end, records, a flag (1: it was cut) and its
// events. Numbers are varints, signed ones zigzag, texts and events behind their length. An event is a byte (kind, and
// 16 if the watermark differs from that of the event before), then the differences to the event before: records,
// watermark, ms; with ClockIdle the split in place of ms; nothing with ClockBeyond.
const magic = "MRC1"

const watermarkMoved = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendEvent(b []byte, last *operators.ClockEvent, e operators.ClockEvent) []byte {
	head := byte(e.Kind)
	moved := e.Watermark != last.Watermark
	if moved {
		head |= watermarkMoved
	}
	b = binary.AppendUvarint(append(b, head), uint64(e.N-last.N))
	if moved {
		b = binary.AppendVarint(b, e.Watermark-last.Watermark) // wraps around, and back
	}
	switch e.Kind {
	case operators.ClockIdle:
		b = binary.AppendUvarint(b, uint64(e.Split))
		e.MS = last.MS
	case operators.ClockBeyond:
		e.MS = last.MS
	default:
		b = binary.AppendVarint(b, e.MS-last.MS)
	}
	*last = e
	return b
}

// input takes numbers from bytes; after the first that is not there, bad is set.
type input struct {
	b   []byte
	bad bool
}

func (r *input) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *input) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *input) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *input) bytes() []byte {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// event takes the event behind last.
func (r *input) event(last *operators.ClockEvent) operators.ClockEvent {
	head := r.byte()
	e := *last
	e.Split = 0
	if e.Kind = operators.ClockKind(head &^ watermarkMoved); e.Kind == 0 || e.Kind >= operators.ClockKinds {
		r.bad = true
		return e
	}
	n := r.uint()
	if e.N += int64(n); e.N < last.N {
		r.bad = true
	}
	if head&watermarkMoved != 0 {
		e.Watermark += r.int()
	}
	switch e.Kind {
	case operators.ClockIdle:
		e.Split = uint32(r.uint())
	case operators.ClockBeyond:
	default:
		e.MS += r.int()
	}
	*last = e
	if e.Kind == operators.ClockIdle || e.Kind == operators.ClockBeyond {
		e.MS = 0
	}
	return e
}

// Encode is the bytes of the log.
func (p *Parts) Encode() []byte {
	b := binary.AppendUvarint([]byte(magic), uint64(len(p.segments)))
	for _, g := range p.segments {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(g.from)), uint64(g.to))
		b = binary.AppendUvarint(b, uint64(len(g.sections)))
		for i := range g.sections {
			s := &g.sections[i]
			b = append(binary.AppendUvarint(b, uint64(len(s.operator))), s.operator...)
			b = binary.AppendVarint(binary.AppendVarint(b, s.start.Watermark), s.start.MS)
			b = binary.AppendVarint(b, s.end-s.start.Watermark)
			b = binary.AppendUvarint(b, uint64(s.records))
			flag := byte(0)
			if s.cut {
				flag = 1
			}
			b = append(binary.AppendUvarint(append(b, flag), uint64(len(s.data))), s.data...)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode reads the bytes of Encode, and every event once. Errors: ErrDamaged.
func decode(b []byte) ([]*segment, error) {
	if len(b) < len(magic)+4 || !bytes.HasPrefix(b, []byte(magic)) {
		return nil, fmt.Errorf("%w: %d bytes that do not begin with %s", ErrDamaged, len(b), magic)
	}
	body := b[:len(b)-4]
	if got, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(b[len(body):]); got != want {
		return nil, fmt.Errorf("%w: its checksum is %08x, expected %08x", ErrDamaged, got, want)
	}
	r := &input{b: body[len(magic):]}
	var all []*segment
	for n := r.uint(); n > 0 && !r.bad; n-- {
		g := &segment{from: checkpoint.ID(r.uint()), to: checkpoint.ID(r.uint())}
		for k := r.uint(); k > 0 && !r.bad; k-- {
			s := section{operator: string(r.bytes())}
			s.start.Watermark, s.start.MS = r.int(), r.int()
			s.end = s.start.Watermark + r.int()
			s.records, s.cut = int64(r.uint()), r.byte() != 0
			s.data = r.bytes()
			if err := s.check(); err != nil && !r.bad {
				return nil, err
			}
			g.sections = append(g.sections, s)
		}
		all = append(all, g)
	}
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("%w: it ends inside a segment, or does not end with one", ErrDamaged)
	}
	return all, nil
}

// check reads all events.
func (s *section) check() error {
	r := &input{b: s.data}
	last := operators.ClockEvent{Watermark: s.start.Watermark, MS: s.start.MS}
	for i := 0; len(r.b) > 0; i++ {
		if e := r.event(&last); r.bad || e.N > s.records {
			return fmt.Errorf("%w: operator %s, event %d (%s) at record %d of %d", ErrDamaged, s.operator, i, e.Kind, e.N, s.records)
		}
	}
	return nil
}
