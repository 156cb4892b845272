package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// segment is bytes that are in a memory from the start.
type segment struct {
	at    int
	bytes []byte
}

const (
	sectionData = 11
	opI32Const  = 0x41
	opEnd       = 0x0b
)

// activeData reads the data section of a valid module whose segments are all active. memory is what an
// instance starts with; a segment outside it makes the module useless.
func activeData(wasm []byte, memory int64) ([]segment, error) {
	r := bytes.NewReader(wasm[8:])
	for r.Len() > 0 {
		id, size := number(r), number(r)
		body := next(r, size)
		if id == sectionData {
			return dataSection(body, memory)
		}
	}
	return nil, nil
}

func dataSection(body []byte, memory int64) ([]segment, error) {
	r := bytes.NewReader(body)
	segments := make([]segment, number(r))
	for i := range segments {
		if flags := number(r); flags == 2 {
			number(r) // memory 0, written out
		}
		if op := number(r); op != opI32Const {
			return nil, fmt.Errorf("data segment %d: its address is not a constant (opcode %#x)", i, op)
		}
		at := int64(uint32(signed(r)))
		if end := number(r); end != opEnd {
			return nil, fmt.Errorf("data segment %d: its address is not one constant (opcode %#x)", i, end)
		}
		b := next(r, number(r))
		if at+int64(len(b)) > memory {
			return nil, fmt.Errorf("data segment %d: bytes [%#x, +%d) are outside the memory of %d bytes", i, at, len(b), memory)
		}
		segments[i] = segment{int(at), b}
	}
	return segments, nil
}

// The module is valid, so that reading it can't fail.

func number(r *bytes.Reader) uint64 {
	v, _ := binary.ReadUvarint(r)
	return v
}

func signed(r *bytes.Reader) int32 {
	var v uint64
	for shift := 0; ; shift += 7 {
		b, err := r.ReadByte()
		v |= uint64(b&0x7f) << shift
		if err != nil || b&0x80 == 0 {
			if shift += 7; shift < 32 && b&0x40 != 0 {
				v |= ^uint64(0) << shift
			}
			return int32(v)
		}
	}
}

func next(r *bytes.Reader, n uint64) []byte {
	b := make([]byte, n)
	_, _ = r.Read(b)
	return b
}
