package engine

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
)

// code is one compiled module with its runtime: shared by all Modules of the same bytes and by their
// instances, freed with the last of them.
type code struct {
	engine *Engine
	digest string
	refs   int // guarded by engine.mu

	once       sync.Once
	err        error
	program    program
	wasm       *instrument.Module // what the original contains
	rewritten  *instrument.Rewritten
	data       []segment       // that instances copy themselves
	descriptor *abi.Descriptor // what the module says of itself; nil: nothing
}

// retain counts one more user.
func (c *code) retain() {
	c.engine.mu.Lock()
	c.refs++
	c.engine.mu.Unlock()
}

// release drops a user; the last one frees the code.
func (c *code) release() error {
	c.engine.mu.Lock()
	c.refs--
	last := c.refs == 0
	if last {
		delete(c.engine.codes, c.digest)
	}
	c.engine.mu.Unlock()
	if !last {
		return nil
	}
	return c.free()
}

func (c *code) free() error {
	if c.program == nil {
		return nil
	}
	p := c.program
	c.program = nil
	return p.close()
}

// Module is a compiled module with its description. It implements guestop.Module.
type Module struct {
	code       *code
	descriptor *abi.Descriptor
	closed     atomic.Bool
}

var _ guestop.Module = (*Module)(nil)

// Digest is the SHA-256 of the original module, hex.
func (m *Module) Digest() string { return m.code.digest }

// Descriptor is what the module offers.
func (m *Module) Descriptor() *abi.Descriptor { return m.descriptor }

// New makes an initialised instance. An error is a *guestop.Fault if the guest's own code failed.
func (m *Module) New(env guestop.Env, o guestop.InstanceOptions) (guestop.Guest, error) {
	if m.closed.Load() {
		return nil, ErrClosed
	}
	o, err := checkOptions(o)
	if err != nil {
		return nil, err
	}
	if err := m.code.checkMemory(o.MemoryBytes); err != nil {
		return nil, err
	}
	m.code.retain()
	g := &Guest{code: m.code, env: env, opts: o}
	err = g.open()
	if err == nil {
		err = g.start()
	}
	if err != nil {
		return nil, errors.Join(err, m.code.release())
	}
	return g, nil
}

// Close gives the module up. Instances live on; the code is freed with the last of them.
func (m *Module) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	return m.code.release()
}
