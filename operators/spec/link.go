package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// moduleInfo is what Modules said of a path.
type moduleInfo struct {
	desc   *abi.Descriptor
	digest string
	err    error
}

// link resolves references, orders the nodes and checks what depends on more than one of them.
func (b *builder) link() {
	for i, it := range b.items {
		b.inputs(i, it)
	}
	order := b.order()
	if order == nil {
		return
	}
	for _, it := range order {
		if it.node.Guest != nil {
			b.resolve(it)
		}
		for _, f := range it.functions {
			b.resolveFunction(f.g, f.c)
		}
	}
	for _, it := range order {
		b.edges(it)
		b.flow(it)
	}
	for _, it := range order {
		b.g.Nodes = append(b.g.Nodes, it.node)
		if it.reads == 0 && it.node.Kind != operators.NodeSink {
			b.problem(it.node.Line, it.path, fmt.Sprintf("nothing reads the output of %q", it.node.ID), "add a sink, also `sink: blackhole`, or remove it")
		}
	}
	b.deadLetters(order)
	b.samePaths()
	if len(b.problems) == 0 {
		push(b.g)
		prune(b.g)
	}
}

// inputs fills in the operator above where nothing is said, and finds what is referred to.
func (b *builder) inputs(i int, it *item) {
	if it.node.Kind == operators.NodeSource {
		return
	}
	if len(it.refs) == 0 && !it.obj.bad["from"] && !it.obj.bad["union"] && it.node.Kind != operators.NodeUnion {
		switch {
		case i == 0:
			b.problem(it.node.Line, it.path, "there is no operator above to read", "begin with a source")
		case b.items[i-1].node.Kind == operators.NodeSink:
			b.problem(it.node.Line, it.path, fmt.Sprintf("the operator above, %q, is a sink and gives nothing on", b.items[i-1].node.ID), "say what to read with from:")
		default:
			it.refs = []ref{{it.node.Line, b.items[i-1].node.ID, ""}}
		}
	}
	kept := it.refs[:0]
	seen := map[ref]bool{}
	for _, r := range it.refs {
		same := ref{id: r.id, output: r.output}
		switch up := b.byID[r.id]; {
		case up == nil:
			b.problem(r.line, it.path, fmt.Sprintf("there is no operator %q to read", r.id), nearest(r.id, b.ids()))
		case up.node.Kind == operators.NodeSink:
			b.problem(r.line, it.path, fmt.Sprintf("%q is a sink and gives nothing on", r.id), "")
		case seen[same]:
			b.problem(r.line, it.path, fmt.Sprintf("%q is read twice", r.id), "")
		default:
			seen[same] = true
			kept = append(kept, r)
		}
	}
	it.refs = kept
}

func (b *builder) ids() (ids []string) {
	for _, it := range b.items {
		ids = append(ids, it.node.ID)
	}
	return ids
}

// order sorts the items so that inputs come first, otherwise as written; nil if there is a cycle.
func (b *builder) order() (order []*item) {
	const (
		unseen = iota
		open
		done
	)
	state := map[*item]int{}
	var visit func(it *item, path []string) bool
	visit = func(it *item, path []string) bool {
		switch state[it] {
		case done:
			return true
		case open:
			at := slices.Index(path, it.node.ID)
			b.problem(it.node.Line, it.path, "operators read each other in a circle: "+strings.Join(append(path[at:], it.node.ID), " <- "), "")
			return false
		}
		state[it] = open
		for _, r := range it.refs {
			if !visit(b.byID[r.id], append(path, it.node.ID)) {
				return false
			}
		}
		state[it] = done
		order = append(order, it)
		return true
	}
	for _, it := range b.items {
		if !visit(it, nil) {
			return nil
		}
	}
	return order
}

// resolve finds a guest's function.
func (b *builder) resolve(it *item) {
	g := it.node.Guest
	c := it.obj.sub(string(g.Kind))
	if c == nil || g.Module == "" {
		return
	}
	if desc := b.resolveFunction(g, c); desc != nil && g.Fn != nil {
		b.instances(it, c, desc)
		b.expire(c, g)
	}
}

