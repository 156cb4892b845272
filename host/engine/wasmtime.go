//go:build wasmtime

package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bytecodealliance/wasmtime-go/v39"
	"github.com/tetratelabs/wazero/api"

	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
)

// The second engine, to hold wazero's results against: it needs cgo, and this release lacks fixes that later
// ones have, so strangers' code never runs on it in production. A call of it costs microseconds.
//
// Two things differ. It does not tell that a memory.grow was refused, so that the trap that follows is a
// FaultTrap, not a FaultMemory. And Stop reaches a guest at its next host call, or when its fuel is spent.

// WasmtimeVersion names the second engine and its release.
const WasmtimeVersion = "wasmtime v39.0.1"

func init() { buildWasmtime = compileWasmtime }

// maxStack is what guests may use of the thread's stack, bytes.
const maxStack = 1 << 20

type wasmtimeProgram struct {
	engine *wasmtime.Engine
	module *wasmtime.Module
}

func compileWasmtime(_ context.Context, c *code, _ Options) (program, error) {
	config := wasmtime.NewConfig()
	config.SetMaxWasmStack(maxStack)
	config.SetMemoryInitCOWSet(false)
	engine := wasmtime.NewEngineWithConfig(config)
	module, err := wasmtime.NewModule(engine, c.rewritten.Wasm)
	if err != nil {
		engine.Close()
		return nil, &Refused{Problems: []string{fmt.Sprintf("%s refuses the rewritten module: %v", WasmtimeVersion, err)}}
	}
	return &wasmtimeProgram{engine, module}, nil
}

func (p *wasmtimeProgram) close() error {
	p.module.Close()
	p.engine.Close()
	return nil
}

func (p *wasmtimeProgram) instantiate(g *Guest) (instance, error) {
	w := &wasmtimeInstance{guest: g, store: wasmtime.NewStore(p.engine)}
	w.store.Limiter(g.opts.MemoryBytes, -1, 1, -1, 1)
	var imports []wasmtime.AsExtern
	for _, imp := range p.module.Imports() {
		f, _ := hostcall.Lookup(imp.Module(), *imp.Name())
		imports = append(imports, w.host(f))
	}
	in, err := wasmtime.NewInstance(w.store, p.module, imports)
	if err != nil {
		w.store.Close()
		return nil, fmt.Errorf("engine: instantiate module %.12s: %w", g.code.digest, err)
	}
	w.in = in
	w.memory = in.GetExport(w.store, "memory").Memory()
	w.look()
	return w, nil
}

// wasmtimeInstance is one instance in a store of its own.
type wasmtimeInstance struct {
	guest  *Guest
	store  *wasmtime.Store
	in     *wasmtime.Instance
	memory *wasmtime.Memory
	stop   *stopWord
}

// look renews the view of the memory, which moves when it grows.
func (w *wasmtimeInstance) look() { w.guest.scope.Memory = w.memory.UnsafeData(w.store) }

// host makes a host function for this store. A panic in it ends the call into the guest with the same panic.
func (w *wasmtimeInstance) host(f *hostcall.Func) *wasmtime.Func {
	call := f.Go()
	kinds := func(ts []api.ValueType) (out []*wasmtime.ValType) {
		for _, t := range ts {
			kind := wasmtime.KindI32
			if t == api.ValueTypeI64 {
				kind = wasmtime.KindI64
			}
			out = append(out, wasmtime.NewValType(kind))
		}
		return out
	}
	return wasmtime.NewFunc(w.store, wasmtime.NewFuncType(kinds(f.Params), kinds(f.Results)),
		func(_ *wasmtime.Caller, args []wasmtime.Val) ([]wasmtime.Val, *wasmtime.Trap) {
			w.look()
			stack := make([]uint64, max(len(args), 1))
			for i, a := range args {
				stack[i] = bitsOf(a)
			}
			call.Call(&w.guest.scope, stack)
			w.stop.pass()
			if len(f.Results) == 0 {
				return nil, nil
			}
			return []wasmtime.Val{valOf(f.Results[0] == api.ValueTypeI64, stack[0])}, nil
		})
}

func bitsOf(v wasmtime.Val) uint64 {
	if v.Kind() == wasmtime.KindI64 {
		return uint64(v.I64())
	}
	return uint64(uint32(v.I32()))
}

func valOf(long bool, bits uint64) wasmtime.Val {
	if long {
		return wasmtime.ValI64(int64(bits))
	}
	return wasmtime.ValI32(int32(uint32(bits)))
}

