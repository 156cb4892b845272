package hostile

import (
	"encoding/binary"
	"strings"

	"github.com/millrace-io/millrace/abi"
	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// Pointer is a byte range that a guest claims to have. FromEnd: Ptr counts from the end of its memory.
type Pointer struct {
	Ptr, Len uint32
	FromEnd  bool
	OK       bool // the range lies inside the memory after all
}

// WildPointers are the ranges that "wild-pointers" passes.
var WildPointers = []Pointer{
	{Ptr: 0xffff_fff0, Len: 0x20},
	{Ptr: 0, Len: 0xffff_ffff},
	{Ptr: 0xffff_ffff, Len: 2, FromEnd: true}, // memory size - 1
	{Ptr: 0, Len: 0, FromEnd: true, OK: true},
	{Ptr: 0x8000_0000, Len: 0x8000_0000},
	{Ptr: 0x7fff_ffff, Len: 0x7fff_ffff},
	{Ptr: 1, Len: 0xffff_ffff},
	{Ptr: 0, Len: 1, FromEnd: true},
	{Ptr: 0xffff_ffff, Len: 1, FromEnd: true, OK: true},
}

// WildCalls are the host calls that take a byte range, in the order of abi.Calls.
func WildCalls() []abi.Signature {
	var list []abi.Signature
	for _, s := range abi.Calls {
		for _, p := range s.Params {
			if isLength(p.Name) {
				list = append(list, s)
				break
			}
		}
	}
	return list
}

func isLength(name string) bool { return strings.HasSuffix(name, "_len") || name == "cap" }

// WildValue is the value of a record that makes "wild-pointers" call WildCalls()[call] with every range
// set to WildPointers[pointer] and every other argument 0. The record is echoed with the status as its
// event time (0 for calls without a result).
func WildValue(call, pointer int) []byte { return []byte{'!', byte(call), byte(pointer), '!'} }

// wildPointers decodes WildValue: a br_table over the calls; local 2 ptr, 3 len, 4 result.
func wildPointers() []byte {
	calls := WildCalls()
	names := make([]string, len(calls))
	for i, s := range calls {
		names[i] = s.Name
	}
	g := newGuest(names...)
	var table []byte
	for _, p := range WildPointers {
		table = binary.LittleEndian.AppendUint32(table, p.Ptr)
		table = binary.LittleEndian.AppendUint32(table, p.Len)
		fromEnd := uint32(0)
		if p.FromEnd {
			fromEnd = 1
		}
		table = binary.LittleEndian.AppendUint32(table, fromEnd)
	}
	g.Datas = append(g.Datas, wt.Data{Offset: wildAt, Bytes: table})
	value := wt.Code(wt.LocalGet(0), wt.LocalGet(0), wt.I32Load(abi.FrameKeyLen), wt.I32Add)
	entry := wt.Code(value, wt.I32Load8U(abi.FrameHeader+2), wt.I32Const(12), wt.I32Mul)
	targets := make([]uint32, len(calls)+1)
	for i := range targets {
		targets[i] = uint32(i)
	}
	body := wt.Code(
		wt.LocalGet(0), wt.I32Load(abi.FrameValueLen), wt.I32Const(4), wt.I32Eq, wt.I32Eqz, wt.If(wt.Void), wt.Return, wt.End,
		value, wt.I32Load8U(abi.FrameHeader), wt.I32Const('!'), wt.I32Eq, wt.I32Eqz, wt.If(wt.Void), wt.Return, wt.End,
		entry, wt.I32Load(wildAt), wt.LocalSet(2),
		entry, wt.I32Load(wildAt+4), wt.LocalSet(3),
		entry, wt.I32Load(wildAt+8), wt.If(wt.Void),
		wt.LocalGet(2), wt.MemorySize, wt.I32Const(16), wt.Op(0x74), wt.I32Add, wt.LocalSet(2), wt.End,
		wt.Times(len(calls)+1, wt.Block(wt.Void)),
		value, wt.I32Load8U(abi.FrameHeader+1), wt.BrTable(targets...))
	for i, s := range calls {
		body = wt.Code(body, wt.End, g.wildCall(s), wt.Br(uint32(len(calls)-1-i)))
	}
	body = wt.Code(body, wt.End, wt.LocalGet(0), wt.LocalGet(4), wt.I64Store(abi.FrameTime))
	return g.finish(g.Func(i32s, nil, []byte{wt.I32, wt.I32, wt.I64}, body))
}

// wildCall calls s and leaves its result in local 4.
func (g *guest) wildCall(s abi.Signature) []byte {
	var d []byte
	for i, p := range s.Params {
		switch {
		case isLength(p.Name):
			d = append(d, wt.LocalGet(3)...)
		case i+1 < len(s.Params) && isLength(s.Params[i+1].Name):
			d = append(d, wt.LocalGet(2)...)
		case p.Type == abi.I64:
			d = append(d, wt.I64Const(0)...)
		default:
			d = append(d, wt.I32Const(0)...)
		}
	}
	d = wt.Code(d, wt.Call(g.calls[s.Name]))
	switch s.Result {
	case abi.I64:
		return wt.Code(d, wt.LocalSet(4))
	case abi.I32:
		return wt.Code(d, wt.Op(0xac), wt.LocalSet(4)) // sign-extended
	}
	return d
}
