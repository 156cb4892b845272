package main

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
)

// Change implements control.Changeable.
func (p *served) Change(ctx context.Context, r control.ChangeRequest) (control.Changed, error) {
	c := worker.Change{Drop: r.Drop, Renamed: r.Renamed, Restore: r.Restore, ModulesOnly: r.ModulesOnly, Plan: r.Plan, Errors: r.Errors, DryRun: r.DryRun, Probation: r.Probation}
	if r.Restore == 0 {
		g, err := load(ctx, r.File)
		if err != nil {
			return control.Changed{}, &control.Error{Kind: control.KindRefused, Message: err.Error()}
		}
		c.Graph = g
	}
	// The other side may go: what has begun is seen through.
	out, err := p.w.Change(context.WithoutCancel(ctx), c)
	if err != nil {
		return control.Changed{}, changeError(err)
	}
	return changedAnswer(&out), nil
}

func changeError(err error) error {
	if errors.Is(err, job.ErrBusy) {
		return &control.Error{Kind: control.KindBusy, Message: err.Error()}
	}
	if errors.Is(err, job.ErrGivenUp) {
		return &control.Error{Kind: control.KindFailed, Message: err.Error()}
	}
	return controlError(err)
}

func changedAnswer(out *worker.Changed) control.Changed {
	a := control.Changed{Plan: out.Hash, Kind: string(out.Kind), Steps: []control.Step{}, Checkpoint: out.Checkpoint, Millis: out.Millis, Probation: out.Probation, DelayMS: out.Delay}
	for _, d := range out.Differences {
		a.Steps = append(a.Steps, control.Step{Kind: string(d.Kind), Operator: d.Operator, What: d.What, Drop: d.Drop, Migrate: d.Migrate})
	}
	for _, m := range out.Migrated {
		a.Migrated = append(a.Migrated, control.Migrated{Operator: m.Operator, State: m.State, From: m.From, To: m.To, Entries: m.Entries, Removed: m.Removed})
	}
	for _, w := range out.Withdrawn {
		a.Withdrawn = append(a.Withdrawn, control.Withdrawn(w))
	}
	return a
}

// inForce fills in what runs now: it changes while the pipeline runs.
func inForce(in *control.Info, st *job.Stats) {
	if st.Pipeline != "" {
		in.Digest = st.Pipeline
		in.Modules = nil
		for _, m := range st.Modules {
			in.Modules = append(in.Modules, control.Module{Operator: m.Operator, Path: m.Path, Digest: m.Digest})
		}
	}
	in.Canary = canaryAnswer(st.Canary)
	if u := st.Upgrade; u != nil {
		in.Upgrade = &control.Upgrade{State: string(u.State), Checkpoint: u.Checkpoint, What: u.What, Reason: u.Reason, Millis: u.Millis, Held: u.Held}
	}
}

var _ control.Changeable = (*served)(nil)

// because adds a reason where there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
