package modcheck

import (
	"encoding/json"
	"testing"

	"github.com/millrace-io/millrace/abi"
	w "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// Locals of the planted guests' loop. in, size, out, room and first are the parameters of mr_process.
const (
	locIn, locOut, locFirst = 0, 2, 4
	locI, locAt, locFrame   = 5, 6, 7
)

// Places in the planted guests' memory, and their imports.
const (
	cell, pending, buffer = 1024, 1032, 2048
	impNext, impPut       = 0, 1
	impTimer              = 2
	global                = 0 // a counter, i64
)

// planted is a guest with one function, whose code leaves an i64 for each record: what comes out.
type planted struct {
	fn     abi.Function
	record []byte // leaves the i64
	before []byte // of each call
	time   []byte // leaves the i64 that is the output's time; nil: that of the record
	after  []byte // each call
	row    bool   // the output is a row of one int64, and only of a result
}

func i64Load(offset uint32) []byte { return append([]byte{0x29, 0}, w.U32(offset)...) }
func i64Op(code byte) []byte       { return []byte{code} }

var (
	i64Extend = i64Op(0xad) // of an i32
	i64GtU    = i64Op(0x56)
	frameAt   = w.LocalGet(locFrame)
	outAt     = w.Code(w.LocalGet(locOut), w.LocalGet(locAt), w.I32Add)
	count     = w.Code(w.GlobalGet(global), w.I64Const(1), w.I64Add, w.GlobalSet(global))
)

// add adds one to an i64 in memory.
func add(at int32) []byte {
	return w.Code(w.I32Const(at), w.I32Const(at), i64Load(0), w.I64Const(1), w.I64Add, w.I64Store(0))
}

func load(at int32) []byte { return w.Code(w.I32Const(at), i64Load(0)) }

// emit writes the output of a record: its frame with the value that the function left in locValue.
func (p *planted) emit(locValue uint32) []byte {
	size, value := int32(48), uint32(56)
	var row []byte
	if p.row {
		size, value = 56, 64
		row = w.Code(outAt, w.I64Const(0), w.I64Store(56))
	}
	time := p.time
	if time == nil {
		time = w.Code(frameAt, i64Load(8))
	}
	return w.Code(
		outAt, w.I32Const(size), w.I32Store(16+0),
		outAt, w.I32Const(2), w.I32Store(16+4), // a value
		outAt, time, w.I64Store(16+8),
		outAt, w.I32Const(0), w.I32Store(16+16),
		outAt, w.I32Const(size-40), w.I32Store(16+20),
		outAt, w.I32Const(0), w.I32Store(16+24),
		outAt, w.LocalGet(locI), w.I32Store(16+28),
		outAt, w.I64Const(0), w.I64Store(16+32),
		row, outAt, w.LocalGet(locValue), w.I64Store(value),
		w.LocalGet(locAt), w.I32Const(size), w.I32Add, w.LocalSet(locAt))
}

// wasm is the module.
func (p *planted) wasm(t *testing.T) []byte {
	t.Helper()
	const locValue, locN = 8, 9
	var m w.Module
	m.Import("mr", "next", []byte{w.I32}, []byte{w.I32})
	m.Import("mr", "put", []byte{w.I32, w.I32, w.I32, w.I32, w.I32}, []byte{w.I32})
	m.Import("mr", "timer_set", []byte{w.I32, w.I32, w.I32, w.I64}, []byte{w.I32})
	m.Memories = []w.Memory{{Min: 40}}
	m.Export("memory", w.KindMemory, 0)
	m.Global(w.I64, true, w.I64Const(0))
	m.Global(w.I32, true, w.I32Const(65536)) // where mr_alloc goes on
	m.ExportFunc("mr_abi_v0", nil, nil, nil)
	m.ExportFunc("mr_alloc", []byte{w.I32}, []byte{w.I32}, nil, w.GlobalGet(1), w.GlobalGet(1), w.LocalGet(0), w.I32Add,
		w.I32Const(16), w.I32Add, w.I32Const(-16), w.I32And, w.GlobalSet(1))
	out := p.emit(locValue)
	if p.row {
		out = w.Code(frameAt, w.I32Load8U(abi.FrameOutput), w.I32Const(abi.StepResult), w.I32Eq, w.If(w.Void), out, w.End)
	}
	m.ExportFunc("mr_process", []byte{w.I32, w.I32, w.I32, w.I32, w.I32}, []byte{w.I32}, []byte{w.I32, w.I32, w.I32, w.I64, w.I32},
		p.before, w.LocalGet(locIn), w.I32Load(4), w.LocalSet(locN), w.LocalGet(locFirst), w.LocalSet(locI),
		w.Block(w.Void), w.Loop(w.Void),
		w.LocalGet(locI), w.Call(impNext), w.BrIf(1),
		w.LocalGet(locI), w.LocalGet(locN), w.I32GeU, w.BrIf(1),
		w.LocalGet(locIn), w.LocalGet(locIn), w.I32Load(8), w.I32Add, w.LocalGet(locI), w.I32Const(4), w.I32Mul, w.I32Add, w.I32Load(0),
		w.LocalGet(locIn), w.I32Add, w.LocalSet(locFrame),
		p.record, w.LocalSet(locValue), out,
		w.LocalGet(locI), w.I32Const(1), w.I32Add, w.LocalSet(locI), w.Br(0), w.End, w.End,
		p.after,
		w.LocalGet(locOut), w.LocalGet(locI), w.I32Store(0),
		w.LocalGet(locOut), w.LocalGet(locAt), w.I32Store(4),
		w.LocalGet(locOut), w.LocalGet(locAt), w.I32Const(48), []byte{0x6e}, w.I32Store(8), // frames, or fewer
		w.LocalGet(locI), w.LocalGet(locN), w.I32LtU)
	d, err := json.Marshal(abi.Descriptor{ABI: abi.Version, Name: "planted", Functions: []abi.Function{p.fn}})
	if err != nil {
		t.Fatal(err)
	}
	m.Customs = []w.Custom{{Name: abi.DescriptorSection, Bytes: d}}
	return m.Bytes()
}

func mapper() abi.Function { return abi.Function{Name: "planted", Kind: abi.FunctionMap} }

func keyed() abi.Function {
	return abi.Function{Name: "planted", Kind: abi.FunctionProcess, Keyed: true, Timers: []string{"event"},
		States: []abi.StateDescriptor{{Name: "seen", Kind: abi.StateMap}}}
}

// innocent is a guest that passes: what comes out is the first eight bytes of the record's frame's time.
var innocent = w.Code(frameAt, i64Load(8))

// plants are guests that keep something, or let records of a call touch each other.
var plants = []struct {
	name string
	p    planted
	what string // of the difference
	at   string
}{
	{"counter in a variable", planted{fn: mapper(), record: w.Code(count, w.GlobalGet(global))}, keeps, "record 2 of"},
	{"cache that changes what comes out", planted{fn: mapper(), record: w.Code(
		load(cell), w.I64Const(0), i64Op(0x51), w.If(w.Void), w.I32Const(cell), frameAt, i64Load(8), w.I64Store(0), w.End, load(cell))}, keeps, "record 2 of"},
	{"buffer that is not cleared", planted{fn: mapper(), record: w.Code( // the value's bytes over those of the record before
		w.I32Const(buffer), frameAt, w.I32Const(40), w.I32Add, frameAt, w.I32Load(16), w.I32Add, frameAt, w.I32Load(20), w.MemoryCopy, load(buffer))}, keeps, "record"},
	{"what is left of the call before, seen by 7", planted{fn: mapper(), after: w.Code(w.I32Const(pending), load(cell), w.I64Store(0), w.I32Const(cell), w.I64Const(0), w.I64Store(0)),
		record: w.Code(add(cell), load(pending), w.I64Const(1), i64GtU, i64Extend)}, keeps, "record 8 of"},
	{"number in the call", planted{fn: mapper(), before: w.Code(w.I32Const(cell), w.I64Const(0), w.I64Store(0)), record: w.Code(add(cell), load(cell))}, together, "record 2 of"},
	{"state only", planted{fn: keyed(), record: w.Code(add(cell), w.I32Const(0), w.I32Const(cell), w.I32Const(1), w.I32Const(cell), w.I32Const(1), w.Call(impPut), w.Drop, innocent)}, keeps, "record 2 of"},
	{"timers only", planted{fn: keyed(), record: w.Code(count, w.I32Const(0), w.I32Const(cell), w.I32Const(1), frameAt, i64Load(8), w.GlobalGet(global), w.I64Add, w.Call(impTimer), w.Drop, innocent)}, keeps, "record 2 of"},
	{"trap after 100 records", planted{fn: mapper(), record: w.Code(count, w.GlobalGet(global), w.I64Const(100), i64GtU, w.If(w.Void), w.Unreachable, w.End, innocent)}, keeps, "record 101 of"},
	{"aggregate", planted{fn: abi.Function{Name: "planted", Kind: abi.FunctionAggregate, Output: []abi.Field{{Name: "n", Type: abi.TypeInt64}},
		States: []abi.StateDescriptor{{Name: "acc", Kind: abi.StateValue, MaxBytes: 8}}}, row: true, record: w.Code(count, w.GlobalGet(global))}, keeps, "step 6 of"},
	{"window", planted{fn: abi.Function{Name: "planted", Kind: abi.FunctionWindow}, record: w.Code(count, w.GlobalGet(global))}, keeps, "window 2 of"},
	{"watermark", planted{fn: abi.Function{Name: "planted", Kind: abi.FunctionWatermark}, record: innocent,
		time: w.Code(count, frameAt, i64Load(8), w.GlobalGet(global), w.I64Add)}, keeps, "record 2 of"},
}

const (
	keeps    = "keeps something between calls that is not state"
	together = "gives something else when records come together in a call"
)
