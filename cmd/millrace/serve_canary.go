package main

import (
	"context"

	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
)

// Canary implements control.Canaried.
func (p *served) Canary(ctx context.Context, r control.CanaryRequest) (control.CanaryStep, error) {
	c := worker.Canary{Action: job.CanaryAction(r.Action), Lo: r.Lo, Hi: r.Hi, Errors: r.Errors}
	if r.Action != control.CanaryRevert {
		g, err := load(ctx, r.File)
		if err != nil {
			return control.CanaryStep{}, &control.Error{Kind: control.KindRefused, Message: err.Error()}
		}
		c.Graph = g
	}
	out, err := p.w.Canary(context.WithoutCancel(ctx), c)
	if err != nil {
		return control.CanaryStep{}, changeError(err)
	}
	return control.CanaryStep{Checkpoint: out.Checkpoint, Canary: canaryAnswer(out.Canary)}, nil
}

func canaryAnswer(s *job.CanaryStats) *control.Canary {
	if s == nil {
		return nil
	}
	a := &control.Canary{Since: s.Since, Lo: s.Lo, Hi: s.Hi, Share: s.Share}
	side := func(x job.CanarySide) control.CanarySide {
		return control.CanarySide{Module: x.Module, Records: x.Records, Timers: x.Timers, Faults: x.Faults, Skipped: x.Skipped, DeadLetters: x.Dead,
			Fuel: x.Fuel, FuelPerRecord: x.FuelPerRecord()}
	}
	for _, o := range s.Operators {
		a.Operators = append(a.Operators, control.CanaryOperator{Operator: o.Operator, InForce: side(o.InForce), Candidate: side(o.Candidate)})
	}
	return a
}

var _ control.Canaried = (*served)(nil)