// resolveFunction finds the function that the file names in c; nil: there is none, or nobody to ask.
func (b *builder) resolveFunction(g *operators.GuestNode, c *object) *abi.Descriptor {
	if g.Module == "" {
		return nil
	}
	desc := g.Describe
	if b.opts.Modules != nil {
		path := g.Module
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.opts.Dir, path)
		}
		m := b.mods[path]
		if m == nil {
			m = &moduleInfo{}
			m.desc, m.digest, m.err = b.opts.Modules.ModuleInfo(path)
			b.mods[path] = m
		}
		switch {
		case m.err != nil:
			b.problem(c.node.Line, join(c.path, "module"), m.err.Error(), "")
			return nil
		case g.Digest != "" && g.Digest != m.digest:
			b.problem(c.node.Line, join(c.path, "digest"), fmt.Sprintf("module %s has the SHA-256 %s", g.Module, m.digest), "")
		case desc == nil && m.desc == nil:
			b.problem(c.node.Line, c.path, fmt.Sprintf("module %s does not describe itself", g.Module), "describe the function here with describe:")
			return nil
		}
		if m.desc != nil {
			desc = m.desc
		}
	}
	if desc != nil {
		b.function(g, c, desc)
	}
	return desc
}

func (b *builder) function(g *operators.GuestNode, c *object, desc *abi.Descriptor) {
	at, names := -1, []string{}
	for i, f := range desc.Functions {
		names = append(names, f.Name)
		if f.Name == g.Function || g.Function == "" && f.Kind == g.Kind {
			if at >= 0 {
				b.problem(c.node.Line, join(c.path, "function"), fmt.Sprintf("module %s offers several functions of kind %s: %s", g.Module, g.Kind, oneOf(names)), "name one")
				return
			}
			at = i
		}
	}
	if at < 0 {
		what := fmt.Sprintf("no function %q", clip(g.Function))
		if g.Function == "" {
			what = "no function of kind " + string(g.Kind)
		}
		b.problem(c.node.Line, join(c.path, "function"), fmt.Sprintf("module %s offers %s, but %s", g.Module, what, oneOf(names)), nearest(g.Function, names))
		return
	}
	f := desc.Functions[at]
	if f.Kind != g.Kind {
		b.problem(c.node.Line, c.path, fmt.Sprintf("function %q is a %s, not a %s", f.Name, f.Kind, g.Kind), placeOf(f.Kind))
		return
	}
	if (g.Kind == abi.FunctionAggregate || g.Kind == abi.FunctionWindow || g.Kind == abi.FunctionWatermark) && desc.Snapshot == abi.SnapshotMemory {
		b.problem(c.node.Line, c.path, fmt.Sprintf("the memory of module %s is state, and windows and sources do not keep it", g.Module), "")
		return
	}
	g.Fn, g.Index, g.Function, g.Outputs = &f, at, f.Name, f.Outputs
}

// placeOf says where functions of a kind belong.
func placeOf(k abi.FunctionKind) string {
	switch k {
	case abi.FunctionAggregate:
		return "it belongs into a window, as aggregates: {name: {guest: {module: ...}}}"
	case abi.FunctionWindow:
		return "it belongs into a window, as its process:"
	case abi.FunctionWatermark:
		return "it belongs into a source, as time: {watermarks: punctuated, punctuate: {module: ...}}"
	}
	return "write " + string(k) + ": in its place"
}

// edges turns references into edges.
func (b *builder) edges(it *item) {
	for _, r := range it.refs {
		up := b.byID[r.id]
		up.reads++
		e := operators.Edge{From: r.id}
		if r.output == "" {
			up.main++
		} else if e.Output = b.output(it, up, r); e.Output < 0 {
			continue
		}
		it.node.Inputs = append(it.node.Inputs, e)
	}
}

// output is the number of a named side output; -1 after a problem.
func (b *builder) output(it, up *item, r ref) int {
	if w := up.node.Window; w != nil && r.output == operators.LateOutput {
		w.Late = true
		return 1
	} else if w != nil && w.Process != nil {
		return b.windowOutput(it, w.Process, r)
	}
	g := up.node.Guest
	if g == nil {
		b.problem(r.line, it.path, fmt.Sprintf("%q has no side outputs", r.id), "only guest functions have")
		return -1
	}
	if i := slices.Index(g.Outputs, r.output); i >= 0 {
		return i + 1
	}
	if g.Fn != nil {
		msg := fmt.Sprintf("%q has no side output %q", r.id, r.output)
		if len(g.Outputs) > 0 {
			msg += ", expected one of " + oneOf(g.Outputs)
		}
		b.problem(r.line, it.path, msg, nearest(r.output, g.Outputs))
		return -1
	}
	g.Outputs = append(g.Outputs, r.output) // no module to ask: in the order in which they are named
	return len(g.Outputs)
}

