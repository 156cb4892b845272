package hostcall

import (
	"encoding/binary"
	"unicode/utf16"

	"github.com/millrace-io/millrace/operators/guestop"
)

func init() {
	define("env", "abort", "iiii", "", assemblyScriptAbort)
}

// maxAbortUnits cuts the text of an abort.
const maxAbortUnits = 512

// assemblyScriptAbort is env.abort, which AssemblyScript calls for a failed assertion or a throw.
//
//	params:   message, file i32  AssemblyScript strings: UTF-16 units at ptr, their length in bytes as a
//	                             u32 at ptr-4; 0 = none
//	          line, column i32
//	returns:  never: the guest call ends with FaultAbort
func assemblyScriptAbort(s *Scope, stack []uint64) {
	msg := s.utf16String(stack[0])
	if msg == "" {
		msg = "abort"
	}
	file := s.utf16String(stack[1])
	if file == "" {
		file = "?"
	}
	abort(guestop.FaultAbort, "%s at %s:%d:%d", msg, file, uint32(stack[2]), uint32(stack[3]))
}

// utf16String decodes a string of AssemblyScript, "" if there is none, or none inside the memory.
func (s *Scope) utf16String(ptr uint64) string {
	ptr &= 0xffffffff
	if ptr < 4 {
		return ""
	}
	head, ok := s.Bytes(ptr-4, 4)
	if !ok {
		return ""
	}
	n := min(uint64(binary.LittleEndian.Uint32(head)), 2*maxAbortUnits)
	b, ok := s.Bytes(ptr, n&^1)
	if !ok {
		return ""
	}
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}
