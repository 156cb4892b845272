package worker

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// Canary asks for a step of a canary.
type Canary struct {
	Action job.CanaryAction `json:"action"`
	Graph  *operators.Graph `json:"graph,omitempty"`  // with the candidate's modules, as the pipeline file names them; not wanted to revert
	Lo     uint32           `json:"lo,omitempty"`     // to share: slots [Lo, Hi)
	Hi     uint32           `json:"hi,omitempty"`     //
	Errors float64          `json:"errors,omitempty"` // share of its records that may fail; 0: the default
}

// CanaryDone is a step that was made.
type CanaryDone struct {
	Checkpoint checkpoint.ID    `json:"checkpoint"`       // at whose barrier
	Canary     *job.CanaryStats `json:"canary,omitempty"` // what is on behind it; nil: none
}

// Canary implements Worker.
func (l *Local) Canary(ctx context.Context, c Canary) (out CanaryDone, err error) {
	j, err := l.running()
	if err != nil {
		return out, err
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	step := job.CanaryStep{Action: c.Action, Slots: state.Range{Lo: c.Lo, Hi: c.Hi}, Errors: c.Errors}
	running, begins := j.Running(), j.Stats().Canary == nil
	if c.Graph != nil {
		rev := job.Revision{Graph: c.Graph}
		err := rev.Compile(ctx, running.Modules, func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
			return compile(ctx, l.engine, c.Graph, n)
		})
		if err != nil {
			return out, err
		}
		step.Revision = &rev
		if begins {
			err = l.tried(ctx, &rev)
		}
		if err == nil {
			out.Checkpoint, err = j.Canary(ctx, step)
		}
		if err != nil || !begins { // else they are the job's
			err = errors.Join(err, rev.Discard(running.Modules))
		}
		out.Canary = j.Stats().Canary
		return out, err
	}
	out.Checkpoint, err = j.Canary(ctx, step)
	out.Canary = j.Stats().Canary
	return out, err
}
