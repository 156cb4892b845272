package hostcall

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

func init() {
	define(abi.ImportModule, abi.CallEmit, "iii", "i", emit)
	define(abi.ImportModule, abi.CallFail, "ii", "", fail)
}

// emit is an output that is larger than the whole output buffer.
//
//	params:   frame, len  exactly one frame (its size field = len)
//	          at i32      bytes of output frames that the guest has written to its buffer before this one:
//	                      the host puts the frame in at that place, so that the order is kept
//	returns:  0
//	errors:   StatusBadPointer  frame not inside the memory
//	          StatusBadArg      not one well-formed frame, or at is negative
//	          StatusLimit       len over MaxRecordBytes, or the record's outputs over their limit
//	owns:     the host copies the frame
func emit(s *Scope, stack []uint64) {
	b, st := s.Limited(stack[0], stack[1], abi.MaxRecordBytes)
	if st >= 0 {
		f, rest, err := abi.NextFrame(b)
		at := i32(stack[2])
		if err != nil || len(rest) > 0 || at < 0 {
			st = abi.StatusBadArg
		} else {
			s.charge(len(f))
			st = s.Env.Emit(s.Record(), f, at)
		}
	}
	stack[0] = result(st)
}

// fail says that the current record failed: its effects are undone, the error policy gets it, the
// instance lives on. The guest goes on with the next record.
//
//	params:   msg, len  UTF-8; cut at MaxLogLineBytes
//	returns:  nothing
//	traps:    outside a record; msg not inside the memory
//	owns:     the host copies msg
func fail(s *Scope, stack []uint64) {
	msg, ok := s.Bytes(stack[0], stack[1])
	if !ok {
		badRange(abi.CallFail, stack[0], stack[1], s)
	}
	r := s.Record()
	if r < 0 {
		abort(guestop.FaultProtocol, "mr.fail outside a record: %q", cut(msg))
	}
	s.Env.Fail(r, cut(msg))
}

func cut(msg []byte) []byte { return msg[:min(len(msg), abi.MaxLogLineBytes)] }

func badRange(call string, ptr, n uint64, s *Scope) {
	abort(guestop.FaultProtocol, "%s: bytes [%#x, +%d) are outside the guest's memory of %d bytes", call, uint32(ptr), uint32(n), len(s.Memory))
}
