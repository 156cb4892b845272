package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// Repetition is a replay from one snapshot to another, held against what the job itself left and published. It is
// serialisable.
type Repetition struct {
	Report    *Report             `json:"report"`
	States    []*StateDifference  `json:"states"`
	Positions []string            `json:"positions,omitempty"` // sources that stand elsewhere
	Outputs   []*OutputComparison `json:"outputs"`
}

// Same says that state, positions and output are what they were.
func (r *Repetition) Same() bool {
	for _, s := range r.States {
		if s.Differ > 0 {
			return false
		}
	}
	for _, o := range r.Outputs {
		if o.Skipped == "" && !o.Same && !o.Reordered {
			return false
		}
	}
	return len(r.Positions) == 0
}

// Again replays from one snapshot to another, End.To, with the code that ran between them, and holds what comes out
// against what the job left in the second one, entry by entry, and published between the two. With Options.Keys states
// are compared for these keys alone, and outputs not at all. Errors: those of Run; ErrIncomparable if the code
// changed between the two.
func Again(ctx context.Context, o Options) (_ *Repetition, err error) {
	to := o.End.To
	if to == nil {
		return nil, fmt.Errorf("%w: there is no second snapshot to compare with", ErrIncomparable)
	}
	from, err := o.Store.Load(o.From)
	if err != nil {
		return nil, err
	}
	if err := sameCode(from, to); err != nil {
		return nil, err
	}
	if o.Batch == 0 {
		o.Batch = o.Code.Graph.BatchMax
	}
	lease, err := o.Store.Lease("replay", to.ID)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	dir, err := NewScratch(o.Scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	sp := &spool{dir}
	if o.Sink == nil && len(o.Keys) == 0 {
		o.Sink = sp.sink
	}
	res, err := Run(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, res.Close()) }()
	last, err := res.Store.Load(res.Last)
	if err != nil {
		return nil, err
	}
	out := &Repetition{Report: res.Report}
	if out.States, err = compareKeys(ctx, &o, Side{to, o.Store}, Side{last, res.Store}); err != nil {
		return nil, err
	}
	out.Positions = ComparePositions(o.Code.Graph, to, last)
	if len(o.Keys) > 0 {
		return out, nil
	}
	for _, n := range o.Code.Graph.Nodes {
		if n.Sink == nil {
			continue
		}
		c, err := sp.compare(n, from, to)
		if err != nil {
			return nil, err
		}
		out.Outputs = append(out.Outputs, c)
	}
	return out, nil
}

// compareKeys compares the states of all keys, or of the chosen ones.
func compareKeys(ctx context.Context, o *Options, before, after Side) (all []*StateDifference, err error) {
	samples := max(o.Samples, 5)
	if len(o.Keys) == 0 {
		return CompareStates(ctx, o.Code.Graph, before, after, nil, samples)
	}
	for i, k := range o.Keys {
		ds, err := CompareStates(ctx, o.Code.Graph, before, after, []byte(k), samples)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			all = ds
			continue
		}
		for j, d := range ds {
			all[j].Entries, all[j].Differ, all[j].Samples = all[j].Entries+d.Entries, all[j].Differ+d.Differ, append(all[j].Samples, d.Samples...)
		}
	}
	return all, nil
}

// sameCode refuses two snapshots between which other code was put into force.
func sameCode(from, to *checkpoint.Manifest) error {
	var changes []string
	was := from.InForce()
	if was.Pipeline != to.Pipeline {
		changes = append(changes, "the pipeline file")
	}
	for _, m := range to.Modules {
		for _, o := range was.Modules {
			if o.Operator == m.Operator && o.Digest != m.Digest {
				changes = append(changes, fmt.Sprintf("the module of operator %s, from %.12s to %.12s", m.Operator, o.Digest, m.Digest))
			}
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("%w: between snapshots %d and %d other code was put into force: %s; choose two of the same code", ErrIncomparable, from.ID, to.ID, strings.Join(changes, ", "))
}
