package hostcall

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

func init() {
	define(abi.ImportModule, abi.CallNext, "i", "i", next)
}

// next marks the beginning of record i and says whether to yield.
//
//	params:   i i32: index in the block; must be the cursor + 1
//	returns:  1 = return from mr_process now, 0 = process record i
//
// The rewriter replaces every call by code inside the module, so that the host is never reached. The
// import stays declared; coming here means that the rewriting missed a way to call it.
func next(_ *Scope, _ []uint64) {
	abort(guestop.FaultProtocol, "mr.next reached the host: the module was not rewritten")
}
