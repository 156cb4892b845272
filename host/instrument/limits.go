package instrument

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Limits bounds what a module may contain. Each bound is inclusive: a module at the limit passes. They
// keep the cost of compiling a small module small (deep nesting and long br_tables are super-linear in
// the compiler) and what an instance may take before it runs its first instruction.
type Limits struct {
	ModuleBytes   int // bytes of the whole module
	Types         int // function types
	Imports       int // imports of any kind
	Functions     int // functions, imported ones included
	BodyBytes     int // bytes of one function body
	Locals        int // locals of one function, parameters included
	Params        int // parameters of one function type
	Results       int // results of one function type
	Nesting       int // blocks open at once in one function
	OperandStack  int // values on the operand stack of one function
	BranchTable   int // targets of one br_table
	BranchTargets int // targets of all br_tables of one function
	TableTargets  int // targets of all br_tables of the module
	Branches      int // blocks, ifs, br_ifs and bulk instructions of one function; a loop counts four times
	BranchSquares int // sum of the squares of that over all functions
	Globals       int // globals
	Exports       int // exports
	Tables        int // tables
	TableEntries  int // entries of a table: minimum at instantiation and, after rewriting, maximum
	Memories      int // linear memories
	MemoryPages   int // 64 KiB pages a memory has from the start; a larger declared maximum is fine
	Segments      int // data segments, and as many element segments
	SegmentItems  int // function references of one element segment
	NameBytes     int // bytes of one import or export name

	reservedNames bool // for judging rewritten modules in tests: the rewriter's names may be there
}

// DefaultLimits returns the limits of a pipeline that nobody vouches for.
//
// The largest real modules are Go guests. One of 6.8 MB with text templates, XML and big numbers has 4,520
// functions, 30,000 data segments, a body of 51 KB, 549 nested blocks (functions resume through a br_table
// over their call sites), 144,542 br_table targets, 1,476 branches in one function, and 23 million as the
// sum of their squares. wazero's compiler takes about 17 ns times the square of a function's branches and
// 3 to 6 us a br_table target, so that a module at every limit takes some 8 s.
func DefaultLimits() Limits {
	return Limits{
		ModuleBytes:   abi.MaxModuleBytes,
		Types:         10_000,
		Imports:       1_000,
		Functions:     20_000,
		BodyBytes:     1 << 20,
		Locals:        10_000,
		Params:        255,
		Results:       255,
		Nesting:       4_096,
		OperandStack:  32_768,
		BranchTable:   8_192,
		BranchTargets: 65_536,
		TableTargets:  1 << 19,
		Branches:      16_384,
		BranchSquares: 1 << 28,
		Globals:       4_096,
		Exports:       10_000,
		Tables:        4,
		TableEntries:  65_536,
		Memories:      1,
		MemoryPages:   abi.DefaultMemoryBytes >> 16,
		Segments:      100_000,
		SegmentItems:  65_536,
		NameBytes:     1_024,
	}
}

// Check refuses limits that no engine can honour, so that a wrong number in a configuration is an error
// where it is read and not a panic where it is used.
func (l Limits) Check() error {
	const maxPages = 65_536 // 4 GiB, the address space of a 32-bit memory
	if l.MemoryPages < 0 || l.MemoryPages > maxPages {
		return fmt.Errorf("instrument: memory limit of %d pages, expected 0 to %d", l.MemoryPages, maxPages)
	}
	if l.Memories > 1 {
		return fmt.Errorf("instrument: limit of %d memories, expected at most 1", l.Memories)
	}
	if l.TableEntries < 0 || l.TableEntries > 10_000_000 {
		return fmt.Errorf("instrument: table limit of %d entries, expected 0 to 10,000,000", l.TableEntries)
	}
	return nil
}