// flow carries schema, key and endlessness from a node's inputs to it, and checks that they fit.
func (b *builder) flow(it *item) {
	n := it.node
	if n.Kind == operators.NodeSource {
		b.punctuated(it)
		return
	}
	in, known, keyed := b.input(it)
	switch n.Kind {
	case operators.NodeKeyBy:
		n.Schema, it.known = in, known
		b.keyFields(it, in)
	case operators.NodeUnion:
		n.Schema, it.known, n.Keyed = in, known, keyed
	case operators.NodeSink:
		n.Sink.Input = in
		if n.Sink.Single && it.endless {
			b.problem(n.Line, join(it.path, "path"), fmt.Sprintf("%q is published at the end of input, and this input has none", n.Sink.Path), "give a folder: path: "+n.Sink.Path+"/")
		}
	case operators.NodeWindow:
		b.windowFlow(it, in, known, keyed)
	case operators.NodeGuest:
		n.Guest.Input = in
		b.guestFlow(it, in, known, keyed)
	}
}

// input is the common schema of a node's inputs, whether it is known, and whether all have a key.
func (b *builder) input(it *item) (schema []abi.Field, known, keyed bool) {
	known, keyed = true, len(it.refs) > 0
	for i, r := range it.refs {
		up := b.byID[r.id]
		it.endless = it.endless || up.endless
		s, k := up.node.Schema, up.known
		if r.output != "" {
			s, k = nil, true // side outputs are raw
			if w := up.node.Window; w != nil && r.output == operators.LateOutput {
				s, k = w.Input, up.inputKnown
			}
		}
		keyed = keyed && r.output == "" && up.node.Keyed
		if i == 0 {
			schema = s
		} else if known && k && !slices.Equal(schema, s) {
			b.problem(r.line, it.path, fmt.Sprintf("the inputs have different fields: %s gives %s, %s gives %s", it.refs[0].id, schemaText(schema), r.id, schemaText(s)), "")
		}
		known = known && k
	}
	return schema, known, keyed
}

func schemaText(fs []abi.Field) string {
	if len(fs) == 0 {
		return "raw bytes"
	}
	var parts []string
	for _, f := range fs {
		parts = append(parts, f.Name+": "+string(f.Type))
	}
	return "{" + oneOf(parts) + "}"
}

func (b *builder) keyFields(it *item, schema []abi.Field) {
	k := it.node.KeyBy
	for _, f := range k.Fields {
		if len(schema) > 0 && format.FieldIndex(schema, f) < 0 {
			b.problem(it.node.Line, join(it.path, "key_by"), fmt.Sprintf("the input has no field %q, it has %s", clip(f), oneOf(fieldNames(schema))), nearest(f, fieldNames(schema)))
		}
	}
}

func (b *builder) guestFlow(it *item, in []abi.Field, known, keyed bool) {
	n, g := it.node, it.node.Guest
	if g.Kind == abi.FunctionFilter {
		n.Schema, it.known, n.Keyed = in, known, keyed
	}
	if g.Fn == nil {
		g.Keyed = keyed && g.Kind == abi.FunctionProcess
		return
	}
	g.Keyed = g.Fn.Keyed
	if g.Keyed && !keyed {
		b.problem(n.Line, it.path, fmt.Sprintf("function %q works per key, but its input has none", g.Function), "put a key_by before it")
	}
	if g.Kind != abi.FunctionFilter {
		n.Schema, it.known = g.Fn.Output, true
	}
	if !known {
		return
	}
	for _, want := range g.Fn.Input {
		switch i := format.FieldIndex(in, want.Name); {
		case len(in) == 0:
			b.problem(n.Line, it.path, fmt.Sprintf("function %q reads the field %q, but its input is raw bytes", g.Function, want.Name), "give the source fields:")
			return
		case i < 0:
			b.problem(n.Line, it.path, fmt.Sprintf("function %q reads the field %q, the input has %s", g.Function, want.Name, schemaText(in)), nearest(want.Name, fieldNames(in)))
		case in[i].Type != want.Type && !(in[i].Type == abi.TypeJSON && want.Type == abi.TypeString):
			b.problem(n.Line, it.path, fmt.Sprintf("function %q reads the field %q as %s, the input has it as %s", g.Function, want.Name, want.Type, in[i].Type), "")
		}
	}
}
