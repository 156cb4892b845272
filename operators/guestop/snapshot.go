package guestop

import (
	"maps"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/memimage"
)

// Names of the numbers a guest operator keeps in its snapshot.
const (
	numWatermark = "watermark"
	numSkipped   = "skipped"
	numDead      = "dead_letters"
	numFirst     = "first_watermark" // with a TTL; none: there has been none
)

// pending is one cut of a guest operator.
type pending struct {
	frozen state.Frozen  // nil without state
	memory *memimage.Cut // nil without
	snap   checkpoint.OperatorSnapshot
	done   chan struct{}
}

// Barrier implements operators.Snapshotter.
func (o *Op) Barrier(b checkpoint.Barrier) (operators.Pending, error) {
	st := o.total()
	p := &pending{snap: checkpoint.OperatorSnapshot{Operator: o.ctx.Operator, Numbers: map[string]int64{
		numWatermark: o.wm, numSkipped: st.Skipped, numDead: st.Dead}}}
	if w, ok := o.expiry.firstMark(); ok {
		p.snap.Numbers[numFirst] = w
	}
	if o.keyed == nil {
		p.done = make(chan struct{})
		close(p.done)
	} else {
		f, err := o.keyed.Freeze()
		if err != nil {
			return nil, err
		}
		p.frozen = f
		o.cuts[b.ID] = p
	}
	if o.memory == nil {
		return p, nil
	}
	m, err := o.cutMemory(o.ctx)
	if err != nil {
		return nil, err
	}
	p.memory = m
	o.cuts[b.ID] = p
	return newBoth(p, m), nil
}

// Done implements operators.Pending.
func (p *pending) Done() <-chan struct{} {
	if p.frozen != nil {
		return p.frozen.Done()
	}
	return p.done
}

// Result implements operators.Pending.
func (p *pending) Result() (checkpoint.OperatorSnapshot, error) {
	if p.frozen != nil {
		s, err := p.frozen.Result()
		if err != nil {
			return p.snap, err
		}
		p.snap.Keyed = &s
	}
	return p.snap, nil
}

// Step implements operators.Snapshotter.
func (o *Op) Step() (bool, error) {
	if o.keyed == nil {
		return false, nil
	}
	return o.keyed.Step()
}

// Complete implements operators.Snapshotter.
func (o *Op) Complete(id checkpoint.ID) error {
	if o.trial != nil && id > o.trial.After {
		o.trial = nil
	}
	return o.Held(id)
}

// Held implements operators.Holder: the trial goes on.
func (o *Op) Held(id checkpoint.ID) error {
	if p, ok := o.cuts[id]; ok && p.memory != nil {
		o.memory.keeper.Committed(p.memory)
	}
	if p, ok := o.cuts[id]; ok && o.keyed != nil {
		if s, err := p.frozen.Result(); err == nil {
			o.keyed.Committed(s)
		}
	}
	maps.DeleteFunc(o.cuts, func(k checkpoint.ID, _ *pending) bool { return k <= id })
	return nil
}

// restoreNumbers takes over the counters and the watermark, the lowest of all tasks' of the checkpoint.
func (o *Op) restoreNumbers(old []checkpoint.OperatorSnapshot) {
	if len(old) == 0 {
		return
	}
	wm := int64(math.MaxInt64)
	for _, s := range old {
		w, ok := s.Numbers[numWatermark]
		if !ok {
			w = abi.MinWatermark
		}
		wm = min(wm, w)
		if f, ok := s.Numbers[numFirst]; ok && (o.first == abi.MinWatermark || f < o.first) {
			o.first = f
		}
		if o.ctx.Task == 0 { // totals stay right if one task takes all
			o.stats.Skipped += s.Numbers[numSkipped]
			o.stats.Dead += s.Numbers[numDead]
		}
	}
	o.wm = wm
}
