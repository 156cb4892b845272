package engine

import (
	"errors"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/host/instrument"
	"github.com/millrace-io/millrace/operators/guestop"
)

// callDescribe runs mr_describe on an instance of its own, without state, clock or randomness.
func (c *code) callDescribe(o Options) (b []byte, err error) {
	g := &Guest{code: c, env: hostcall.NoEnv{}, opts: guestop.InstanceOptions{MemoryBytes: int64(o.Limits.MemoryPages) * pageBytes}}
	if err := g.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.module.close()) }()
	for _, s := range c.data {
		copy(g.scope.Memory[s.at:], s.bytes)
	}
	g.meter.beginPlain(o.FuelPerInit)
	for _, name := range []string{instrument.ExportStart, abi.ExportInitialize, abi.ExportDescribe} {
		if f := g.module.function(name); f != nil {
			if err := g.call(f); err != nil {
				return nil, g.fault(err, name)
			}
		}
	}
	ptr, n := g.stack[0]>>32, g.stack[0]&0xffffffff
	if n > maxDescriptorBytes {
		return nil, g.newFault(guestop.FaultProtocol, abi.ExportDescribe, "a descriptor of %d bytes, at most %d", n, maxDescriptorBytes)
	}
	at, ok := g.scope.Bytes(ptr, n)
	if !ok {
		return nil, g.newFault(guestop.FaultProtocol, abi.ExportDescribe, "it returned [%#x, +%d), outside the memory of %d bytes", ptr, n, len(g.scope.Memory))
	}
	return append([]byte(nil), at...), nil
}
