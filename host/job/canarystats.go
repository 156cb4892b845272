package job

import (
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators/guestop"
)

// CanaryStats describe the canary that is on. They are serialisable.
type CanaryStats struct {
	Since     checkpoint.ID    `json:"since,omitempty"` // checkpoint of its first step; 0: before this run
	Lo        uint32           `json:"lo"`              // slots [Lo, Hi)
	Hi        uint32           `json:"hi"`
	Share     float64          `json:"share"` // of all slots, 0 to 1
	Operators []CanaryOperator `json:"operators"`
}

// CanaryOperator is what both codes of an operator did since the canary began, or the tasks started.
type CanaryOperator struct {
	Operator  string     `json:"operator"`
	InForce   CanarySide `json:"in_force"`
	Candidate CanarySide `json:"candidate"`
}

// CanarySide is one of two codes of an operator, over all tasks that have keys of the canary.
type CanarySide struct {
	Module string `json:"module"` // digest
	guestop.SideStats
}

// FuelPerRecord is what a record, or timer, cost on average, in units of fuel; 0: there was none.
func (s CanarySide) FuelPerRecord() int64 { return s.Fuel / max(1, s.Records+s.Timers) }

// canaryStats takes stock of an attempt; nil: none is on.
func (j *Job) canaryStats(a *attempt) *CanaryStats {
	c := j.canaryOn()
	if c == nil {
		return nil
	}
	running := j.Running()
	s := &CanaryStats{Since: c.since, Lo: c.ref.Lo, Hi: c.ref.Hi, Share: c.ref.Share()}
	for _, m := range c.ref.Modules {
		o := CanaryOperator{Operator: m.Operator, Candidate: CanarySide{Module: m.Digest}}
		if is := running.Modules[m.Operator]; is != nil {
			o.InForce.Module = is.Digest()
		}
		if a != nil {
			for _, g := range a.guests {
				if g.ID() != m.Operator {
					continue
				}
				if both, on := g.CanaryStats(); on {
					o.InForce.SideStats, o.Candidate.SideStats = o.InForce.Add(both[0]), o.Candidate.Add(both[1])
				}
			}
		}
		s.Operators = append(s.Operators, o)
	}
	return s
}
