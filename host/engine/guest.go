package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Guest is one instance. It implements guestop.Guest. All methods but Stop belong to one goroutine.
type Guest struct {
	code  *code
	env   guestop.Env
	opts  guestop.InstanceOptions
	scope hostcall.Scope

	module  instance
	memory  *linear
	meter   meter
	process function
	alloc   function
	stack   [8]uint64
	initial *image // of the instance after initialisation; nil: none taken

	in     uint32 // address of the input buffer, 8-aligned
	inCap  int
	out    uint32
	frames []byte // what the last call wrote

	calling atomic.Bool
	resets  int
	closed  bool

	stopMu   sync.Mutex // guards what Stop touches: the instance may be replaced meanwhile
	stopped  bool
	stopWord hostcall.Word // of the live instance; nil: there is none
}

var _ guestop.Guest = (*Guest)(nil)

// open makes a bare instance: no data in its memory, no code run.
func (g *Guest) open() error {
	g.scope = hostcall.Scope{Context: context.Background(), Env: g.env, Stdio: g.scope.Stdio}
	g.scope.Stdio.Reset()
	g.memory = &linear{limit: uint64(g.opts.MemoryBytes), view: &g.scope.Memory}
	mod, err := g.code.program.instantiate(g)
	if err != nil {
		return err
	}
	g.module = mod
	if err := g.bind(); err != nil {
		return errors.Join(err, mod.close())
	}
	return nil
}

// start is what makes a bare instance usable, from the beginning.
func (g *Guest) start() error {
	for _, s := range g.code.data {
		copy(g.scope.Memory[s.at:], s.bytes)
	}
	if err := g.initialise(); err != nil {
		return errors.Join(err, g.module.close())
	}
	return nil
}

// bind finds what the host uses of the module.
func (g *Guest) bind() error {
	if err := g.meter.bind(g.module); err != nil {
		return err
	}
	g.scope.Cursor, g.scope.Fuel = g.meter.cursor, g.meter.fuel
	g.armStop(g.meter.stop)
	g.process = g.module.function(abi.ExportProcess)
	g.alloc = g.module.function(abi.ExportAlloc)
	return nil
}

// initialise runs what comes before the first block, all on one account of fuel.
func (g *Guest) initialise() error {
	g.meter.beginPlain(g.code.engine.opts.FuelPerInit)
	for _, name := range []string{instrument.ExportStart, abi.ExportInitialize} {
		if f := g.module.function(name); f != nil {
			if err := g.call(f); err != nil {
				return g.fault(err, name)
			}
		}
	}
	var err error
	if g.in, g.inCap, err = g.buffer(defaultInBytes); err != nil {
		return err
	}
	g.out, _, err = g.buffer(g.opts.OutputBytes)
	return err
}

// errOverspent ends a call whose last stretch of instructions took more than was left.
var errOverspent = errors.New("out of fuel at its end")

// call runs a function with the parameters in g.stack. The result is in g.stack[0].
func (g *Guest) call(f function) error {
	g.memory.refused = 0
	g.calling.Store(true)
	err := f.CallWithStack(&g.scope, g.stack[:])
	g.calling.Store(false)
	g.scope.Stdio.Flush(&g.scope)
	if err == nil && g.meter.exhausted() {
		err = errOverspent
	}
	return err
}

// buffer gets n bytes from the guest, at an 8-aligned address.
func (g *Guest) buffer(n int) (at uint32, size int, err error) {
	const align = 8
	g.stack[0] = uint64(n + align)
	if err := g.call(g.alloc); err != nil {
		return 0, 0, g.fault(err, abi.ExportAlloc)
	}
	p := g.stack[0] & 0xffffffff
	aligned := (p + align - 1) &^ (align - 1)
	switch {
	case p == 0 && g.memory.refused > 0:
		return 0, 0, g.newFault(guestop.FaultMemory, abi.ExportAlloc, "%s returned 0 for %d bytes: %s", abi.ExportAlloc, n, g.memory.refusal())
	case p == 0 || p+uint64(n)+align > uint64(len(g.scope.Memory)):
		return 0, 0, g.newFault(guestop.FaultProtocol, abi.ExportAlloc, "%s(%d) returned %#x, expected %d bytes inside the memory of %d bytes",
			abi.ExportAlloc, n+align, p, n+align, len(g.scope.Memory))
	}
	return uint32(aligned), n, nil
}

// In returns the input buffer, at least n bytes, growing it by one more mr_alloc if need be. The view is
// valid until the next method call. It starts 8-aligned in guest memory.
func (g *Guest) In(n int) ([]byte, error) {
	if n > g.inCap {
		g.meter.beginPlain(g.code.engine.opts.FuelPerInit)
		in, size, err := g.buffer(roundUp(n))
		if err != nil {
			return nil, err
		}
		g.in, g.inCap = in, size
	}
	end := uint64(g.in) + uint64(g.inCap)
	return g.scope.Memory[g.in:end:end], nil
}

