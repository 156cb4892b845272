package job

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// memoryProblems names operators whose instances' memory, as the checkpoint has it, the graph can't go on with whatever its module.
func memoryProblems(g *operators.Graph, r *checkpoint.Restore) (problems []string) {
	for _, n := range g.Nodes {
		old := r.Operator(n.ID)
		if len(old) == 0 || old[0].Memory == nil {
			continue
		}
		was := old[0].Memory.Module
		switch {
		case n.Guest == nil || n.Guest.Instances == 0:
			problems = append(problems, fmt.Sprintf("operator %s has the memory of %d instances of module %.12s, and what runs now keeps none", n.ID, len(old), was))
		case n.Guest.Instances != len(old):
			problems = append(problems, fmt.Sprintf("operator %s has the memory of %d instances, the pipeline asks for %d: an instance can't be split (instances: %d)", n.ID, len(old), n.Guest.Instances, len(old)))
		}
	}
	return problems
}
