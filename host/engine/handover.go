package engine

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

var _ guestop.Saver = (*Guest)(nil)

// Save implements guestop.Saver. The parts go through the output buffer.
func (g *Guest) Save(part func(b []byte) error) error {
	size := g.opts.OutputBytes
	for {
		n, err := g.stream(abi.ExportSave, g.out, size)
		if err != nil {
			return err
		}
		switch {
		case n < 0:
			return g.newFault(guestop.FaultReturned, abi.ExportSave, "it returned %d", n)
		case int(n) > size:
			return g.newFault(guestop.FaultProtocol, abi.ExportSave, "it says it wrote %d bytes, the buffer has %d", n, size)
		case n == 0:
			return nil
		}
		if err := part(g.scope.Memory[g.out : int(g.out)+int(n)]); err != nil {
			return err
		}
	}
}

// Load implements guestop.Saver. The parts go through the input buffer.
func (g *Guest) Load(part []byte) error {
	for first := true; first || len(part) > 0; first = false {
		n := copy(g.scope.Memory[g.in:int(g.in)+g.inCap], part)
		part = part[n:]
		status, err := g.stream(abi.ExportLoad, g.in, n)
		if err != nil {
			return err
		}
		if status != 0 {
			return g.newFault(guestop.FaultReturned, abi.ExportLoad, "it returned %d", status)
		}
	}
	return nil
}

// stream calls an export with a buffer, on the fuel of initialisation.
func (g *Guest) stream(export string, at uint32, n int) (int32, error) {
	f := g.module.function(export)
	if f == nil {
		return 0, g.newFault(guestop.FaultProtocol, export, "the module has no such export")
	}
	g.frames = nil
	g.meter.beginPlain(g.code.engine.opts.FuelPerInit)
	g.stack[0], g.stack[1] = uint64(at), uint64(n)
	if err := g.call(f); err != nil {
		return 0, g.fault(err, export)
	}
	return int32(uint32(g.stack[0])), nil
}
