package jobtest

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/memory"
)

// source replaces the nodes of w.Sources by sources over records.
func (w *World) source(n *operators.Node) (operators.Source, error) {
	data, ok := w.Sources[n.ID]
	if !ok {
		return connect.Source(n, connect.Env{})
	}
	return &polledSource{memory.NewSource(n, data...), n.ID, w}, nil
}

type polledSource struct {
	operators.Source
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
