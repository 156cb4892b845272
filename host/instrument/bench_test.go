package instrument

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/hostile"

	wt "github.com/millrace-io/millrace/host/instrument/wasmtest"
)

// kernels is a module whose functions take the number of turns.
func kernels() *wt.Module {
	m := &wt.Module{Memories: []wt.Memory{{Min: 2}}}
	loop := func(body ...[]byte) []byte {
		return wt.Code(wt.Loop(wt.Void), wt.Code(body...),
			wt.LocalGet(0), wt.I32Const(1), wt.I32Sub, wt.LocalTee(0), wt.BrIf(0), wt.End)
	}
	m.ExportFunc("tight", i32s, i32s, i32s,
		loop(wt.LocalGet(1), wt.I32Const(1664525), wt.I32Mul, wt.LocalGet(0), wt.I32Add, wt.LocalSet(1)), wt.LocalGet(1))
	m.ExportFunc("bytes", i32s, i32s, i32s,
		loop(wt.LocalGet(0), wt.I32Const(65535), wt.I32And, wt.LocalTee(1), wt.LocalGet(1), wt.I32Load8U(1),
			wt.I32Const(3), wt.I32Add, wt.I32Store8(0)), wt.LocalGet(1))
	leaf := m.Func(i32s, i32s, nil, wt.LocalGet(0), wt.I32Const(3), wt.I32Mul, wt.I32Const(1), wt.I32Add)
	m.ExportFunc("calls", i32s, i32s, i32s, loop(wt.LocalGet(1), wt.Call(leaf), wt.LocalSet(1)), wt.LocalGet(1))
	m.ExportFunc("branches", i32s, i32s, i32s, loop(
		wt.LocalGet(0), wt.I32Const(1), wt.I32And, wt.If(wt.Void), wt.LocalGet(1), wt.I32Const(7), wt.I32Add, wt.LocalSet(1), wt.Else,
		wt.LocalGet(1), wt.I32Const(5), wt.I32Mul, wt.LocalSet(1), wt.End,
		wt.Block(wt.Void), wt.LocalGet(1), wt.I32Const(255), wt.I32And, wt.BrIf(0), wt.LocalGet(1), wt.I32Const(9), wt.I32Add, wt.LocalSet(1), wt.End),
		wt.LocalGet(1))
	m.ExportFunc("copies", i32s, i32s, i32s, loop(
		wt.LocalGet(0), wt.I32Const(4095), wt.I32And, wt.I32Const(8192), wt.LocalGet(0), wt.I32Const(63), wt.I32And, wt.MemoryCopy), wt.LocalGet(1))
	fib := uint32(len(m.Funcs))
	m.ExportFunc("fib", i32s, i32s, nil,
		wt.LocalGet(0), wt.I32Const(2), wt.I32LtU, wt.If(wt.Void), wt.LocalGet(0), wt.Return, wt.End,
		wt.LocalGet(0), wt.I32Const(1), wt.I32Sub, wt.Call(fib), wt.LocalGet(0), wt.I32Const(2), wt.I32Sub, wt.Call(fib), wt.I32Add)
	return m
}

// BenchmarkFuel compares kernels plain and metered; "units" is the fuel of one turn.
func BenchmarkFuel(b *testing.B) {
	wasm := kernels().Bytes()
	e := newEngine(b, false)
	plain := e.instance(b, wasm)
	metered := e.instance(b, rewrite(b, wasm, DefaultOptions()).Wasm)
	for _, k := range []struct {
		name string
		n    uint64
	}{{"tight", 100_000}, {"bytes", 100_000}, {"calls", 100_000}, {"branches", 100_000}, {"copies", 100_000}, {"fib", 22}} {
		for _, form := range []struct {
			name string
			i    *instance
		}{{"plain", plain}, {"metered", metered}} {
			b.Run(k.name+"/"+form.name, func(b *testing.B) {
				turns := k.n
				if k.name == "fib" {
					turns = 57313 // calls of fib(22)
				}
				for n := 0; n < b.N; n++ {
					if form.i == metered {
						form.i.begin(plenty, plenty, plenty, 0)
					}
					if _, err := form.i.call(k.name, k.n); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(turns), "ns/turn")
				if form.i == metered {
					b.ReportMetric(float64(plenty-form.i.get(GlobalFuel))/float64(turns), "units/turn")
				}
			})
		}
	}
}

// BenchmarkNext is the price of a record in a guest that echoes 108-byte frames, 256 to a call.
func BenchmarkNext(b *testing.B) {
	values := make([]string, abi.DefaultBatchRecords)
	for i := range values {
		values[i] = fmt.Sprintf("%068d", i)
	}
	block := blockOf(values...)
	e := newEngine(b, false)
	wasm := hostile.ByName("echo").Wasm
	for _, form := range []struct {
		name string
		opt  Options
	}{{"next-only", Options{}}, {"fuel", Options{Fuel: true}}, {"fuel-inline", Options{Fuel: true, InlineNext: true}}} {
		b.Run(form.name, func(b *testing.B) {
			i := e.instance(b, rewrite(b, wasm, form.opt).Wasm)
			i.begin(plenty, plenty, plenty, 0)
			in, _ := i.call(abi.ExportAlloc, uint64(len(block)))
			out, _ := i.call(abi.ExportAlloc, 1<<20)
			i.Memory().Write(uint32(in[0]), block)
			process := i.ExportedFunction(abi.ExportProcess)
			b.ResetTimer()
			for n := 0; n < b.N; n++ {
				i.begin(plenty, plenty, plenty, 0)
				if _, err := process.Call(b.Context(), in[0], uint64(len(block)), out[0], 1<<20, 0); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if c, _ := i.Memory().ReadUint32Le(uint32(out[0])); int(c) != len(values) {
				b.Fatalf("consumed %d of %d", c, len(values))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(values)), "ns/record")
		})
	}
}

// BenchmarkValidate and BenchmarkRewrite read a module of about 2 MB.
func BenchmarkValidate(b *testing.B) {
	wasm := largeModule()
	b.SetBytes(int64(len(wasm)))
	for n := 0; n < b.N; n++ {
		if _, err := Validate(wasm, DefaultLimits()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRewrite(b *testing.B) {
	wasm := largeModule()
	m, err := Validate(wasm, DefaultLimits())
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wasm)))
	var r *Rewritten
	for n := 0; n < b.N; n++ {
		if r, err = Rewrite(wasm, m, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(r.CodeAfter)/float64(r.CodeBefore), "growth")
}

func largeModule() []byte {
	m := wt.Generate(2).Module
	for len(m.Funcs) < 2_000 {
		m.Funcs = append(m.Funcs, m.Funcs[len(m.Funcs)%5])
	}
	m.Customs = []wt.Custom{{Name: "filler", Bytes: binary.LittleEndian.AppendUint64(nil, 1)}}
	return m.Bytes()
}
