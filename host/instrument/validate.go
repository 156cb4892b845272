package instrument

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/millrace-io/millrace/abi"
)

const (
	sectionCustom = iota
	sectionType
	sectionImport
	sectionFunction
	sectionTable
	sectionMemory
	sectionGlobal
	sectionExport
	sectionStart
	sectionElement
	sectionCode
	sectionData
	sectionDataCount
	sectionTag
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count", "tag"}

// sectionRank is the place of a section in a module.
var sectionRank = [...]int{sectionType: 1, sectionImport: 2, sectionFunction: 3, sectionTable: 4,
	sectionMemory: 5, sectionGlobal: 6, sectionExport: 7, sectionStart: 8, sectionElement: 9,
	sectionDataCount: 10, sectionCode: 11, sectionData: 12, sectionTag: 0, sectionCustom: 0}

// validator reads a module once, front to back.
type validator struct {
	reader
	lim      Limits
	mod      *Module
	problems []Problem
	section  string

	failed   bool // a section was given up: what refers to it is not judged any more
	exported map[string]struct{}
	declared map[uint32]struct{} // functions that ref.func in code may name

	importedGlobals int
	squares         int       // as Limits.BranchSquares counts them
	targets         int       // of all br_tables
	elems           []ValType // types of the element segments
	dataCount       int       // -1: no such section
	seen            [len(sectionNames)]bool
}

// Validate reads wasm and returns what it contains, or a *ValidationError with everything that is wrong
// with it. The module it accepts has core WebAssembly with sign extension, saturating truncation,
// multi-value, bulk memory and reference types; imports only functions; uses no name that begins with
// abi.ReservedPrefix; and stays within l. Time and memory are linear in len(wasm). The returned module
// refers to wasm, which must not change.
func Validate(wasm []byte, l Limits) (*Module, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	v := &validator{
		reader:    reader{buf: wasm, end: len(wasm)},
		lim:       l,
		mod:       &Module{size: len(wasm), Customs: map[string][]byte{}},
		section:   "header",
		exported:  map[string]struct{}{},
		declared:  map[uint32]struct{}{},
		dataCount: -1,
	}
	if v.guard(v.header) {
		v.readSections()
	}
	if len(v.problems) > 0 {
		return nil, &ValidationError{Problems: v.problems}
	}
	return v.mod, nil
}

// guard runs f and turns a failure into a problem; it says whether there was none.
func (v *validator) guard(f func()) (ok bool) {
	defer func() {
		if x := recover(); x != nil {
			p, isFailure := x.(failure)
			if !isFailure {
				panic(x)
			}
			v.report(p)
			ok = false
		}
	}()
	f()
	return true
}

func (v *validator) report(p failure) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{p.offset, v.section, p.code, p.message})
	}
}

func (v *validator) header() {
	b := v.buf
	if len(b) == 0 {
		fail(0, CodeEmpty, "the file is empty, expected a WebAssembly module")
	}
	if len(b) > v.lim.ModuleBytes {
		failLimit(0, "module", "bytes of the module", uint64(len(b)), v.lim.ModuleBytes)
	}
	if n := min(len(b), 4); string(b[:n]) != "\x00asm"[:n] {
		fail(0, CodeMagic, "starts with % x%s, expected 00 61 73 6d (a WebAssembly module)", b[:n], looksLike(b))
	}
	if len(b) < 8 {
		fail(len(b), CodeTruncated, "ends inside the header of 8 bytes")
	}
	switch version := binary.LittleEndian.Uint32(b[4:]); {
	case version == 1:
	case version>>16 == 1:
		fail(4, CodeComponent, "is a component, expected a core module (build without the component step)")
	default:
		fail(4, CodeVersion, "version 0x%x of the binary format, expected 1", version)
	}
	v.pos = 8
}

// looksLike guesses what was uploaded instead of a module.
func looksLike(b []byte) string {
	for _, k := range []struct{ magic, what string }{
		{"\x1f\x8b", "gzip: unpack it first"}, {"PK\x03\x04", "a zip archive: unpack it first"},
		{"\x28\xb5\x2f\xfd", "zstd: unpack it first"}, {"\x7fELF", "a native program: build for wasm32"},
		{"!<arch>", "a static library: link it"}, {"(module", "the text format: assemble it first"},
	} {
		if bytes.HasPrefix(b, []byte(k.magic)) {
			return " (" + k.what + ")"
		}
	}
	return ""
}

