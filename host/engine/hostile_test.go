package engine

import (
	"testing"

	"github.com/millrace-io/millrace/abi"
	w "github.com/millrace-io/millrace/host/instrument/wasmtest"
	"github.com/millrace-io/millrace/operators/guestop"
)

// hostile makes a guest that runs a body for record 0; add makes the functions it calls.
func hostile(add func(m *w.Module) (body []byte)) []byte {
	return assemble(func(m *w.Module) {
		m.Tables = []w.Table{{Elem: w.FuncRef, Min: 1}}
	}, func(m *w.Module) {
		body := add(m)
		m.Funcs[2].Locals = nil
		m.Funcs[2].Body = w.Code(w.LocalGet(4), w.Call(0), w.Op(0x1a), body, w.I32Const(0))
	})
}

// TestHostile: attacks that work on the bare engine end by fuel or limits, at their record.
func TestHostile(t *testing.T) {
	drop := w.Op(0x1a)
	for name, c := range map[string]struct {
		kind guestop.FaultKind
		wasm []byte
	}{
		"exponential calls": {guestop.FaultFuel, hostile(func(m *w.Module) []byte {
			f := m.Func(none, none, nil)
			for range 60 {
				f = m.Func(none, none, nil, w.Call(f), w.Call(f))
			}
			return w.Call(f)
		})},
		"fill storm": {guestop.FaultFuel, hostile(func(m *w.Module) []byte {
			one := w.Code(w.I32Const(0), w.I32Const(1), w.I32Const(32*pageBytes), w.Op(0xfc, 11, 0))
			return w.Code(w.Loop(w.Void), w.Times(400, one), w.Br(0), w.Op(0x0b))
		})},
		"grow storm": {guestop.FaultFuel, hostile(func(m *w.Module) []byte {
			return w.Code(w.Loop(w.Void), w.I32Const(1), w.Op(0x40, 0), drop, w.Br(0), w.Op(0x0b))
		})},
		"table storm": {guestop.FaultFuel, hostile(func(m *w.Module) []byte {
			return w.Code(w.Loop(w.Void), w.Op(0xd0, w.FuncRef), w.I32Const(400_000_000), w.TableGrow(0), drop,
				w.Op(0xd0, w.FuncRef), w.I32Const(1000), w.TableGrow(0), drop, w.Br(0), w.Op(0x0b))
		})},
		"refuelling by next": {guestop.FaultProtocol, hostile(func(m *w.Module) []byte {
			return w.Code(w.Loop(w.Void), w.I32Const(0), w.Call(0), drop, w.Br(0), w.Op(0x0b))
		})},
		"null call": {guestop.FaultTrap, hostile(func(m *w.Module) []byte {
			return w.Code(w.I32Const(0), w.CallIndirect(m.Type(none, none)))
		})},
		"overwritten block": {guestop.FaultTrap, hostile(func(m *w.Module) []byte {
			// n = 2^32-1 in the block, then a trap: the fault's record must still be known
			return w.Code(w.LocalGet(0), w.I32Const(-1), w.I32Store(abi.BlockN), w.Op(0x00))
		})},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := compile(t, c.wasm, nil)
			if err != nil {
				t.Fatal(err)
			}
			before := residentKiB(t)
			o := run(t, m, "a", "b")
			if o.Fault == nil || o.Fault.Kind != c.kind || o.Fault.Record != 0 {
				t.Fatalf("outcome %+v, fault %v", o, o.Fault)
			}
			if rise := residentKiB(t) - before; rise > 80<<10 {
				t.Errorf("resident memory rose by %d KiB", rise)
			}
		})
	}
}
