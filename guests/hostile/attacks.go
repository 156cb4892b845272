package hostile

import (
	"github.com/millrace-io/millrace/abi"
	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// on makes a guest that runs the attack on Trigger; locals 2 and up are the attack's.
func on(locals []byte, attack ...[]byte) []byte {
	g := newGuest()
	return g.finish(g.attackOn(locals, attack...))
}

// forever repeats code.
func forever(code ...[]byte) []byte {
	return wt.Code(wt.Loop(wt.Void), wt.Code(code...), wt.Br(0), wt.End)
}

// runnable are the attacks on time and memory.
func runnable() []Guest {
	return []Guest{
		{"echo", "no attack: every record is echoed", FaultNone, "", on(nil)},
		{"trap", "unreachable", FaultTrap, "", on(nil, wt.Unreachable)},
		{"endless-loop", "loop without end or call", FaultFuel, "", on(nil, forever())},
		{"exponential-calls", "40 functions that each call the next twice", FaultFuel, "", exponential(40)},
		{"recursion", "calls itself without end", FaultStack, "", recursion()},
		{"fill-storm", "400 memory.fill of 32 MiB in straight line", FaultFuel, "", fillStorm()},
		{"memory-grow", "grows and fills its memory until it gets no more, then traps", FaultTrap, "", memoryGrow()},
		{"memory-grow-huge", "asks for 4 GiB at once, over and over", FaultFuel, "",
			on(nil, forever(wt.I32Const(-1), wt.MemoryGrow, wt.Drop))},
		{"table-grow", "grows its table by a million entries, over and over", FaultFuel, "", tableGrow()},
		{"copy-storm", "copies its whole memory, over and over", FaultFuel, "",
			on(nil, forever(wt.I32Const(0), wt.I32Const(1), wt.MemorySize, wt.I32Const(16), wt.Op(0x74),
				wt.I32Const(1), wt.I32Sub, wt.MemoryCopy))},
		{"start-loop", "start function without end", FaultStart, "", startLoop()},
		{"next-again", "for (;;) next(0)", FaultNext, "", nextAbuse(false)},
		{"next-ahead", "for (;;) next(i++): a full account of fuel for each turn", FaultNext, "", nextAbuse(true)},
	}
}

func exponential(depth int) []byte {
	g := newGuest()
	f := g.Func(nil, nil, nil)
	for ; depth > 0; depth-- {
		f = g.Func(nil, nil, nil, wt.Call(f), wt.Call(f))
	}
	return g.finish(g.attackOn(nil, wt.Call(f)))
}

func recursion() []byte {
	g := newGuest()
	self := uint32(len(g.Imports) + len(g.Funcs))
	g.Func(nil, nil, nil, wt.Call(self))
	return g.finish(g.attackOn(nil, wt.Call(self)))
}

func fillStorm() []byte {
	return on(nil,
		wt.I32Const(512), wt.MemoryGrow, wt.Drop,
		wt.Times(400, wt.I32Const(1<<17), wt.I32Const(0x55), wt.MemorySize, wt.I32Const(16), wt.Op(0x74),
			wt.I32Const(1<<17), wt.I32Sub, wt.MemoryFill))
}

func memoryGrow() []byte {
	return on(i32, forever(
		wt.I32Const(1), wt.MemoryGrow, wt.LocalTee(2), wt.I32Const(-1), wt.I32Eq,
		wt.If(wt.Void), wt.Unreachable, wt.End,
		wt.LocalGet(2), wt.I32Const(16), wt.Op(0x74), wt.I32Const(0x55), wt.I32Const(1<<16), wt.MemoryFill))
}

func tableGrow() []byte {
	g := newGuest()
	g.Tables = []wt.Table{{Min: 1}}
	return g.finish(g.attackOn(nil, forever(
		wt.Op(0xd0, wt.FuncRef), wt.I32Const(1_000_000), wt.TableGrow(0), wt.Drop,
		wt.Op(0xd0, wt.FuncRef), wt.I32Const(1_000), wt.TableGrow(0), wt.Drop)))
}

func startLoop() []byte {
	g := newGuest()
	start := g.Func(nil, nil, nil, forever())
	g.Start = &start
	return g.finish(g.attackOn(nil))
}

func nextAbuse(ahead bool) []byte {
	g := newGuest()
	index := wt.I32Const(0)
	if ahead {
		index = wt.Code(wt.LocalGet(1), wt.I32Const(1), wt.I32Add, wt.LocalTee(1))
	}
	return g.finish(g.attackOn(nil, forever(index, wt.Call(g.next), wt.Drop)))
}

// faulty are the attacks through host calls and buffers.
func faulty() []Guest {
	return []Guest{
		{"wild-pointers", "host calls with wild pointers; see WildValue", FaultAny, "", wildPointers()},
		{"log-storm", "log without end", FaultFuel, "", storm(abi.CallLog, 3)},
		{"emit-storm", "emit without end", FaultLimit, "", storm(abi.CallEmit, 2)},
		{"metric-storm", "a new metric without end", FaultLimit, "", storm(abi.CallMetric, 2)},
		{"lying-output", "says it consumed 2^32-1 records and wrote as many bytes", FaultOutput, "", lyingOutput()},
	}
}

// storm repeats a host call whose first argument is the frame (emit) or a number.
func storm(call string, _ int) []byte {
	g := newGuest(call)
	var args []byte
	switch call {
	case abi.CallEmit: // the record itself
		args = wt.Code(wt.LocalGet(0), wt.LocalGet(0), wt.I32Load(abi.FrameSize), wt.LocalGet(1), wt.Call(g.calls[call]), wt.Drop)
	case abi.CallLog:
		args = wt.Code(wt.I32Const(abi.LogError), wt.I32Const(triggerAt), wt.I32Const(4), wt.Call(g.calls[call]))
	case abi.CallMetric: // its name counts up
		args = wt.Code(wt.I32Const(0), wt.I32Const(0), wt.I32Load(512), wt.I32Const(1), wt.I32Add, wt.I32Store(512),
			wt.I32Const(512), wt.I32Const(4), wt.I64Const(1), wt.Call(g.calls[call]), wt.Drop)
	}
	return g.finish(g.attackOn(nil, forever(args)))
}

// lyingOutput returns from process by itself, with lies in the header.
func lyingOutput() []byte {
	g := newGuest()
	g.ExportFunc(abi.ExportVersion, nil, nil, nil)
	g.ExportFunc(abi.ExportAlloc, i32, i32, nil, g.alloc())
	g.ExportFunc(abi.ExportProcess, []byte{wt.I32, wt.I32, wt.I32, wt.I32, wt.I32}, i32, nil,
		wt.LocalGet(pOut), wt.I32Const(-1), wt.I32Store(abi.OutConsumed),
		wt.LocalGet(pOut), wt.I32Const(-1), wt.I32Store(abi.OutBytes),
		wt.LocalGet(pOut), wt.I32Const(-1), wt.I32Store(abi.OutFrames),
		wt.I32Const(int32(abi.StatusDone)))
	g.Export(abi.ExportMemory, wt.KindMemory, 0)
	return g.Bytes()
}
