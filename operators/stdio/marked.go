package stdio

import (
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// marked is a stdout sink whose lines say which snapshot is before them: it keeps nothing, but has to see
// the barriers.
type marked struct{ *Sink }

// Barrier implements operators.Snapshotter.
func (s *marked) Barrier(b checkpoint.Barrier) (operators.Pending, error) {
	s.enc.Snapshot = b.ID
	return kept(s.ctx.Operator), nil
}

// Step implements operators.Snapshotter.
func (s *marked) Step() (bool, error) { return false, nil }

// Complete implements operators.Snapshotter.
func (s *marked) Complete(checkpoint.ID) error { return nil }

// kept is the cut of an operator that keeps nothing.
type kept string

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done implements operators.Pending.
func (k kept) Done() <-chan struct{} { return closed }

// Result implements operators.Pending.
func (k kept) Result() (checkpoint.OperatorSnapshot, error) {
	return checkpoint.OperatorSnapshot{Operator: string(k)}, nil
}
