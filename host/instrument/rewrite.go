package instrument

import (
	"errors"
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/abi"
)

// RewriterVersion changes when the same module is rewritten to other bytes; part of the key of a cache of
// compiled modules.
const RewriterVersion = 2

// Names of what the rewriter exports. The package comment says how a host uses them.
const (
	GlobalFuel     = abi.ReservedPrefix + "fuel"     // i64, fuel left in the open account; < 0: exhausted
	GlobalLimit    = abi.ReservedPrefix + "limit"    // i64, fuel that next gives each record
	GlobalQuantum  = abi.ReservedPrefix + "quantum"  // i64, fuel left until next says yield
	GlobalPrologue = abi.ReservedPrefix + "prologue" // i64, fuel left when the first next was called; < 0: it was not
	GlobalStop     = abi.ReservedPrefix + "stop"     // i64, 0 or StopNow
	GlobalCursor   = abi.ReservedPrefix + "cursor"   // i32, index of the record whose account is open
	GlobalMisuse   = abi.ReservedPrefix + "misuse"   // i32, 1: next trapped
	ExportStart    = abi.ReservedPrefix + "start"    // () -> (): what was the start section
	hiddenGlobal   = abi.ReservedPrefix + "g"        // + index in the original module
)

// StopNow in GlobalStop makes the guest trap at its next loop head, function entry or call of next.
const StopNow = 1<<63 - 1

// Options chooses what Rewrite does.
type Options struct {
	Fuel         bool // charge and test; without it only next, stop at next, and the exports are there
	InlineNext   bool // put next's code at each direct call instead of a call: faster by 0 to 4 ns, larger
	DropData     bool // leave the data segments out: memory comes from an image
	TableEntries int  // largest maximum a table may declare; 0: DefaultLimits

	exact bool // charge every stretch by itself; what tests hold folded charges against
}

// DefaultOptions is what a host uses for everything but images.
func DefaultOptions() Options { return Options{Fuel: true} }

// Global is a mutable global of the original module.
type Global struct {
	Index  int // in the original module
	Type   ValType
	Export string // name under which the rewritten module exports it
}

// Rewritten is a module ready to be compiled.
type Rewritten struct {
	Wasm       []byte
	Globals    []Global // every mutable global of the original module
	HasStart   bool     // ExportStart is there
	NextFunc   uint32   // index of next inside the module; 0 if it is not imported
	NextCalls  int      // direct calls of next
	CodeBefore int      // bytes of all bodies
	CodeAfter  int

	original *Module
}

// FuncName names a function of the rewritten module by its index, for stack traces.
func (r *Rewritten) FuncName(index uint32) string {
	if int(index) >= len(r.original.Funcs) {
		return abi.ImportModule + "." + abi.CallNext
	}
	return r.original.FuncName(index)
}

// rewriter holds one rewriting: the indices of the added globals, and the parts under way.
type rewriter struct {
	wasm []byte
	mod  *Module
	opt  Options
	out  *Rewritten

	fuel, limit, quantum, prologue, stop, cursor, misuse uint32

	redirect map[uint32]uint32 // imported next -> function inside
	nextType uint32
	exports  []Export
	meter    meter
}

// Rewrite turns a module that Validate accepted into one that a host can meter, stop and snapshot. No
// index of a function, type, table, global, local or segment changes; what is added comes last. wasm and
// m must be the ones of Validate.
func Rewrite(wasm []byte, m *Module, o Options) (*Rewritten, error) {
	if m == nil || m.size != len(wasm) {
		return nil, errors.New("instrument: module was not validated from these bytes")
	}
	if o.TableEntries == 0 {
		o.TableEntries = DefaultLimits().TableEntries
	}
	if o.DropData && (m.PassiveSegments || m.DropsSegments) {
		return nil, errors.New("instrument: data segments can't be left out, the module uses them while it runs")
	}
	r := &rewriter{wasm: wasm, mod: m, opt: o, out: &Rewritten{original: m, HasStart: m.HasStart}}
	if err := r.findNext(); err != nil {
		return nil, err
	}
	r.nameGlobals()
	r.out.Wasm = r.sections()
	return r.out, nil
}

