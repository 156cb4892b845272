package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/spec"
)

// ErrUnfit says that pipeline file and checkpoint contradict each other.
var ErrUnfit = errors.New("the pipeline does not fit the checkpoint")

// fits refuses what PlanRestore can't know: another key over state that is kept by the old one. New sources
// over old state are noted.
func (j *Job) fits(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, g *operators.Graph) error {
	var problems []string
	text, err := j.store.Read(ctx, m.InForce().Pipeline)
	if err != nil {
		return err
	}
	if old, err := spec.Parse("pipeline of the checkpoint", text, spec.Options{}); err == nil {
		problems = append(problems, changedKeys(old, g, r)...)
		problems = append(problems, changedWindows(old, g, r)...)
	}
	problems = append(problems, memoryProblems(g, r)...)
	unfit, err := j.evolves(ctx, m, r, g)
	if err != nil {
		return err
	}
	problems = append(problems, unfit...)
	if len(problems) > 0 {
		return fmt.Errorf("%w %d: %s", ErrUnfit, m.ID, strings.Join(problems, "; "))
	}
	for _, n := range g.Nodes {
		if n.Source != nil && len(r.Operator(n.ID)) == 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("source %s is new: it starts at its beginning, over the state of checkpoint %d", n.ID, m.ID))
		}
	}
	return nil
}

// emptyDrops names words of --drop that mean nothing.
func (j *Job) emptyDrops(m *checkpoint.Manifest) (problems []string) {
	held := map[string]bool{}
	for i := range m.Tasks {
		for _, o := range m.Tasks[i].Operators {
			held[o.Operator] = true
		}
	}
	for _, id := range j.opts.Drop {
		switch {
		case slices.ContainsFunc(j.opts.Graph.Nodes, func(n *operators.Node) bool { return n.ID == id }):
			problems = append(problems, fmt.Sprintf("--drop %s: the operator is still in the pipeline", id))
		case !held[id]:
			problems = append(problems, fmt.Sprintf("--drop %s: the checkpoint holds nothing of that name", id))
		}
	}
	return problems
}

// changedKeys names operators with restored keyed state whose records now have another key.
func changedKeys(old, now *operators.Graph, r *checkpoint.Restore) (problems []string) {
	for _, n := range now.Nodes {
		keyed := slices.ContainsFunc(r.Operator(n.ID), func(s checkpoint.OperatorSnapshot) bool { return s.Keyed != nil && len(s.Keyed.States) > 0 })
		i := slices.IndexFunc(old.Nodes, func(o *operators.Node) bool { return o.ID == n.ID })
		if !keyed || i < 0 {
			continue
		}
		if was, is := keyOf(old, old.Nodes[i]), keyOf(now, n); was != "" && was != is {
			problems = append(problems, fmt.Sprintf("operator %s has state by key %s, its records now come by key %s", n.ID, was, is))
		}
	}
	return problems
}

// keyOf describes the key of a node's input: that of the nearest key_by, or source with a key, above it.
func keyOf(g *operators.Graph, n *operators.Node) string {
	var keys []string
	for _, e := range n.Inputs {
		i := slices.IndexFunc(g.Nodes, func(o *operators.Node) bool { return o.ID == e.From })
		if i < 0 {
			continue
		}
		from := g.Nodes[i]
		k := from.KeyBy
		if k == nil && from.Source != nil {
			k = from.Source.Key
		}
		switch {
		case k != nil && k.Whole:
			keys = append(keys, "the whole value")
		case k != nil:
			keys = append(keys, strings.Join(k.Fields, "+"))
		case from.Guest == nil:
			keys = append(keys, keyOf(g, from))
		}
	}
	return strings.Join(keys, " and ")
}
