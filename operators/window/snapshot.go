package window

import (
	"maps"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// Names of the numbers in a snapshot.
const (
	numWatermark = "watermark"
	numLate      = "late"
	numFired     = "results"
	numSkipped   = "skipped"
	numDead      = "dead_letters"
)

// pending is one cut.
type pending struct {
	frozen state.Frozen
	snap   checkpoint.OperatorSnapshot
}

// Barrier implements operators.Snapshotter.
func (o *Op) Barrier(b checkpoint.Barrier) (operators.Pending, error) {
	f, err := o.keyed.Freeze()
	if err != nil {
		return nil, err
	}
	p := &pending{frozen: f, snap: checkpoint.OperatorSnapshot{Operator: o.ctx.Operator, Numbers: map[string]int64{
		numWatermark: o.wm, numLate: o.stats.Late, numFired: o.stats.Fired}}}
	if o.queue != nil {
		p.snap.Numbers[numSkipped], p.snap.Numbers[numDead] = o.stats.Skipped, o.stats.Dead
	}
	o.cuts[b.ID] = p
	return p, nil
}

// Done implements operators.Pending.
func (p *pending) Done() <-chan struct{} { return p.frozen.Done() }

// Result implements operators.Pending.
func (p *pending) Result() (checkpoint.OperatorSnapshot, error) {
	s, err := p.frozen.Result()
	if err != nil {
		return p.snap, err
	}
	p.snap.Keyed = &s
	return p.snap, nil
}

// Step implements operators.Snapshotter.
func (o *Op) Step() (bool, error) { return o.keyed.Step() }

// Complete implements operators.Snapshotter.
func (o *Op) Complete(id checkpoint.ID) error {
	if p, ok := o.cuts[id]; ok && o.keyed != nil {
		if s, err := p.frozen.Result(); err == nil {
			o.keyed.Committed(s)
		}
	}
	maps.DeleteFunc(o.cuts, func(k checkpoint.ID, _ *pending) bool { return k <= id })
	return nil
}

// restoreNumbers takes over counters and the lowest watermark of all tasks of the checkpoint.
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
		if o.ctx.Task == 0 {
			o.stats.Late += s.Numbers[numLate]
			o.stats.Fired += s.Numbers[numFired]
			o.stats.Skipped += s.Numbers[numSkipped]
			o.stats.Dead += s.Numbers[numDead]
		}
	}
	o.wm, o.ref, o.out.wm = wm, wm, wm
}
