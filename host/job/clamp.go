package job

import (
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
)

// Clamp is the graph with no more tasks of an operator than can have work: of a source one per split, of what
// follows it without a key no more than feed it. A task without input would only hold watermarks, for as
// long as its end takes to get through: the same input would give timers other moments at other
// parallelism. splits tells how many splits a source has in the checkpoint to start from, 0: none.
func Clamp(g *operators.Graph, splits func(id string) int) *operators.Graph {
	c := *g
	c.Nodes = nil
	byID := map[string]*operators.Node{}
	for _, old := range g.Nodes {
		n := *old
		if most := mostTasks(&n, byID, splits); most > 0 {
			n.Parallelism = min(n.Parallelism, most)
		}
		byID[n.ID] = &n
		c.Nodes = append(c.Nodes, &n)
	}
	return &c
}

// mostTasks is how many tasks of a node can have work; 0: any number.
func mostTasks(n *operators.Node, byID map[string]*operators.Node, splits func(string) int) int {
	switch {
	case n.Source != nil:
		if splits != nil {
			if s := splits(n.ID); s > 0 {
				return s
			}
		}
		return connect.Splits(n)
	case n.Guest != nil && n.Guest.Keyed, n.Window != nil:
		return 0
	}
	most := 0
	for _, e := range n.Inputs {
		most = max(most, byID[e.From].Parallelism)
	}
	return most
}
