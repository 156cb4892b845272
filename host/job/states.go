package job

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
)

// StateRefs are the states that a graph's operators declare, as its snapshots keep them.
func StateRefs(g *operators.Graph) []checkpoint.StateRef {
	var out []checkpoint.StateRef
	for _, n := range g.Nodes {
		var ds []abi.StateDescriptor
		switch {
		case n.Guest != nil && n.Guest.Fn != nil:
			ds = n.Guest.Fn.States
		case n.Window != nil:
			ds = window.StateSchemas(n.Window)
		}
		if len(ds) == 0 {
			continue
		}
		key := keyFields(g, n)
		for _, d := range ds {
			out = append(out, checkpoint.StateRef{Operator: n.ID, Key: key, State: d})
		}
	}
	return out
}

// keyFields are the columns that the records of a node are keyed by, with their types where the graph knows
// them: those of the nearest key_by, or source with a key, above it. Nil: the key is a whole value, or its
// maker's own, or inputs differ.
func keyFields(g *operators.Graph, n *operators.Node) []abi.Field {
	var found []abi.Field
	for i, e := range n.Inputs {
		at := slices.IndexFunc(g.Nodes, func(o *operators.Node) bool { return o.ID == e.From })
		if at < 0 {
			return nil
		}
		from := g.Nodes[at]
		k := from.KeyBy
		if k == nil && from.Source != nil {
			k = from.Source.Key
		}
		var fs []abi.Field
		switch {
		case k != nil && !k.Whole:
			fs = typed(k.Fields, from)
		case k == nil && from.Guest == nil:
			fs = keyFields(g, from)
		}
		if i > 0 && !slices.Equal(fs, found) {
			return nil
		}
		found = fs
	}
	return found
}

// typed gives columns the types that a node's values have.
func typed(names []string, n *operators.Node) []abi.Field {
	fs := make([]abi.Field, len(names))
	known := slices.Clone(n.Schema)
	if n.Source != nil {
		known = append(known, n.Source.Fields...)
	}
	for i, name := range names {
		fs[i].Name = name
		if j := slices.IndexFunc(known, func(f abi.Field) bool { return f.Name == name }); j >= 0 {
			fs[i].Type = known[j].Type
		}
	}
	return fs
}
