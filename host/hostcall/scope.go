// Package hostcall is the guest's view of the host: every function that a module may import. It turns
// the wire (i32 pointers and lengths into guest memory) into checked slices, calls guestop.Env, and turns
// the answer back.
//
// Translation, the same for all calls:
//   - A byte range is (ptr i32, len i32), both unsigned. It is valid if ptr + len, in 64 bits, is at most
//     the size of the memory; (size, 0) is valid. Any other range gives StatusBadPointer, or a trap where
//     the call returns nothing.
//   - Ranges that the guest passes in are borrowed by the host until the call returns; the host copies what
//     it keeps. Ranges that the host fills belong to the guest.
//   - Lengths are compared with a limit of abi/limits.go before anything is read or allocated.
//   - The record a call belongs to is the cursor, which mr.next moves; a guest can't name another.
//   - A negative result is an abi.Status.
package hostcall

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Scope is what the host calls of one instance act on. The engine passes it as the context of every call
// into the guest, so that a host function finds it without a search. One goroutine at a time.
type Scope struct {
	context.Context
	Env    guestop.Env
	Memory []byte // the whole linear memory; the engine renews it whenever the memory grows
	Cursor Word   // i32 that mr.next writes: the last record that was begun
	Fuel   Word   // i64, fuel left; nil: nothing is charged
	First  uint32 // the call handles the records [First, N) of its block; equal: none is ever current
	N      uint32
	Stdio  Stdio // what the guest writes to file descriptors 1 and 2
}

// Word is a global of the guest.
type Word interface {
	Get() uint64
	Set(uint64)
}

// freeBytes of a host call are paid for by the price of the call itself.
const freeBytes = 256

// charge takes fuel for n bytes that the host copied or looked at: 16 bytes a unit, as bulk memory
// instructions. The guest traps at its next test if there is none left.
func (s *Scope) charge(n int) {
	if n > freeBytes && s.Fuel != nil {
		s.Fuel.Set(s.Fuel.Get() - uint64(n)/16)
	}
}

// Record is the index in the block of the record being processed; -1 outside any record: before the
// first and after the last mr.next of the call, and where no block is being processed.
func (s *Scope) Record() int {
	if s.First >= s.N {
		return -1
	}
	if c := uint32(s.Cursor.Get()); c >= s.First && c < s.N {
		return int(c)
	}
	return -1
}

// Bytes is the range [ptr, ptr+n) of guest memory, capped at its own length; ok false if it isn't inside.
func (s *Scope) Bytes(ptr, n uint64) (b []byte, ok bool) {
	ptr, n = ptr&0xffffffff, n&0xffffffff
	if ptr+n > uint64(len(s.Memory)) {
		return nil, false
	}
	return s.Memory[ptr : ptr+n : ptr+n], true
}

// Limited is Bytes for a range that must not be longer than limit bytes.
func (s *Scope) Limited(ptr, n uint64, limit int) ([]byte, abi.Status) {
	if n&0xffffffff > uint64(limit) {
		return nil, abi.StatusLimit
	}
	b, ok := s.Bytes(ptr, n)
	if !ok {
		return nil, abi.StatusBadPointer
	}
	return b, abi.StatusOK
}

func (s *Scope) putUint32(ptr uint64, v uint32) bool {
	b, ok := s.Bytes(ptr, 4)
	if ok {
		binary.LittleEndian.PutUint32(b, v)
	}
	return ok
}

func (s *Scope) putUint64(ptr uint64, v uint64) bool {
	b, ok := s.Bytes(ptr, 8)
	if ok {
		binary.LittleEndian.PutUint64(b, v)
	}
	return ok
}

// Abort is the panic with which a host function ends the guest call. The engine finds it in the error and
// makes a guestop.Fault of it.
type Abort struct {
	Kind    guestop.FaultKind
	Message string
}

// Error is the message.
func (a *Abort) Error() string { return a.Message }

func abort(kind guestop.FaultKind, format string, args ...any) {
	panic(&Abort{kind, fmt.Sprintf(format, args...)})
}

func i32(v uint64) int { return int(int32(uint32(v))) }

func result(s abi.Status) uint64 { return uint64(uint32(s)) }