// findNext plans the function that replaces the import.
func (r *rewriter) findNext() error {
	r.redirect = map[uint32]uint32{}
	index := uint32(0)
	inside := uint32(len(r.mod.Funcs))
	for _, imp := range r.mod.Imports {
		if imp.Kind != KindFunc {
			continue
		}
		if imp.Module == abi.ImportModule && imp.Name == abi.CallNext {
			if want := (FuncType{[]ValType{I32}, []ValType{I32}}); !imp.Type.Equal(want) {
				return fmt.Errorf("instrument: import %s.%s has type %s, expected %s", imp.Module, imp.Name, imp.Type, want)
			}
			r.redirect[index] = inside
			r.nextType = r.mod.Funcs[index]
			r.out.NextFunc = inside
		}
		index++
	}
	return nil
}

// nameGlobals numbers the added globals and names the hidden ones.
func (r *rewriter) nameGlobals() {
	next := uint32(len(r.mod.Globals))
	for _, g := range []struct {
		index *uint32
		name  string
	}{{&r.fuel, GlobalFuel}, {&r.limit, GlobalLimit}, {&r.quantum, GlobalQuantum}, {&r.prologue, GlobalPrologue},
		{&r.stop, GlobalStop}, {&r.cursor, GlobalCursor}, {&r.misuse, GlobalMisuse}} {
		*g.index = next
		r.exports = append(r.exports, Export{Name: g.name, Kind: KindGlobal, Index: next})
		next++
	}
	names := map[uint32]string{}
	for _, e := range r.mod.Exports {
		if e.Kind == KindGlobal && names[e.Index] == "" {
			names[e.Index] = e.Name
		}
	}
	for i, g := range r.mod.Globals {
		if !g.Mutable {
			continue
		}
		name := names[uint32(i)]
		if name == "" {
			name = fmt.Sprintf("%s%d", hiddenGlobal, i)
			r.exports = append(r.exports, Export{Name: name, Kind: KindGlobal, Index: uint32(i)})
		}
		r.out.Globals = append(r.out.Globals, Global{Index: i, Type: g.Type, Export: name})
	}
	if r.mod.HasStart {
		r.exports = append(r.exports, Export{Name: ExportStart, Kind: KindFunc, Index: r.mod.Start})
	}
}

// sections writes the module, with the sections that are extended even where they were missing.
func (r *rewriter) sections() []byte {
	out := make([]byte, 0, len(r.wasm)+len(r.wasm)/4+1024)
	out = append(out, r.wasm[:8]...)
	missing := []byte{sectionGlobal, sectionExport}
	if len(r.redirect) > 0 {
		missing = []byte{sectionFunction, sectionGlobal, sectionExport, sectionCode}
	}
	for _, s := range r.mod.sections {
		for len(missing) > 0 && s.id != sectionCustom && sectionRank[missing[0]] <= sectionRank[s.id] {
			if missing[0] != s.id {
				out = appendSection(out, missing[0], r.section(section{id: missing[0]}))
			}
			missing = missing[1:]
		}
		if r.keep(s) {
			out = appendSection(out, s.id, r.section(s))
		}
	}
	for _, id := range missing {
		out = appendSection(out, id, r.section(section{id: id}))
	}
	return out
}

// keep says whether a section has a place in the result.
func (r *rewriter) keep(s section) bool {
	switch s.id {
	case sectionCustom:
		// wazero fails to read a custom section without contents.
		return strings.HasPrefix(s.name, abi.ImportModule+".") && len(r.mod.Customs[s.name]) > 0
	case sectionStart:
		return false
	case sectionData, sectionDataCount:
		return !r.opt.DropData
	}
	return true
}

func appendSection(d []byte, id byte, body []byte) []byte {
	return append(appendU32(append(d, id), uint32(len(body))), body...)
}

// section returns the new contents of a section; one with an empty span is made from nothing.
func (r *rewriter) section(s section) []byte {
	switch s.id {
	case sectionFunction:
		return r.functionSection(s)
	case sectionTable:
		return r.tableSection(s)
	case sectionGlobal:
		return r.globalSection(s)
	case sectionExport:
		return r.exportSection()
	case sectionElement:
		return r.elementSection(s)
	case sectionCode:
		return r.codeSection()
	}
	return r.wasm[s.start:s.end]
}
