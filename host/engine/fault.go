package engine

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/millrace-io/millrace/host/hostcall"
	"github.com/millrace-io/millrace/operators/guestop"
)

// fault makes a guestop.Fault of the error with which a call ended. It reads the meter, so it comes
// before anything else touches the instance.
func (g *Guest) fault(err error, export string) *guestop.Fault {
	message, stack := splitTrap(err)
	f := g.newFault(guestop.FaultTrap, export, "%s", message)
	f.Stack = g.code.nameFrames(stack)
	var abort *hostcall.Abort
	var bug runtime.Error
	switch {
	case g.isStopped():
		f.Kind, f.Message = guestop.FaultStopped, "the host stopped it"
	case errors.As(err, &abort):
		f.Kind, f.Message = abort.Kind, abort.Message
	case errors.As(err, &bug):
		f.Kind, f.Message = guestop.FaultTimeout, "a host call panicked: "+bug.Error()
	case g.meter.exhausted():
		f.Kind, f.Message = guestop.FaultFuel, g.fuelMessage(f.Record)
	case g.meter.misuse.Get() != 0:
		f.Kind, f.Message = guestop.FaultProtocol, g.misuseMessage()
	}
	if g.memory.refused > 0 && (f.Kind == guestop.FaultTrap || f.Kind == guestop.FaultAbort) {
		f.Kind, f.Message = guestop.FaultMemory, fmt.Sprintf("%s; then: %s", g.memory.refusal(), f.Message)
	}
	return f
}

// newFault fills in what every fault tells. The record is the cursor's, unless the guest was already
// asked to return: the record at the cursor was not begun then.
func (g *Guest) newFault(kind guestop.FaultKind, export, format string, args ...any) *guestop.Fault {
	f := &guestop.Fault{Kind: kind, Message: fmt.Sprintf(format, args...), Record: g.scope.Record(),
		Stderr: g.scope.Stdio.Tail(), Module: g.code.digest, Export: export}
	if f.Record >= 0 && g.meter.askedToYield() {
		f.Record = -1
	}
	return f
}

func (g *Guest) fuelMessage(record int) string {
	if record < 0 {
		return fmt.Sprintf("%d units spent outside any record, the limit is %d", g.meter.fuelFirst-int64(g.meter.fuel.Get()), g.meter.fuelFirst)
	}
	limit := int64(g.meter.limit.Get())
	return fmt.Sprintf("the record took more than its limit of %d units", limit)
}

func (g *Guest) misuseMessage() string {
	cursor := int32(uint32(g.meter.cursor.Get()))
	if g.scope.First >= g.scope.N {
		return "mr.next was called while no block is processed"
	}
	if g.meter.askedToYield() {
		return fmt.Sprintf("mr.next was called again after it had asked to yield at record %d", cursor)
	}
	return fmt.Sprintf("mr.next was called with another number than %d, the record after the last one", cursor+1)
}

// refusal says what a memory.grow asked for.
func (l *linear) refusal() string {
	if l.err != nil {
		return fmt.Sprintf("guest out of memory: the system refused to grow it to %d KiB: %v", l.refused>>10, l.err)
	}
	return fmt.Sprintf("guest out of memory: growing to %d KiB was refused, the limit is %d KiB", l.refused>>10, l.limit>>10)
}
