package spec

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// defaultInstances is in how many instances a function runs whose module keeps its memory in snapshots.
const defaultInstances = 8

// instances says in how many tasks a function runs: as many as asked for, but of a module whose memory is
// state always the same number, for an instance can't be split.
func (b *builder) instances(it *item, c *object, desc *abi.Descriptor) {
	n := it.node
	asked := c.fields["instances"] != nil
	switch {
	case desc.Snapshot != abi.SnapshotMemory && asked:
		b.problem(c.node.Line, join(c.path, "instances"), fmt.Sprintf("module %s does not keep its memory in snapshots", n.Guest.Module), "parallelism says how many tasks the operator has")
	case desc.Snapshot != abi.SnapshotMemory:
	case it.explicit:
		b.problem(n.Line, join(it.path, "parallelism"), fmt.Sprintf("the memory of module %s is state, so that the number of its tasks is fixed", n.Guest.Module), "give instances: in its place, once and for all")
	case !n.Guest.Fn.Keyed:
		b.problem(c.node.Line, c.path, fmt.Sprintf("the memory of module %s is state, which needs a keyed function, and %q is none", n.Guest.Module, n.Guest.Function), "")
	default:
		n.Parallelism = int(c.integer("instances", defaultInstances))
		n.Guest.Instances = n.Parallelism
	}
}