func (v *validator) readSections() {
	last := 0
	for v.pos < v.end && len(v.problems) < maxProblems {
		v.section = "header"
		var id byte
		var body span
		at := v.pos
		ok := v.guard(func() {
			id = v.byte()
			if int(id) < len(sectionNames) {
				v.section = sectionNames[id]
			}
			n := v.u32()
			if uint64(n) > uint64(v.left()) {
				fail(at, CodeTruncated, "section says it has %d bytes, the module ends after %d", n, v.left())
			}
			body = span{v.pos, v.pos + int(n)}
		})
		if !ok {
			return // without a length there is no next section
		}
		v.guard(func() { last = v.checkOrder(id, at, last) })
		if !v.guard(func() { v.readSection(id, body) }) && id != sectionCustom {
			v.failed = true
		}
		v.pos, v.end = body.end, len(v.buf)
	}
	v.finish()
}

func (v *validator) checkOrder(id byte, at, last int) int {
	if int(id) >= len(sectionNames) {
		fail(at, CodeSectionID, "unknown section %d, expected 0 to 12", id)
	}
	if id == sectionTag {
		fail(at, CodeFeature, "uses exception handling, which is not accepted")
	}
	if id == sectionCustom {
		return last
	}
	if v.seen[id] {
		fail(at, CodeSectionOrder, "second %s section", sectionNames[id])
	}
	v.seen[id] = true
	if sectionRank[id] < last {
		fail(at, CodeSectionOrder, "%s section stands behind a section that must follow it", sectionNames[id])
	}
	return sectionRank[id]
}

func (v *validator) readSection(id byte, body span) {
	if int(id) >= len(sectionNames) || id == sectionTag {
		return
	}
	v.pos, v.end = body.start, body.end
	s := section{id: id, span: body}
	switch id {
	case sectionCustom:
		s.name = v.custom()
	case sectionType:
		v.types()
	case sectionImport:
		v.imports()
	case sectionFunction:
		v.functions()
	case sectionTable:
		v.tables()
	case sectionMemory:
		v.memories()
	case sectionGlobal:
		v.globals()
	case sectionExport:
		v.exports()
	case sectionStart:
		v.start()
	case sectionElement:
		v.elements()
	case sectionDataCount:
		v.dataCount = int(v.u32())
	case sectionCode:
		v.code()
	case sectionData:
		v.data()
	}
	if v.pos != v.end {
		fail(v.pos, CodeSectionLength, "%d bytes are left over at the end of the section", v.end-v.pos)
	}
	v.mod.sections = append(v.mod.sections, s)
}

// finish judges what only the whole module tells.
func (v *validator) finish() {
	if v.failed {
		return
	}
	v.section = sectionNames[sectionCode]
	at := len(v.buf)
	if want, have := len(v.mod.Funcs)-v.mod.ImportedFuncs, len(v.mod.bodies); want != have {
		v.report(failure{at, CodeCount, sprint("%d functions declared, %d bodies found", want, have)})
	}
	v.section = sectionNames[sectionData]
	if v.dataCount >= 0 && v.dataCount != v.mod.DataSegments {
		v.report(failure{at, CodeDataCount,
			sprint("data count section says %d segments, %d found", v.dataCount, v.mod.DataSegments)})
	}
}

func (v *validator) custom() string {
	name := v.name(v.lim.NameBytes)
	body := v.buf[v.pos:v.end]
	if _, again := v.mod.Customs[name]; !again {
		v.mod.Customs[name] = body
		if name == "name" {
			v.mod.FuncNames = functionNames(body)
		}
	}
	v.pos = v.end
	return name
}

func (v *validator) reserved(at int, name string) {
	if strings.HasPrefix(name, abi.ReservedPrefix) && !v.lim.reservedNames {
		fail(at, CodeReserved, "name %q begins with %q, which is reserved for the host", name, abi.ReservedPrefix)
	}
}
