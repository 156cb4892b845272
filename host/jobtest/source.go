package jobtest

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/memory"
)

// source replaces the nodes of w.Feeds and w.Sources.
func (w *World) source(n *operators.Node) (operators.Source, error) {
	if f := w.Feeds[n.ID]; f != nil {
		return &feedSource{feed: f, node: n}, nil
	}
	data, ok := w.Sources[n.ID]
	if !ok {
		return connect.Source(n, w.Connect)
	}
	return &polledSource{memory.NewSource(n, data...), n.ID, w}, nil
}

// Native is a native operator with a part in checkpoints: a sink.
type Native interface {
	operators.Operator
	operators.Snapshotter
}

// operator makes a native node's operator, wrapped if that is asked for.
func (w *World) operator(n *operators.Node) (operators.Operator, error) {
	op, err := connect.Operator(n, w.Connect)
	if s, ok := op.(Native); ok && w.Wrap != nil && err == nil {
		return w.Wrap(n, s), nil
	}
	return op, err
}

type polledSource struct {
	*memory.Source
	node  string
	world *World
}

// Poll implements operators.Source.
func (s *polledSource) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	st, err := s.Source.Poll(b, max)
	if s.world.Polled != nil && err == nil {
		s.world.Polled(s.node, b.Len())
	}
	return st, err
}

// Text is a record with a key, an event time and a text value.
func Text(key string, ms int64, value string) abi.Record {
	return abi.Record{Key: []byte(key), Time: ms, Value: []byte(value)}
}
