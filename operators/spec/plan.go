package spec

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
)

// deadLetters adds the hidden sinks: one per path, reading every operator that sends there.
func (b *builder) deadLetters(order []*item) {
	sinks := map[string]*operators.Node{}
	for _, it := range order {
		if it.dead == "" {
			continue
		}
		single := !strings.HasSuffix(it.dead, "/")
		if single && it.endless {
			b.problem(it.deadLine, it.path, fmt.Sprintf("%q is published at the end of input, and this input has none", it.dead), "give a folder: path: "+it.dead+"/")
		}
		schema := it.node.Schema // of the records it could not handle
		if g := it.node.Guest; g != nil {
			schema = g.Input
		}
		if w := it.node.Window; w != nil {
			schema = w.Input
		}
		edge := operators.Edge{From: it.node.ID, Output: operators.OutputDeadLetter}
		if n := sinks[it.dead]; n != nil {
			n.Inputs = append(n.Inputs, edge)
			if !slices.Equal(n.Sink.Input, schema) {
				n.Sink.Input = nil
			}
			continue
		}
		n := &operators.Node{ID: it.node.ID + ".dead", Kind: operators.NodeSink, Line: it.deadLine, Parallelism: 1, Hidden: true,
			Inputs: []operators.Edge{edge}, Sink: &operators.SinkNode{Connector: "file", Dir: b.opts.Dir, Path: it.dead,
				Single: single, Format: "ndjson", Input: schema, DeadLetter: true}}
		sinks[it.dead] = n
		b.g.Nodes = append(b.g.Nodes, n)
	}
}

// samePaths refuses two sinks that would write to one place, however it is spelled, and one that would write
// into another's folder of parts.
func (b *builder) samePaths() {
	place := func(n *operators.Node) string {
		p := n.Sink.Path
		if !filepath.IsAbs(p) {
			p = filepath.Join(b.opts.Dir, p)
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil {
			p = filepath.Join(dir, filepath.Base(p))
		}
		return filepath.Clean(p)
	}
	var sinks []*operators.Node
	stdin := 0
	for _, n := range b.g.Nodes {
		if n.Source != nil && n.Source.Connector == "stdin" {
			if stdin != 0 {
				b.problem(n.Line, "", fmt.Sprintf("standard input is already read by the source in line %d", stdin), "read it once, and read that operator twice")
			}
			stdin = n.Line
		}
		if n.Sink == nil || n.Sink.Path == "" {
			continue
		}
		p := place(n)
		for _, other := range sinks {
			o := place(other)
			switch {
			case p == o:
				b.problem(n.Line, "", fmt.Sprintf("%q is already written by the sink in line %d", n.Sink.Path, other.Line), "")
			case !other.Sink.Single && filepath.Dir(p) == o && n.Sink.Single, !n.Sink.Single && filepath.Dir(o) == p && other.Sink.Single:
				b.problem(n.Line, "", fmt.Sprintf("%q and the sink in line %d write into one folder", n.Sink.Path, other.Line), "give each a folder of its own")
			}
		}
		sinks = append(sinks, n)
	}
}

// push moves each key_by that is the only reader of a source into it, so that the decoder takes the
// key in its one pass. The node stays in the graph, marked; those behind it read the source.
func push(g *operators.Graph) {
	for _, k := range g.Nodes {
		if k.Kind != operators.NodeKeyBy || len(k.Inputs) != 1 {
			continue
		}
		s := find(g, k.Inputs[0].From)
		if s.Kind != operators.NodeSource || s.Source.NaturalKey || s.Source.Format == "binary" || len(readers(g, s.ID, operators.OutputMain)) != 1 {
			continue
		}
		// two dead-letter files can't be told apart behind one output
		dead := readers(g, s.ID, operators.OutputDeadLetter)
		if len(dead) > 0 && k.KeyBy.Null.Policy == operators.PolicyDeadLetter && !slices.Equal(dead, readers(g, k.ID, operators.OutputDeadLetter)) {
			continue
		}
		s.Source.Key, s.Keyed, k.PushedInto = k.KeyBy, true, s.ID
		for _, n := range g.Nodes {
			for i := range n.Inputs {
				if n.Inputs[i].From == k.ID {
					n.Inputs[i].From = s.ID
				}
			}
			n.Inputs = distinct(n.Inputs)
		}
	}
}

func distinct(es []operators.Edge) (out []operators.Edge) {
	for _, e := range es {
		if !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	return out
}

func find(g *operators.Graph, id string) *operators.Node {
	for _, n := range g.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// readers are the ids of the nodes that run and read an output.
func readers(g *operators.Graph, id string, output int) (ids []string) {
	for _, n := range g.Nodes {
		if n.PushedInto == "" && slices.Contains(n.Inputs, operators.Edge{From: id, Output: output}) {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// prune takes fields that nothing reads out of the rows of sources, and of what passes rows on.
func prune(g *operators.Graph) {
	for _, s := range g.Nodes {
		if s.Kind != operators.NodeSource || len(s.Schema) == 0 {
			continue
		}
		if s.Source.Connector == "generator" {
			continue // its rows are what they are
		}
		used, all := map[string]bool{}, false
		punctuationNeeds(s.Source, used, &all)
		need(g, s.ID, used, &all)
		if all {
			continue
		}
		var kept []abi.Field
		for _, f := range s.Schema {
			if used[f.Name] {
				kept = append(kept, f)
			}
		}
		if len(kept) > 0 {
			s.Schema = kept
			if t := s.Source.Time; t != nil && t.Punctuate != nil {
				t.Punctuate.Input = kept
			}
			carry(g, s.ID, kept)
		}
	}
}

// need collects the fields that the readers of a node's main output use.
func need(g *operators.Graph, id string, used map[string]bool, all *bool) {
	for _, r := range readers(g, id, operators.OutputMain) {
		n := find(g, r)
		switch {
		case n.Kind == operators.NodeKeyBy && !n.KeyBy.Whole:
			for _, f := range n.KeyBy.Fields {
				used[f] = true
			}
			need(g, n.ID, used, all)
		case n.Kind == operators.NodeGuest && n.Guest.Fn != nil && len(n.Guest.Fn.Input) > 0 && len(n.Inputs) == 1 &&
			n.Guest.OnError.Policy != operators.PolicyDeadLetter: // a dead letter shows the whole record
			for _, f := range n.Guest.Fn.Input {
				used[f.Name] = true
			}
			if n.Guest.Kind == abi.FunctionFilter {
				need(g, n.ID, used, all)
			}
		case n.Kind == operators.NodeWindow && len(n.Inputs) == 1 && windowNeeds(g, n, used):
		default:
			*all = true
		}
	}
}

// carry gives the readers of a node's main output their new input schema.
func carry(g *operators.Graph, id string, schema []abi.Field) {
	for _, r := range readers(g, id, operators.OutputMain) {
		n := find(g, r)
		if n.Guest != nil {
			n.Guest.Input = schema
		}
		if n.Window != nil {
			n.Window.Input = schema
		}
		if n.Kind == operators.NodeKeyBy || n.Guest != nil && n.Guest.Kind == abi.FunctionFilter {
			n.Schema = schema
			carry(g, n.ID, schema)
		}
	}
	for _, n := range g.Nodes {
		if n.Sink != nil && n.Sink.DeadLetter && slices.Contains(n.Inputs, operators.Edge{From: id, Output: operators.OutputDeadLetter}) {
			n.Sink.Input = schema
		}
	}
}
