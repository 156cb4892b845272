package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/engine/enginetest"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Bounds of the stateless guests: in C by hand on the ABI, in Rust through the SDK.
const (
	statelessCRatio    = 0.60 // of native Go with the same copies
	statelessRustRatio = 0.42
	statelessRate      = 10e6 // records/s/core
)

func init() {
	Register("stateless.c", func() error {
		return measureStateless("stateless.c", cases.Module("filtermap"), statelessCRatio)
	})
	Register("stateless.rust", func() error {
		return measureStateless("stateless.rust", cases.Module("stateless"), statelessRustRatio)
	})
	Register("engine.call", measureCalls)
	Register("engine.instances", measureInstances)
}

// measureStateless compares a filter+map guest with native Go on the same batches.
func measureStateless(name string, wasm []byte, ratio float64) error {
	g, done, err := openGuest(wasm)
	if err != nil {
		return err
	}
	batches := makeBatches(1024, 256, 1000)
	pass, failed := guestPass(g, batches)
	guest, native, r := result.Pair(pass, filterMapCopied(batches))
	if *failed != nil {
		return errors.Join(*failed, done())
	}
	result.Note(name+".native", native, "records/s/core")
	result.AtLeast(name+".ratio", r, "of_native", ratio)
	judge(nativeFilterMap(), name, guest, statelessRate)
	return done()
}

// openGuest compiles a module and makes an instance; done closes both.
func openGuest(wasm []byte) (guestop.Guest, func() error, error) {
	ctx := context.Background()
	e, err := engine.New(ctx, engine.Options{})
	if err != nil {
		return nil, nil, err
	}
	m, err := e.Compile(ctx, wasm, nil)
	if err != nil {
		return nil, nil, err
	}
	env := enginetest.NewEnv()
	env.Quiet = true
	g, err := m.New(env, guestop.InstanceOptions{})
	if err != nil {
		return nil, nil, err
	}
	return g, func() error { return errors.Join(g.Close(), m.(*engine.Module).Close(), e.Close(ctx)) }, nil
}

// guestPass returns one pass over the batches: the block is built in the guest's memory, the outputs are
// copied out.
func guestPass(g guestop.Guest, batches []*abi.Batch) (pass func() int, failed *error) {
	sink := make([]byte, 0, 2*abi.MaxBatchBytes)
	failed = new(error)
	return func() int {
		for _, b := range batches {
			n := blockBytes(b)
			in, err := g.In(n)
			if err != nil {
				*failed = err
				return 1
			}
			writeBlock(in, b)
			sink = sink[:0]
			for first := uint32(0); ; {
				o := g.Call(n, first)
				if o.Fault != nil {
					*failed = o.Fault
					return 1
				}
				sink = append(sink, g.Out()...)
				if !o.Yielded {
					break
				}
				first = o.Consumed
			}
		}
		return countRecords(batches)
	}, failed
}

func blockBytes(b *abi.Batch) int { return framesAt(b) + len(b.Data) }

func framesAt(b *abi.Batch) int { return (abi.BlockHeader + 4*b.Len() + 7) &^ 7 }

// writeBlock puts a batch without keys, states and marks into in.
func writeBlock(in []byte, b *abi.Batch) {
	le := binary.LittleEndian
	base := framesAt(b)
	clear(in[:abi.BlockHeader])
	le.PutUint32(in[abi.BlockN:], uint32(b.Len()))
	le.PutUint32(in[abi.BlockOffsets:], abi.BlockHeader)
	offsets := in[abi.BlockHeader : abi.BlockHeader+4*b.Len()]
	for i, off := range b.Off {
		le.PutUint32(offsets[4*i:], uint32(base)+off)
	}
	copy(in[base:], b.Data)
}

// measureCalls is the price of the transitions.
func measureCalls() error {
	g, done, err := openGuest(cases.Module("filtermap"))
	if err != nil {
		return err
	}
	empty := &abi.Batch{}
	in, err := g.In(abi.BlockHeader)
	if err != nil {
		return err
	}
	writeBlock(in, empty)
	const calls = 1_000_000
	result.Note("engine.call_of_an_empty_block", 1e9/result.Rate(func() int {
		for range calls {
			g.Call(abi.BlockHeader, 0)
		}
		return calls
	}), "ns")
	if err := done(); err != nil {
		return err
	}
	k, done, err := openGuest(cases.Module("kitchen"))
	if err != nil {
		return err
	}
	const perBatch = 256
	values := make([]string, perBatch)
	for i := range values {
		values[i] = "x" + enginetest.U32(4, 0) // clear(0)
	}
	batches := []*abi.Batch{enginetest.Values(values...)}
	for i := range values {
		values[i] = "x" + enginetest.U32(99, 0) // nothing
	}
	without := []*abi.Batch{enginetest.Values(values...)}
	with, failed := guestPass(k, batches)
	idle, failed2 := guestPass(k, without)
	repeat := func(f func() int) func() int {
		return func() int {
			for range 1000 {
				f()
			}
			return 1000 * perBatch
		}
	}
	a, b, _ := result.Pair(repeat(with), repeat(idle))
	if err := errors.Join(*failed, *failed2); err != nil {
		return err
	}
	result.Note("engine.host_call", 1e9/a-1e9/b, "ns")
	return done()
}

// measureInstances is the price of instances, of a reset in place, and of compiling.
func measureInstances() error {
	ctx := context.Background()
	e, err := engine.New(ctx, engine.Options{})
	if err != nil {
		return err
	}
	wasm := cases.Module("kitchen")
	var failed error
	note := func(name string, f func() error) {
		result.Note(name, 1e6/result.Rate(func() int {
			const n = 200
			for range n {
				if err := f(); err != nil {
					failed = fmt.Errorf("%s: %w", name, err)
				}
			}
			return n
		}), "us")
	}
	note("engine.compile_small", func() error {
		m, err := e.Compile(ctx, wasm, nil)
		if err != nil {
			return err
		}
		return m.(*engine.Module).Close()
	})
	m, err := e.Compile(ctx, wasm, nil)
	if err != nil {
		return err
	}
	note("engine.new_and_close", func() error {
		g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
		if err != nil {
			return err
		}
		return g.Close()
	})
	g, err := m.New(enginetest.NewEnv(), guestop.InstanceOptions{})
	if err != nil {
		return err
	}
	note("engine.reset_in_place", g.Reset)
	return errors.Join(failed, g.Close(), m.(*engine.Module).Close(), e.Close(ctx))
}
