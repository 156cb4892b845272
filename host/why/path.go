package why

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/operators"
)

// giver is an operator whose outputs reach the sink as they are but for their key.
type giver struct {
	node   *operators.Node
	output int
	rekeys bool // a key_by is between
}

// givers are the operators that could have given what a sink gets, through key_by and union.
func givers(g *operators.Graph, sink *operators.Node) []giver {
	byID := map[string]*operators.Node{}
	for _, n := range g.Nodes {
		byID[n.ID] = n
	}
	var out []giver
	var walk func(n *operators.Node, rekeys bool)
	walk = func(n *operators.Node, rekeys bool) {
		for _, e := range n.Inputs {
			from := byID[e.From]
			switch from.Kind {
			case operators.NodeKeyBy:
				walk(from, true)
			case operators.NodeUnion:
				walk(from, rekeys)
			default:
				out = append(out, giver{from, e.Output, rekeys})
			}
		}
	}
	walk(sink, false)
	return out
}

// before are the guest operators that records of n come through, the nearest last.
func before(g *operators.Graph, n *operators.Node) []*operators.Node {
	byID := map[string]*operators.Node{}
	for _, x := range g.Nodes {
		byID[x.ID] = x
	}
	var out []*operators.Node
	var walk func(n *operators.Node)
	walk = func(n *operators.Node) {
		for _, e := range n.Inputs {
			from := byID[e.From]
			walk(from)
			if from.Kind == operators.NodeGuest && !slices.Contains(out, from) {
				out = append(out, from)
			}
		}
	}
	walk(n)
	return out
}

// explained refuses what can't be explained.
func explained(gs []giver, sink *operators.Node) error {
	for _, g := range gs {
		switch g.node.Kind {
		case operators.NodeGuest, operators.NodeWindow, operators.NodeSource:
		default:
			return fmt.Errorf("%w: sink %s gets outputs of %s, a %s, which can't be explained", ErrTarget, sink.ID, g.node.ID, g.node.Kind)
		}
	}
	return nil
}
