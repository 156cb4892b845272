package operators

import "github.com/millrace-io/millrace/checkpoint"

// Bounded is a source that can be held at ends: a replay goes up to the positions of a snapshot, and no further.
type Bounded interface {
	// Bound is called before Open, with the end of each split by its index. A split that has reached its end is not
	// read any more, and others are not kept from their turns by it; it does not count as finished.
	Bound(ends map[uint32]checkpoint.SplitPosition)
}

// Reached says that a split stands at end, or behind it.
func Reached(p, end checkpoint.SplitPosition) bool {
	return p.Finished || !end.Finished && p.Offset >= end.Offset
}