func (w *wasmtimeInstance) function(name string) function {
	f := w.in.GetFunc(w.store, name)
	if f == nil {
		return nil
	}
	wf := &wasmtimeFunction{w: w, f: f}
	for _, p := range f.Type(w.store).Params() {
		wf.long = append(wf.long, p.Kind() == wasmtime.KindI64)
	}
	return wf
}

func (w *wasmtimeInstance) global(name string) hostcall.Word {
	e := w.in.GetExport(w.store, name)
	if e == nil || e.Global() == nil {
		return nil
	}
	t := e.Global().Type(w.store)
	if !t.Mutable() {
		return nil
	}
	word := &wasmtimeWord{w.store, e.Global(), t.Content().Kind() == wasmtime.KindI64}
	if name == instrument.GlobalStop {
		w.stop = &stopWord{real: word}
		return w.stop
	}
	return word
}

func (w *wasmtimeInstance) grow(pages uint32) bool {
	_, err := w.memory.Grow(w.store, uint64(pages))
	w.look()
	return err == nil
}

func (w *wasmtimeInstance) zero() error {
	clear(w.guest.scope.Memory)
	return nil
}

func (w *wasmtimeInstance) close() error {
	w.guest.scope.Memory = nil
	w.store.Close()
	return nil
}

// wasmtimeWord is a mutable global. It belongs to the goroutine of the store.
type wasmtimeWord struct {
	store  *wasmtime.Store
	global *wasmtime.Global
	long   bool
}

// Get implements hostcall.Word.
func (g *wasmtimeWord) Get() uint64 { return bitsOf(g.global.Get(g.store)) }

// Set implements hostcall.Word.
func (g *wasmtimeWord) Set(v uint64) {
	if err := g.global.Set(g.store, valOf(g.long, v)); err != nil {
		panic(fmt.Sprintf("engine: set a global of the rewriter: %v", err)) // its type and mutability are known
	}
}

// stopWord may be set from any goroutine; the store's own passes the value on.
type stopWord struct {
	value atomic.Uint64
	real  *wasmtimeWord
}

// Get implements hostcall.Word.
func (s *stopWord) Get() uint64 { return s.value.Load() }

// Set implements hostcall.Word.
func (s *stopWord) Set(v uint64) { s.value.Store(v) }

func (s *stopWord) pass() { s.real.Set(s.value.Load()) }

// wasmtimeFunction is an exported function.
type wasmtimeFunction struct {
	w    *wasmtimeInstance
	f    *wasmtime.Func
	long []bool // which parameters are i64
}

// CallWithStack implements function.
func (f *wasmtimeFunction) CallWithStack(_ context.Context, stack []uint64) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case *hostcall.Abort:
			err = x
		default:
			panic(x)
		}
		f.w.look()
	}()
	f.w.stop.pass()
	args := make([]any, len(f.long))
	for i, long := range f.long {
		args[i] = valOf(long, stack[i])
	}
	result, err := f.f.Call(f.w.store, args...)
	if err != nil {
		return trapText(err)
	}
	switch r := result.(type) {
	case int32:
		stack[0] = uint64(uint32(r))
	case int64:
		stack[0] = uint64(r)
	}
	return nil
}

// trapNames are wazero's words for the traps of both.
var trapNames = map[wasmtime.TrapCode]string{
	wasmtime.StackOverflow: "stack overflow", wasmtime.MemoryOutOfBounds: "out of bounds memory access",
	wasmtime.TableOutOfBounds: "invalid table access", wasmtime.IndirectCallToNull: "invalid table access",
	wasmtime.BadSignature: "indirect call type mismatch", wasmtime.IntegerOverflow: "integer overflow",
	wasmtime.IntegerDivisionByZero: "integer divide by zero", wasmtime.BadConversionToInteger: "invalid conversion to integer",
	wasmtime.UnreachableCodeReached: "unreachable",
}

// trapText says what happened as splitTrap takes it apart.
func trapText(err error) error {
	var trap *wasmtime.Trap
	if !errors.As(err, &trap) {
		return err
	}
	text := trap.Message()
	if code := trap.Code(); code != nil && trapNames[*code] != "" {
		text = trapNames[*code]
	}
	text = "wasm error: " + text + traceHead
	for _, frame := range trap.Frames() {
		text += fmt.Sprintf("\n\t.$%d()", frame.FuncIndex())
	}
	return errors.New(text)
}