// roundUp leaves a quarter to grow, in whole pages, for what is allocated is never given back.
func roundUp(n int) int { return (n + n/4 + pageBytes - 1) &^ (pageBytes - 1) }

// Call runs mr_process on the block of n bytes in the input buffer, beginning at record first.
func (g *Guest) Call(n int, first uint32) guestop.Outcome {
	if n > g.inCap || n < abi.BlockHeader {
		panic(fmt.Sprintf("engine: call with a block of %d bytes, the input buffer has %d", n, g.inCap))
	}
	g.frames = nil
	block := g.scope.Memory[g.in:]
	records := binary.LittleEndian.Uint32(block[abi.BlockN:]) // now: the guest may write there
	header := g.scope.Memory[g.out : g.out+abi.OutHeader]
	binary.LittleEndian.PutUint32(header[abi.OutConsumed:], ^uint32(0))

	g.meter.begin(first, g.opts.FuelPerRecord, g.opts.FuelPerRecord, g.opts.FuelPerCall)
	g.scope.First, g.scope.N = first, records
	g.stack[0], g.stack[1], g.stack[2], g.stack[3], g.stack[4] =
		uint64(g.in), uint64(n), uint64(g.out), uint64(g.opts.OutputBytes), uint64(first)
	err := g.call(g.process)
	var o guestop.Outcome
	if err != nil {
		o.Fault = g.fault(err, abi.ExportProcess)
	} else {
		o.Consumed, o.Yielded, o.Fault = g.answer(int32(uint32(g.stack[0])), first, records)
	}
	o.Fuel, o.Billed = g.meter.spent(), g.meter.billed()
	g.scope.First, g.scope.N = 0, 0
	return o
}

// answer checks what mr_process returned and wrote at the start of the output buffer.
func (g *Guest) answer(status int32, first, n uint32) (consumed uint32, yielded bool, f *guestop.Fault) {
	out := g.scope.Memory[g.out : int(g.out)+g.opts.OutputBytes]
	consumed = binary.LittleEndian.Uint32(out[abi.OutConsumed:])
	bytes := binary.LittleEndian.Uint32(out[abi.OutBytes:])
	frames := binary.LittleEndian.Uint32(out[abi.OutFrames:])
	cursor := uint32(g.meter.cursor.Get())
	bad := func(format string, args ...any) (uint32, bool, *guestop.Fault) {
		return 0, false, g.newFault(guestop.FaultProtocol, abi.ExportProcess, format, args...)
	}
	switch {
	case status != int32(abi.StatusDone) && status != int32(abi.StatusYield):
		return bad("it returned %d, expected %d (done) or %d (yield)", status, abi.StatusDone, abi.StatusYield)
	case consumed == ^uint32(0):
		return bad("it wrote no header to the output buffer")
	case consumed < first || consumed > n:
		return bad("it says %d records are consumed, expected %d to %d", consumed, first, n)
	case status == int32(abi.StatusDone) && consumed != n:
		return bad("it says done with %d of %d records consumed", consumed, n)
	case status == int32(abi.StatusYield) && consumed == first && n > first:
		return bad("it yielded at record %d without having processed any", first)
	case consumed != cursor && (consumed != cursor+1 || g.meter.askedToYield()):
		return bad("it says %d records are consumed, but the last mr.next was for record %d", consumed, int32(cursor))
	case uint64(bytes) > uint64(g.opts.OutputBytes-abi.OutHeader):
		return bad("it says %d bytes of output, the buffer holds %d", bytes, g.opts.OutputBytes-abi.OutHeader)
	case uint64(frames)*abi.FrameHeader > uint64(bytes):
		return bad("it says %d frames in %d bytes of output", frames, bytes)
	}
	g.frames = out[abi.OutHeader : abi.OutHeader+bytes : abi.OutHeader+bytes]
	return consumed, status == int32(abi.StatusYield), nil
}

// Out is the frames that the last call wrote, unchecked, borrowed until the next method call.
func (g *Guest) Out() []byte { return g.frames }

// Cursor is the record being processed, for host calls; -1 outside any record.
func (g *Guest) Cursor() int { return g.scope.Record() }

// Yield makes mr.next ask the guest to return at its next record.
func (g *Guest) Yield() { g.meter.yield() }

// Memory is the bytes of linear memory in use.
func (g *Guest) Memory() int { return len(g.scope.Memory) }

// Resets is how often the instance was made anew, in place or by replacing it.
func (g *Guest) Resets() int { return g.resets }
