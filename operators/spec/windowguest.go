package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/window"
)

// windowGuestShape is a function of a window.
var windowGuestShape = &shape{fields: []field{
	{name: "module", kind: kindString, required: true, doc: "WebAssembly module, relative to this file."},
	{name: "function", kind: kindString, doc: "Function of the module; may be left out if it offers one of this kind."},
	{name: "digest", kind: kindString, doc: "SHA-256 the module must have, hexadecimal."},
	{name: "memory", kind: kindSize, doc: "Linear memory of one instance; default 64MiB."},
	{name: "fuel", kind: kindInt, min: 1, max: 1 << 50, doc: "Fuel per record, merge or window; default 52428800."},
	{name: "clock", kind: kindEnum, enum: []string{"event", "processing"}, doc: "What the guest sees as time: that of the record or window (default), or the host's."},
	{name: "describe", kind: kindObject, object: describeShape, doc: "What the function is, for a module that does not describe itself."},
}}

// functionRef is a guest function of an operator and where the file names it.
type functionRef struct {
	g *operators.GuestNode
	c *object
}

// windowFunction reads a checked function of a window.
func (b *builder) windowFunction(it *item, c *object, kind abi.FunctionKind) *operators.GuestNode {
	g := &operators.GuestNode{Kind: kind}
	b.guestSettings(g, c)
	it.functions = append(it.functions, functionRef{g, c})
	return g
}

// guestSettings reads what all guest functions have.
func (b *builder) guestSettings(g *operators.GuestNode, c *object) {
	g.Module, g.Function, g.Digest = c.text("module"), c.text("function"), strings.ToLower(c.text("digest"))
	g.Memory, g.Fuel = c.size("memory", abi.DefaultMemoryBytes), c.integer("fuel", abi.FuelPerRecord)
	g.Clock = c.textOr("clock", operators.TimeEvent)
	g.Unchecked = c.textOr("check", checkOn) == checkOff
	b.confine(c.node.Line, join(c.path, "module"), g.Module)
	if g.Memory > abi.MaxMemoryBytes {
		b.problem(c.node.Line, join(c.path, "memory"), fmt.Sprintf("an instance has at most %d MiB", abi.MaxMemoryBytes>>20), "")
	}
	if g.Digest != "" && (len(g.Digest) != 64 || strings.Trim(g.Digest, "0123456789abcdef") != "") {
		b.problem(c.node.Line, join(c.path, "digest"), "a SHA-256 has 64 hexadecimal digits", "")
	}
	if d := c.sub("describe"); d != nil {
		g.Describe = describeOf(d, g)
	}
}

// windowOutput is the number of a side output of a window's function; -1 after a problem.
func (b *builder) windowOutput(it *item, g *operators.GuestNode, r ref) int {
	if i := slices.Index(g.Outputs, r.output); i >= 0 {
		return i + 2 // behind late
	}
	if g.Fn != nil {
		names := append([]string{operators.LateOutput}, g.Outputs...)
		b.problem(r.line, it.path, fmt.Sprintf("%q has no side output %q, expected one of %s", r.id, r.output, oneOf(names)), nearest(r.output, names))
		return -1
	}
	g.Outputs = append(g.Outputs, r.output) // no module to ask: in the order in which they are named
	return len(g.Outputs) + 1
}

// windowFunctions fits the functions of a window to what they read; false: their schemas are not known.
func (b *builder) windowFunctions(it *item) bool {
	w := it.node.Window
	for _, f := range it.functions {
		if f.g.Fn == nil { // a problem already, or nobody to ask
			return false
		}
	}
	for _, a := range w.Aggregates {
		if a.Guest != nil {
			a.Guest.Input = w.Input
			b.reads(it, a.Guest, w.Input)
		}
	}
	if g := w.Process; g != nil {
		if g.Input = w.Input; len(w.Aggregates) > 0 {
			g.Input = window.RowSchema(w)
		}
		b.reads(it, g, g.Input)
	}
	return true
}

// reads says what a function reads that its input does not have.
func (b *builder) reads(it *item, g *operators.GuestNode, in []abi.Field) {
	line := it.node.Line
	for _, f := range it.functions {
		if f.g == g {
			line = f.c.node.Line
		}
	}
	for _, want := range g.Fn.Input {
		switch i := format.FieldIndex(in, want.Name); {
		case len(in) == 0:
			b.problem(line, it.path, fmt.Sprintf("function %q reads the field %q, but its input is raw bytes", g.Function, want.Name), "give the source fields:")
			return
		case i < 0:
			b.problem(line, it.path, fmt.Sprintf("function %q reads the field %q, the input has %s", g.Function, want.Name, schemaText(in)), nearest(want.Name, fieldNames(in)))
		case in[i].Type != want.Type && !(in[i].Type == abi.TypeJSON && want.Type == abi.TypeString):
			b.problem(line, it.path, fmt.Sprintf("function %q reads the field %q as %s, the input has it as %s", g.Function, want.Name, want.Type, in[i].Type), "")
		}
	}
}
