package ci

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/modcheck"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// check tries the new modules by themselves: functions that keep things in their own variables would give the same as
// the old ones here, and something else after a restart.
func (s *slice) check(ctx context.Context, o *Options, now *worker.Revised, changes []job.Difference) (found []Finding, err error) {
	for _, n := range now.Graph.GuestNodes() {
		id, _, _ := strings.Cut(n.ID, "/")
		if n.Guest.Instances > 0 || !slices.ContainsFunc(changes, func(d job.Difference) bool { return d.Operator == id || d.Operator == n.ID }) {
			continue
		}
		m, err := now.Module(ctx, n)
		if err != nil {
			return nil, err
		}
		sample, err := s.sample(ctx, now.Graph, n)
		if err != nil {
			return nil, errors.Join(err, closed(m))
		}
		f, err := modcheck.One(ctx, m, n.Guest, sample, modcheck.Options{ScratchDir: o.WorkDir, Budget: -1})
		if err := errors.Join(err, closed(m)); err != nil {
			return nil, err
		}
		// Of one that passes nothing is said: how far the check came is up to the machine.
		if f.Difference != nil || f.NotChecked != "" {
			found = append(found, Finding{Operator: n.ID, Text: f.String(), Grave: f.Difference != nil})
		}
	}
	return found, nil
}

func closed(m guestop.Module) error {
	if c, ok := m.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// sample is what was recorded for an operator right behind a source; nil: it is not, and gets synthetic records.
func (s *slice) sample(ctx context.Context, g *operators.Graph, n *operators.Node) (*modcheck.Sample, error) {
	at := slices.IndexFunc(g.Nodes, func(x *operators.Node) bool {
		return x.Source != nil && len(n.Inputs) == 1 && n.Inputs[0] == operators.Edge{From: x.ID}
	})
	if at < 0 {
		return nil, nil
	}
	src := s.input.Source(g.Nodes[at])
	oc := &operators.Context{Context: ctx, Parallelism: s.input.Parallelism(g.Nodes[at].ID), Hasher: state.Hasher{Seed: s.manifest.Seed}}
	if err := src.Open(oc); err != nil {
		return nil, errors.Join(err, src.Close())
	}
	out := &modcheck.Sample{From: "the slice", Fields: g.Nodes[at].Schema}
	for len(out.Records) < modcheck.SampleRecords {
		var b abi.Batch // its records stay
		st, err := src.Poll(&b, modcheck.SampleRecords-len(out.Records))
		if err != nil {
			return nil, errors.Join(err, src.Close())
		}
		for _, m := range b.Marks {
			out.Marks = append(out.Marks, abi.Mark{Index: uint32(len(out.Records)) + m.Index, Watermark: m.Watermark})
		}
		for i := range b.Len() {
			out.Records = append(out.Records, b.Frame(i).Record())
		}
		if st != operators.PollMore {
			break
		}
	}
	if len(out.Records) == 0 {
		return nil, src.Close()
	}
	return out, src.Close()
}
