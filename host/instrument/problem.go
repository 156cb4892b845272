package instrument

import (
	"fmt"
	"strings"
)

// Stable codes of problems. Codes of exceeded limits are "limit-" and the limit's name.
const (
	CodeEmpty         = "empty"          // no bytes
	CodeMagic         = "magic"          // not WebAssembly
	CodeVersion       = "version"        // another version of the binary format
	CodeComponent     = "component"      // a component, not a core module
	CodeTruncated     = "truncated"      // ends inside something
	CodeLEB           = "leb"            // an integer too long or too large
	CodeSectionID     = "section-id"     // unknown section
	CodeSectionOrder  = "section-order"  // out of order or twice
	CodeSectionLength = "section-length" // contents and declared length differ
	CodeCount         = "count"          // counts of two sections differ
	CodeUTF8          = "utf8"           // a name is not UTF-8
	CodeMalformed     = "malformed"      // a byte that may not stand there
	CodeFeature       = "feature"        // an extension that is not accepted
	CodeOpcode        = "opcode"         // an instruction nobody knows
	CodeIndex         = "index"          // no such type, function, table, memory, global, local, label, segment
	CodeType          = "type"           // operand or result types do not fit
	CodeStack         = "stack"          // operands missing or left over
	CodeControl       = "control"        // blocks do not nest
	CodeAlign         = "align"          // alignment larger than natural
	CodeImmutable     = "immutable"      // global.set of a constant
	CodeConstExpr     = "const-expr"     // not a constant expression
	CodeUndeclared    = "undeclared"     // ref.func of a function that is nowhere declared
	CodeDataCount     = "data-count"     // data count section missing or wrong
	CodeRange         = "range"          // minimum above maximum, or above what the format allows
	CodeStart         = "start"          // start function with parameters or results
	CodeDuplicate     = "duplicate"      // an export name twice
	CodeReserved      = "reserved"       // a name with the rewriter's prefix
	CodeImportKind    = "import-kind"    // an import that is no function
	CodeLimit         = "limit-"         // prefix of limit codes
)

// maxProblems ends the search: after so many the rest tells nothing new.
const maxProblems = 20

// Problem is one reason why a module is refused.
type Problem struct {
	Offset  int    // byte offset in the module
	Section string // "header", "type", ..., "code", "custom"
	Code    string // one of the codes above, stable
	Message string // a sentence: what was wrong, where, what was expected
}

// String gives the place, the sentence and the code.
func (p Problem) String() string {
	return fmt.Sprintf("%s section, offset 0x%x: %s [%s]", p.Section, p.Offset, p.Message, p.Code)
}

// ValidationError lists everything found wrong with a module, in order of offset as far as it was read.
type ValidationError struct{ Problems []Problem }

// Error joins the problems, one a line.
func (e *ValidationError) Error() string {
	var b strings.Builder
	b.WriteString("module refused: ")
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteString("\n  ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Has says whether one of the problems has the code.
func (e *ValidationError) Has(code string) bool {
	for _, p := range e.Problems {
		if p.Code == code {
			return true
		}
	}
	return false
}

// failure carries a problem from the place where it is found to the section or body that is given up.
// It never leaves the package.
type failure struct {
	offset  int
	code    string
	message string
}

// fail gives up the section or body being read.
func fail(offset int, code, format string, args ...any) {
	panic(failure{offset, code, fmt.Sprintf(format, args...)})
}

// failLimit gives up because a limit is exceeded; name is the limit's name in the code.
func failLimit(offset int, name string, what string, have uint64, limit int) {
	fail(offset, CodeLimit+name, "%s: %d, the limit is %d", what, have, limit)
}
