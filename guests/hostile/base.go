package hostile

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument/wasmtest"
)

var (
	i32  = []byte{wasmtest.I32}
	i32s = []byte{wasmtest.I32, wasmtest.I32}
)

// Addresses in a guest's memory.
const (
	triggerAt = 16      // the four bytes of Trigger
	heapAt    = 1 << 16 // mr_alloc gives from here on
	wildAt    = 1 << 10 // the pointer patterns of WildPointers
)

// guest is a module under construction with the import next and the echoing loop.
type guest struct {
	*wasmtest.Module
	next  uint32
	calls map[string]uint32 // imports by name
	heap  uint32            // global: next free address
}

// newGuest starts a module with imports: the named host calls.
func newGuest(calls ...string) *guest {
	g := &guest{Module: &wasmtest.Module{}, calls: map[string]uint32{}}
	for _, s := range abi.Calls {
		if s.Name != abi.CallNext && !contains(calls, s.Name) {
			continue
		}
		var params, result []byte
		for _, p := range s.Params {
			params = append(params, valueType(p.Type))
		}
		if s.Result != "" {
			result = []byte{valueType(s.Result)}
		}
		g.calls[s.Name] = g.Import(abi.ImportModule, s.Name, params, result)
	}
	g.next = g.calls[abi.CallNext]
	g.Memories = []wasmtest.Memory{{Min: 3, Max: 65536}}
	g.heap = g.Global(wasmtest.I32, true, wasmtest.I32Const(heapAt))
	g.Datas = []wasmtest.Data{{Offset: triggerAt, Bytes: []byte(Trigger)}}
	return g
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func valueType(t abi.ValueType) byte {
	if t == abi.I64 {
		return wasmtest.I64
	}
	return wasmtest.I32
}

// attackOn builds a function (frame, index) that runs attack if the frame's value is Trigger.
func (g *guest) attackOn(locals []byte, attack ...[]byte) uint32 {
	w := wasmtest.Code
	return g.Func(i32s, nil, locals,
		wasmtest.LocalGet(0), wasmtest.I32Load(abi.FrameValueLen), wasmtest.I32Const(int32(len(Trigger))), wasmtest.I32Eq,
		wasmtest.If(wasmtest.Void),
		wasmtest.LocalGet(0), wasmtest.LocalGet(0), wasmtest.I32Load(abi.FrameKeyLen), wasmtest.I32Add,
		wasmtest.I32Load(abi.FrameHeader), wasmtest.I32Const(0), wasmtest.I32Load(triggerAt), wasmtest.I32Eq,
		wasmtest.If(wasmtest.Void), w(attack...), wasmtest.End,
		wasmtest.End)
}

// finish adds the exports; user is a function (frame, index) run for each record before it is echoed.
func (g *guest) finish(user uint32) []byte {
	g.ExportFunc(abi.ExportVersion, nil, nil, nil)
	g.ExportFunc(abi.ExportAlloc, i32, i32, nil, g.alloc())
	g.ExportFunc(abi.ExportProcess, []byte{wasmtest.I32, wasmtest.I32, wasmtest.I32, wasmtest.I32, wasmtest.I32}, i32,
		[]byte{wasmtest.I32, wasmtest.I32, wasmtest.I32, wasmtest.I32}, g.process(user))
	g.Export(abi.ExportMemory, wasmtest.KindMemory, 0)
	return g.Bytes()
}

// alloc returns the heap's start and moves it, growing the memory as needed.
func (g *guest) alloc() []byte {
	return wasmtest.Code(
		wasmtest.GlobalGet(g.heap),
		wasmtest.GlobalGet(g.heap), wasmtest.LocalGet(0), wasmtest.I32Add, wasmtest.I32Const(7), wasmtest.I32Add,
		wasmtest.I32Const(-8), wasmtest.I32And, wasmtest.GlobalSet(g.heap),
		wasmtest.Block(wasmtest.Void), wasmtest.Loop(wasmtest.Void),
		wasmtest.MemorySize, wasmtest.I32Const(16), wasmtest.Op(0x74), wasmtest.GlobalGet(g.heap), wasmtest.I32GeU, wasmtest.BrIf(1),
		wasmtest.I32Const(1), wasmtest.MemoryGrow, wasmtest.I32Const(-1), wasmtest.I32Eq,
		wasmtest.If(wasmtest.Void), wasmtest.Unreachable, wasmtest.End,
		wasmtest.Br(0), wasmtest.End, wasmtest.End)
}

// Parameters and locals of process.
const (
	pBlock = iota
	_
	pOut
	pCap
	pIndex // begins as first
	pFrame
	pSize
	pUsed // bytes of output frames
	pFrames
)

// process is the SDK's loop: next, the user's function, then the record is echoed.
func (g *guest) process(user uint32) []byte {
	leave := func(status int32) []byte {
		return wasmtest.Code(
			wasmtest.LocalGet(pOut), wasmtest.LocalGet(pIndex), wasmtest.I32Store(abi.OutConsumed),
			wasmtest.LocalGet(pOut), wasmtest.LocalGet(pUsed), wasmtest.I32Store(abi.OutBytes),
			wasmtest.LocalGet(pOut), wasmtest.LocalGet(pFrames), wasmtest.I32Store(abi.OutFrames),
			wasmtest.I32Const(status), wasmtest.Return)
	}
	return wasmtest.Code(
		wasmtest.Loop(wasmtest.Void),
		wasmtest.LocalGet(pIndex), wasmtest.Call(g.next), wasmtest.If(wasmtest.Void), leave(int32(abi.StatusYield)), wasmtest.End,
		wasmtest.LocalGet(pIndex), wasmtest.LocalGet(pBlock), wasmtest.I32Load(abi.BlockN), wasmtest.I32GeU,
		wasmtest.If(wasmtest.Void), leave(int32(abi.StatusDone)), wasmtest.End,
		// frame = block + offsets[index]
		wasmtest.LocalGet(pBlock), wasmtest.LocalGet(pBlock), wasmtest.I32Load(abi.BlockOffsets), wasmtest.I32Add,
		wasmtest.LocalGet(pIndex), wasmtest.I32Const(2), wasmtest.Op(0x74), wasmtest.I32Add, wasmtest.I32Load(0),
		wasmtest.LocalGet(pBlock), wasmtest.I32Add, wasmtest.LocalTee(pFrame), wasmtest.I32Load(abi.FrameSize), wasmtest.LocalSet(pSize),
		// no room left: drain first
		wasmtest.LocalGet(pCap), wasmtest.LocalGet(pUsed), wasmtest.LocalGet(pSize), wasmtest.I32Add,
		wasmtest.I32Const(abi.OutHeader), wasmtest.I32Add, wasmtest.I32LtU,
		wasmtest.If(wasmtest.Void), leave(int32(abi.StatusYield)), wasmtest.End,
		wasmtest.LocalGet(pFrame), wasmtest.LocalGet(pIndex), wasmtest.Call(user),
		// echo
		wasmtest.LocalGet(pOut), wasmtest.LocalGet(pUsed), wasmtest.I32Add, wasmtest.I32Const(abi.OutHeader), wasmtest.I32Add,
		wasmtest.LocalGet(pFrame), wasmtest.LocalGet(pSize), wasmtest.MemoryCopy,
		wasmtest.LocalGet(pOut), wasmtest.LocalGet(pUsed), wasmtest.I32Add,
		wasmtest.LocalGet(pIndex), wasmtest.I32Store(abi.OutHeader+abi.FrameCause),
		wasmtest.LocalGet(pOut), wasmtest.LocalGet(pUsed), wasmtest.I32Add,
		wasmtest.I32Const(0), wasmtest.I32Store8(abi.OutHeader+abi.FrameOutput),
		wasmtest.LocalGet(pUsed), wasmtest.LocalGet(pSize), wasmtest.I32Add, wasmtest.LocalSet(pUsed),
		wasmtest.LocalGet(pFrames), wasmtest.I32Const(1), wasmtest.I32Add, wasmtest.LocalSet(pFrames),
		wasmtest.LocalGet(pIndex), wasmtest.I32Const(1), wasmtest.I32Add, wasmtest.LocalSet(pIndex),
		wasmtest.Br(0), wasmtest.End,
		wasmtest.Unreachable)
}
