// Package engine runs guest modules on wazero, behind the interfaces of operators/guestop.
//
// A module goes through Validate (our own parser), the checks of what it imports and exports, the
// rewriter (mr.next, fuel, stop flag) and wazero's compiler. Each distinct module has one wazero runtime,
// shared by all its instances and closed with the last of them. An instance is a Guest: linear memory by
// mmap, cached functions, host calls through host/hostcall with the instance itself as their context.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Version names the engine and its release; compiled code of another one is never used.
const Version = "wazero v1.12.0"

// Options say how modules are compiled. The zero value compiles in memory, under the default limits.
type Options struct {
	// CacheDir is a folder for compiled code, made if need be; empty: none. Whoever can write to it can run
	// code in this process: it must belong to the service. A damaged entry is found by its checksum and
	// compiled anew.
	CacheDir string
	// Interpreter interprets instead of compiling: 20 to 100 times slower, the same results.
	Interpreter bool
	// Wasmtime runs on that engine instead of wazero, for comparison only: in a build with the tag wasmtime.
	Wasmtime bool
	// Limits bound what a module may contain. Zero: instrument.DefaultLimits.
	Limits instrument.Limits
	// FuelPerInit is what start, _initialize and mr_alloc may spend together, and mr_describe by itself.
	// Zero: abi.FuelPerInit.
	FuelPerInit int64
}

// Engine compiles modules. Safe for concurrent use.
type Engine struct {
	opts Options

	mu     sync.Mutex
	codes  map[string]*code // by digest of the original module
	closed bool
}

// buildWasmtime compiles with wasmtime; nil: it is not in this build.
var buildWasmtime func(context.Context, *code, Options) (program, error)

// ErrClosed is returned by an engine or a module that was closed.
var ErrClosed = errors.New("engine: closed")

// New makes an engine.
func New(_ context.Context, o Options) (*Engine, error) {
	if o.Wasmtime && buildWasmtime == nil {
		return nil, errors.New("engine: this build has no wasmtime; it takes -tags wasmtime and cgo")
	}
	if o.Limits == (instrument.Limits{}) {
		o.Limits = instrument.DefaultLimits()
		o.Limits.MemoryPages = abi.MaxMemoryBytes / pageBytes // each instance has its own limit
	}
	if err := o.Limits.Check(); err != nil {
		return nil, err
	}
	if o.Limits.MemoryPages > abi.MaxMemoryBytes/pageBytes {
		return nil, fmt.Errorf("engine: memory limit of %d pages, at most %d", o.Limits.MemoryPages, abi.MaxMemoryBytes/pageBytes)
	}
	if o.FuelPerInit < 0 {
		return nil, fmt.Errorf("engine: fuel for initialisation %d, expected a positive number", o.FuelPerInit)
	}
	if o.FuelPerInit == 0 {
		o.FuelPerInit = abi.FuelPerInit
	}
	return &Engine{opts: o, codes: map[string]*code{}}, nil
}

// Compile makes a module of wasm. describe is used if the module doesn't describe itself. The error of a
// module that can't be used is a *Refused with everything that is wrong, or *guestop.Fault if its
// mr_describe failed. The result is a *Module; close it when no more instances are wanted.
func (e *Engine) Compile(ctx context.Context, wasm []byte, describe *abi.Descriptor) (guestop.Module, error) {
	c, err := e.code(ctx, wasm)
	if err != nil {
		return nil, err
	}
	d := c.descriptor
	if d == nil {
		d = describe
	}
	if d == nil {
		err = &Refused{Problems: []string{fmt.Sprintf(
			"the module doesn't say what it offers: expected a custom section %q, an export %q, or a description in the pipeline file",
			abi.DescriptorSection, abi.ExportDescribe)}}
	} else if problems := checkDescriptor(d, c.wasm); len(problems) > 0 {
		err = &Refused{Problems: problems}
	}
	if err != nil {
		return nil, errors.Join(err, c.release())
	}
	return &Module{code: c, descriptor: d}, nil
}

// code compiles wasm unless it is compiled, and counts a reference to it. Two who want the same module at
// once compile it once.
func (e *Engine) code(ctx context.Context, wasm []byte) (*code, error) {
	sum := sha256.Sum256(wasm)
	c, err := e.acquire(hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, err
	}
	c.once.Do(func() { c.err = c.compile(ctx, e.opts, wasm) })
	if c.err != nil {
		return nil, errors.Join(c.err, c.release())
	}
	return c, nil
}

// acquire finds or makes the entry of a module and counts a reference to it.
func (e *Engine) acquire(digest string) (*code, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	c := e.codes[digest]
	if c == nil {
		c = &code{engine: e, digest: digest}
		e.codes[digest] = c
	}
	c.refs++
	return c, nil
}

// Close refuses further compiling. Code in use is freed with its last module and instance.
func (e *Engine) Close(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	return nil
}

// Modules is how many distinct modules are compiled, for stats and tests.
func (e *Engine) Modules() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.codes)
}
