package modcheck

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Checked is what was found of one guest function of a pipeline.
type Checked struct {
	Operator string `json:"operator"` // with a window's function behind a dot
	Module   string `json:"module"`   // path, as the pipeline file has it
	Digest   string `json:"digest"`
	Function
}

// Pipeline is a pipeline whose functions are to be checked.
type Pipeline struct {
	Graph   *operators.Graph
	Connect connect.Env
	// Module is the compiled module of a guest function; it stays open while it is checked.
	Module func(*operators.Node) (guestop.Module, error)
	Cache  Cache
}

// Check checks the functions of a pipeline that were not checked before, with the first records of its input where that
// can be read without taking them away, else with synthetic ones. An error is the host's, or an *Error for each module
// that fails.
func (p *Pipeline) Check(ctx context.Context, o Options) ([]Checked, error) {
	defer crashpoint.Mute()() // a crash run is about the job
	in := &inputs{ctx: ctx, p: p, o: o, of: map[string]*Sample{}}
	var all []Checked
	var errs []error
	for _, n := range p.Graph.Nodes {
		for _, g := range functionsOf(n) {
			c := Checked{Operator: g.ID, Module: g.Guest.Module}
			m, err := p.Module(g)
			if err != nil {
				return all, err
			}
			c.Digest = m.Digest()
			if c.Function, err = p.one(in, n, g, m); err != nil {
				return all, err
			}
			all = append(all, c)
			if c.Difference != nil {
				errs = append(errs, &Error{Module: c.Module, Digest: c.Digest, Problems: []string{c.String()}})
			}
		}
	}
	return all, errors.Join(errs...)
}

// functionsOf are the guest functions of a node, each as a node that names its module.
func functionsOf(n *operators.Node) []*operators.Node {
	switch {
	case n.Guest != nil:
		return []*operators.Node{n}
	case n.Window != nil:
		return n.Window.GuestNodes(n.ID)
	case n.Source != nil && n.Source.Time != nil && n.Source.Time.Punctuate != nil:
		return []*operators.Node{{ID: n.ID, Kind: operators.NodeGuest, Guest: n.Source.Time.Punctuate}}
	}
	return nil
}

// enoughInput is how many records of real input do without synthetic ones.
const enoughInput = 64

// one checks function g of node n.
func (p *Pipeline) one(in *inputs, n, g *operators.Node, m guestop.Module) (Function, error) {
	fn := g.Guest.Fn
	if fn == nil {
		return Function{}, fmt.Errorf("operator %s: function %s of module %s is not resolved", g.ID, g.Guest.Function, g.Guest.Module)
	}
	f := Function{Name: fn.Name, Kind: string(fn.Kind)}
	switch {
	case g.Guest.Unchecked:
		f.NotChecked = "the pipeline file says check: off"
		return f, nil
	case m.Descriptor().Snapshot == abi.SnapshotMemory:
		f.NotChecked = "its memory is state (snapshot: memory)"
		return f, nil
	}
	if p.Cache.passed(m.Digest(), g.Guest) {
		f.Cached = true
		return f, nil
	}
	s := in.before(n, g)
	f, err := One(in.ctx, m, g.Guest, s, in.o)
	if err == nil && s != nil && f.Difference == nil && (f.NotChecked != "" || len(s.Records) < enoughInput) {
		var made Function
		if made, err = One(in.ctx, m, g.Guest, nil, in.o); made.Difference != nil || made.NotChecked == "" {
			f = made
		}
	}
	if err == nil && f.Difference == nil && f.NotChecked == "" {
		err = p.Cache.keep(m.Digest(), g.Guest)
	}
	return f, err
}
