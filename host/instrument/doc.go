// Package instrument reads the modules that users upload before anything else touches them. Validate
// judges a module completely; Rewrite then turns it into one whose work is metered in fuel, which can be
// stopped from outside, whose records are told apart, and whose state can be copied. Both are linear in
// the module's size and never run anything.
//
// # What the rewriter does
//
// Calls of, and references to, the import mr.next lead to a function inside the module (or its code is
// put at the call). Fuel is charged for every stretch of instructions that run together, by their number
// and kind (weight.go), at its start; short stretches are charged with the one that leads to them. At
// function entries and loop heads, and after charges by operand (memory.fill, memory.copy, memory.init,
// table.fill, ... by length, memory.grow and table.grow by what was added), the guest traps when the
// fuel is below 0. The start section becomes the export ExportStart. Every mutable global is exported.
// Every table gets a maximum. Custom sections are dropped, except those named "mr.*".
//
// # The globals, and how a host uses them around a call
//
//	name        type set by the host before a call       after it
//	fuel        i64  fuel of the prologue                fuel left in the account that is open
//	limit       i64  fuel of each record                 unchanged
//	quantum     i64  fuel of the call, > 0               what is left after the records that next closed
//	cursor      i32  index of the first record, minus 1  record whose account is open
//	prologue    i64  -1                                  fuel left at the first next; -1: none was called
//	misuse      i32  0                                   1: next trapped by itself
//	stop        i64  0                                   unchanged
//
// All are named abi.ReservedPrefix plus the name. A fresh instance has fuel 0, so a host that forgets to
// set it runs nothing. Calls that handle no records (ExportStart, _initialize, mr_alloc) need fuel only;
// with quantum 0 every call of next traps in them.
//
// next(i) traps, with misuse 1, unless i is cursor+1 and no earlier next of the call has returned 1; it
// traps as any loop head does when the fuel is below 0 or the host said stop. Otherwise it closes the
// account that is open (the first next of a call stores the fuel left in prologue; each other subtracts
// what the record took from quantum), sets fuel to limit and cursor to i, and returns 1, yield, if quantum
// is spent, else 0. The account of the index at which a call yields or ends belongs to no record.
//
// After a call that returned, with first and consumed as record indices:
//
//	records     = quantum set - quantum left            for records first .. cursor-1
//	              + limit - fuel                        if the guest returned without next(consumed)
//	prologue    = fuel set - prologue                   (fuel set - fuel, if prologue is -1)
//
// A call that returned with fuel < 0 has overspent in its last stretch: treat it like a trap. After a trap:
//
//	fuel < 0                  out of fuel, record cursor (before the first next: the prologue)
//	fuel >= 0, misuse = 1     next was called out of order, or again after a yield
//	fuel >= 0, stop != 0      stopped; if the guest trapped by itself at the same time it does not matter
//	otherwise                 the guest's own trap, record cursor
//
// stop may be set to StopNow by any goroutine while the guest runs: it is only ever compared, once in
// each test above, so it costs no branch of its own. It does not replace a bound on fuel: when Go's
// collector waits for a goroutine that runs a guest, the one that would set stop waits as well.
//
// A host function may lower fuel while it runs, to charge for the bytes it handles; the guest's next test
// sees it. Rewritten code charges weightHostCall for the call itself.
//
// One stretch or one constant-length bulk instruction may overspend before the next test; the bound is the
// largest body, not time. Functions that are charged at most leafWithoutCheck and neither call nor loop
// are not tested.
//
// # What it costs
//
// On wazero's compiler, CPU time: nothing on loops of arithmetic or bytes, 0.3 ns on a branchy turn or a
// call, 1 ns on a memory.copy of unknown length, 1 ns a record for next in a guest that copies 108-byte
// frames (22 ns). Code grows by 15 to 23 %, compile time by 0 to 6 %. Rewriting takes 0.3 ms for a Rust
// guest of 240 KB, 16 ms for a Go guest of 2.6 MB; validating about as much.
//
// Names of functions for stack traces stay with the result (Rewritten.FuncName).
package instrument
