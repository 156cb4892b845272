package modcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
)

// inputs finds what a pipeline's functions would get first, without running it. What can't be had is nil.
type inputs struct {
	ctx context.Context
	p   *Pipeline
	o   Options
	of  map[string]*Sample // main outputs, by node
}

// before is a sample of what function g of node n gets.
func (in *inputs) before(n, g *operators.Node) *Sample {
	if n.Source != nil {
		return in.output(n)
	}
	if w := n.Window; w != nil && g.Guest == w.Process && len(w.Aggregates) > 0 {
		return nil // rows of aggregates
	}
	return in.input(n)
}

// input is what comes into a node by its first input that can be told.
func (in *inputs) input(n *operators.Node) *Sample {
	for _, e := range n.Inputs {
		i := slices.IndexFunc(in.p.Graph.Nodes, func(x *operators.Node) bool { return x.ID == e.From })
		if i < 0 || e.Output != operators.OutputMain {
			continue
		}
		if s := in.output(in.p.Graph.Nodes[i]); s != nil {
			return s
		}
	}
	return nil
}

// output is what a node gives on its main output; nil where it can't be told, or is nothing.
func (in *inputs) output(n *operators.Node) *Sample {
	if s, ok := in.of[n.ID]; ok {
		return s
	}
	in.of[n.ID] = nil
	s, err := in.make(n)
	if err != nil || s == nil || len(s.Records) == 0 {
		return nil // whoever runs the pipeline will say what is wrong
	}
	in.of[n.ID] = s
	return s
}

func (in *inputs) make(n *operators.Node) (*Sample, error) {
	if n.Source != nil {
		return in.read(n)
	}
	before := in.input(n)
	if before == nil {
		return nil, nil
	}
	switch n.Kind {
	case operators.NodeKeyBy:
		return in.keyed(n, before)
	case operators.NodeUnion:
		return before, nil
	case operators.NodeGuest:
		return in.through(n, before)
	}
	return nil, nil
}

// sampling is a source node that takes nothing away, waits for nothing and sends nothing elsewhere.
func sampling(n *operators.Node) *operators.Node {
	c, s := *n, *n.Source
	s.OnError = &operators.ErrorPolicy{Policy: operators.PolicySkip}
	if s.Key != nil {
		k := *s.Key
		k.Null.Policy = operators.PolicySkip
		s.Key = &k
	}
	if s.Time != nil {
		t := *s.Time
		t.OnFuture, t.Align, t.Idle, t.Punctuate = operators.ErrorPolicy{}, 0, 0, nil
		if t.Watermarks == operators.WatermarksPunctuated {
			t.Watermarks = operators.WatermarksBounded
		}
		s.Time = &t
	}
	if s.Generator != nil {
		gen := *s.Generator
		gen.Rate = 0
		s.Generator = &gen
	}
	c.Source, c.Parallelism = &s, 1
	return &c
}

// read reads the first records of a source.
func (in *inputs) read(node *operators.Node) (s *Sample, err error) {
	if connect.Promise(node) == operators.PromiseLossy {
		return nil, nil
	}
	n := sampling(node)
	src, err := connect.Source(n, in.p.Connect)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := src.Open(contextOf(in.ctx, n.ID, "", clock.Wall{})); err != nil {
		return nil, err
	}
	s = &Sample{From: fmt.Sprintf("the input of %s", n.ID), Fields: n.Schema}
	var b abi.Batch
	for status := operators.PollMore; status == operators.PollMore && len(s.Records) < SampleRecords; {
		b.Reset()
		if status, err = src.Poll(&b, segment); err != nil {
			return nil, err
		}
		s.take(&b)
	}
	return s, nil
}

// take adds what a batch has, as far as there is room.
func (s *Sample) take(b *abi.Batch) {
	base := uint32(len(s.Records))
	for i := 0; i < b.Len() && len(s.Records) < SampleRecords; i++ {
		s.Records = append(s.Records, abi.Frame(bytes.Clone(b.Frame(i))).Record())
	}
	for _, m := range b.Marks {
		at := base + m.Index
		if n := len(s.Marks); int(at) <= len(s.Records) && m.Watermark != abi.MaxWatermark && (n == 0 || m.Watermark > s.Marks[n-1].Watermark) {
			s.Marks = append(s.Marks, abi.Mark{Index: at, Watermark: m.Watermark})
		}
	}
}

// keyed is a sample behind a key_by.
func (in *inputs) keyed(node *operators.Node, before *Sample) (*Sample, error) {
	n, k := *node, *node.KeyBy
	k.Null.Policy = operators.PolicySkip
	n.KeyBy = &k
	op := operators.NewKeyBy(&n)
	ctx := contextOf(in.ctx, n.ID, "", clock.Wall{})
	var g gather
	err := op.Open(ctx)
	if err == nil {
		err = before.batches(segment, ctx.Hasher.Hash, func(b *abi.Batch) error { return op.Batch(0, b, &g) }, func() error { return nil })
	}
	s := &Sample{From: before.From, Fields: n.Schema}
	s.take(&g.main)
	return s, errors.Join(err, op.Close())
}

// through is a sample behind a function.
func (in *inputs) through(n *operators.Node, before *Sample) (*Sample, error) {
	m, err := in.p.Module(n)
	if err != nil || m.Descriptor().Snapshot == abi.SnapshotMemory {
		return nil, err
	}
	o := in.o
	o.defaults()
	dir, err := os.MkdirTemp(o.ScratchDir, "millrace-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	sub := &subject{ctx: in.ctx, dir: dir, o: o, m: m, node: n.Guest, sample: before}
	t := newTrace(way{batch: segment}, len(before.Records), o)
	var g gather
	if err := sub.records(t, m, &g); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	s := &Sample{From: before.From + " behind " + n.ID, Fields: n.Schema}
	s.take(&g.main)
	return s, nil
}
