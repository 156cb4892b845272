// Package job runs a pipeline: it plans the graph into tasks and exchanges, restores them from a checkpoint,
// drives checkpoints, and restarts after faults of the host.
package job

import (
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
)

// Plan is the graph cut into vertices: operators that need no exchange between them run in one task.
type Plan struct {
	Vertices []*Vertex // inputs first
	byNode   map[string]*Vertex
	nodes    map[string]*operators.Node
}

// Vertex is a chain of operators that run in the same tasks.
type Vertex struct {
	ID          string // of the head
	Parallelism int
	Nodes       []*operators.Node // head first, inputs first
	In          []Hop             // exchanges into the head, in input order
}

// Hop is an exchange: an edge of the graph that leads from one vertex's tasks to another's.
type Hop struct {
	Edge  operators.Edge
	From  *Vertex
	To    *Vertex
	Input int // input number of the head
	Mode  task.Mode
}

// NewPlan cuts a checked graph.
func NewPlan(g *operators.Graph) *Plan {
	p := &Plan{byNode: map[string]*Vertex{}, nodes: map[string]*operators.Node{}}
	for _, n := range g.Nodes {
		p.nodes[n.ID] = n
	}
	for _, n := range g.Nodes {
		if n.PushedInto != "" { // its source does its work
			continue
		}
		if v := p.chained(n); v != nil {
			v.Nodes = append(v.Nodes, n)
			p.byNode[n.ID] = v
			continue
		}
		v := &Vertex{ID: n.ID, Parallelism: n.Parallelism, Nodes: []*operators.Node{n}}
		for i, e := range n.Inputs {
			v.In = append(v.In, Hop{Edge: e, From: p.byNode[e.From], To: v, Input: i, Mode: p.mode(e, n)})
		}
		p.byNode[n.ID] = v
		p.Vertices = append(p.Vertices, v)
	}
	return p
}

// chained is the vertex a node can join, nil if it starts one of its own.
func (p *Plan) chained(n *operators.Node) *Vertex {
	if len(n.Inputs) != 1 {
		return nil
	}
	from := p.nodes[n.Inputs[0].From]
	if from.Parallelism != n.Parallelism || p.mode(n.Inputs[0], n) == task.ByKey {
		return nil
	}
	return p.byNode[from.ID]
}

// mode is how an edge's records find their task: a keyed function needs each key in one task.
func (p *Plan) mode(e operators.Edge, to *operators.Node) task.Mode {
	from := p.nodes[e.From]
	switch {
	case to.Guest != nil && to.Guest.Keyed, to.Window != nil && !to.Window.Unkeyed:
		return task.ByKey
	case from.Parallelism == to.Parallelism:
		return task.Forward
	}
	return task.BySplit
}

// Tasks is the number of tasks.
func (p *Plan) Tasks() int {
	n := 0
	for _, v := range p.Vertices {
		n += v.Parallelism
	}
	return n
}
