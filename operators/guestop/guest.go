// Package guestop is the operator whose logic is a guest function. It builds call blocks, prefetches
// state, drives timers in rounds, keeps each record atomic and applies the error policy. The engine is
// behind the Guest interface.
package guestop

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
)

// Module is a compiled module from which instances are made. Safe for concurrent use.
type Module interface {
	// Digest is the SHA-256 of the original module, hex.
	Digest() string
	// Descriptor is what the module (or the pipeline file) says it offers.
	Descriptor() *abi.Descriptor
	// New makes an instance, initialised, whose host calls go to env. Limits by o.
	New(env Env, o InstanceOptions) (Guest, error)
}

// InstanceOptions limit one instance. Zero values mean the defaults of abi/limits.go.
type InstanceOptions struct {
	MemoryBytes   int64
	FuelPerRecord int64
	FuelPerCall   int64
	OutputBytes   int // output buffer; 0: 256 KiB
}

// Guest is one live instance. It belongs to one task's goroutine; Stop alone may be called from elsewhere.
type Guest interface {
	// In returns the input buffer, at least n bytes, growing it by one more mr_alloc if need be. The view
	// is valid until the next method call. It starts 8-aligned in guest memory.
	In(n int) ([]byte, error)
	// Call runs mr_process on the block of n bytes in the input buffer, beginning at record first.
	Call(n int, first uint32) Outcome
	// Out is the frames that the last call wrote, unchecked, borrowed until the next method call.
	Out() []byte
	// Cursor is the record being processed, for host calls; -1 outside any record.
	Cursor() int
	// Yield makes next() ask the guest to return at its next record, as if the call's quantum were spent.
	// Called from within a host call: a timer it set is due at a mark inside the block.
	Yield()
	// Reset makes the instance as new: in place where that is exact, else by replacing it. Needed after
	// every Outcome with a Fault.
	Reset() error
	// Stop makes a running call end soon with FaultStopped; from any goroutine.
	Stop()
	Close() error
}

// Outcome is how a call ended.
type Outcome struct {
	Consumed uint32 // records done since the block's start; valid without a Fault
	Yielded  bool   // go on at Consumed
	Fuel     int64  // fuel units spent by the call, records and prologue
	Billed   int64  // of them, those on the accounts of records, without what a call costs by itself
	Fault    *Fault // nil: fine
}

// FaultKind classifies a guest fault.
type FaultKind string

// Kinds of faults.
const (
	FaultTrap     FaultKind = "trap"             // unreachable, bounds, division, table, stack
	FaultFuel     FaultKind = "out of fuel"      // the record's limit
	FaultMemory   FaultKind = "out of memory"    // a refused memory.grow led to a trap
	FaultStopped  FaultKind = "stopped"          // Stop was called
	FaultProtocol FaultKind = "protocol"         // broke the ABI: bad output, wrong next, bad consumed
	FaultReturned FaultKind = "returned error"   // the guest said so itself through fail()
	FaultLimit    FaultKind = "limit"            // outputs, timers, key or value size
	FaultAbort    FaultKind = "abort"            // env.abort of AssemblyScript
	FaultTimeout  FaultKind = "host call failed" // a host call that may succeed another time
)

// Fault is a guest fault: data for the error policy, never a host panic.
type Fault struct {
	Kind    FaultKind
	Message string
	Record  int      // index in the block; -1: outside any record, which fails the task
	Stack   []string // wasm frames, innermost first, with names where known
	Stderr  string   // tail of what the guest printed
	Module  string   // digest
	Name    string   // path of the module, where known
	Func    string   // function of the module, where known
	Export  string
}

// Error tells all that is known, on one line and the stack below.
func (f *Fault) Error() string {
	var b strings.Builder
	digest := f.Module
	if len(digest) > 12 {
		digest = digest[:12]
	}
	fmt.Fprintf(&b, "guest fault: %s: %s (", f.Kind, f.Message)
	if f.Func != "" {
		fmt.Fprintf(&b, "function %s of %s, ", f.Func, f.Name)
	}
	fmt.Fprintf(&b, "module %s, export %s)", digest, f.Export)
	for _, s := range f.Stack {
		b.WriteString("\n    at ")
		b.WriteString(s)
	}
	if f.Stderr != "" {
		b.WriteString("\n    stderr: ")
		b.WriteString(strings.TrimSpace(f.Stderr))
	}
	return b.String()
}

// Env is what host calls do. record is the cursor (index in the block), -1 outside any record; slices
// alias guest memory and are valid for the call only. Methods return an abi status (>= 0 is success).
type Env interface {
	// Get returns an entry's value: for value states ukey is empty. The slice is copied by the engine at once.
	Get(record, st int, ukey []byte) ([]byte, abi.Status)
	Put(record, st int, ukey, v []byte) abi.Status
	Delete(record, st int, ukey []byte) abi.Status
	Clear(record, st int) abi.Status
	Append(record, st int, v []byte) abi.Status
	// Scan opens an iterator and returns its number.
	Scan(record, st int, from []byte) (int, abi.Status)
	// ScanNext returns the next entry; ok false at the end. Peek: with advance false it stays.
	ScanNext(record, iter int, advance bool) (ukey, v []byte, ok bool, s abi.Status)
	ScanClose(record, iter int) abi.Status
	TimerSet(record, domain int, name []byte, at int64) abi.Status
	TimerDelete(record, domain int, name []byte, at int64) abi.Status
	// Emit is an output frame too large for the buffer, to be put in at byte `at` of the output frames.
	Emit(record int, frame []byte, at int) abi.Status
	// Fail: the record failed by its own word; its effects so far are undone.
	Fail(record int, msg []byte)
	Log(record, level int, msg []byte)
	Metric(record int, name []byte, add int64) abi.Status
	// Random fills b from the record's (or timer's) seed.
	Random(record int, b []byte)
	// NowMS is what guest clocks (WASI) read.
	NowMS(record int) int64
}
