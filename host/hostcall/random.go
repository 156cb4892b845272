package hostcall

import "github.com/millrace-io/millrace/abi"

// MaxRandomBytes limits one call for random bytes.
const MaxRandomBytes = 64 << 10

func init() {
	define(abi.ImportModule, abi.CallRandom, "ii", "i", random)
}

// random fills a range with bytes that are the same whenever this record is processed again.
//
//	params:   buf, len
//	returns:  0
//	errors:   StatusBadPointer  buf not inside the memory
//	          StatusLimit       len over 64 KiB
//	owns:     buf is the guest's
func random(s *Scope, stack []uint64) {
	b, st := s.Limited(stack[0], stack[1], MaxRandomBytes)
	if st >= 0 {
		s.charge(4 * len(b))
		s.Env.Random(s.Record(), b)
	}
	stack[0] = result(st)
}
