package hostcall

import "github.com/millrace-io/millrace/abi"

func init() {
	define(abi.ImportModule, abi.CallTimerSet, "iiil", "i", timerSet)
	define(abi.ImportModule, abi.CallTimerDelete, "iiil", "i", timerDelete)
}

// timerSet registers a timer of the current key. Setting it twice is the same as once.
//
//	params:   domain i32     DomainEvent or DomainProcessing
//	          name, name_len  at most MaxTimerNameBytes, may be empty
//	          time i64        ms since 1970; at or before the watermark: due at the next advance
//	returns:  0
//	errors:   StatusBadArg      unknown domain, or one that the descriptor doesn't declare
//	          StatusBadPointer  name not inside the memory
//	          StatusLimit       the name is too long, or the key has MaxTimersPerKey timers
//	          StatusNoKey       outside a record, or the stream is not keyed
//	owns:     the host copies name
func timerSet(s *Scope, stack []uint64) {
	name, st := s.timer(stack)
	if st >= 0 {
		st = s.Env.TimerSet(s.Record(), i32(stack[0]), name, int64(stack[3]))
	}
	stack[0] = result(st)
}

// timerDelete removes a timer of the current key.
//
//	params:   as timer_set
//	returns:  0, also if there was none
//	errors:   as timer_set
func timerDelete(s *Scope, stack []uint64) {
	name, st := s.timer(stack)
	if st >= 0 {
		st = s.Env.TimerDelete(s.Record(), i32(stack[0]), name, int64(stack[3]))
	}
	stack[0] = result(st)
}

func (s *Scope) timer(stack []uint64) ([]byte, abi.Status) {
	if d := i32(stack[0]); d != abi.DomainEvent && d != abi.DomainProcessing {
		return nil, abi.StatusBadArg
	}
	return s.Limited(stack[1], stack[2], abi.MaxTimerNameBytes)
}
