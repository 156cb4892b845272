package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// Change puts another pipeline into force: other operators, modules, settings or parallelism.
type Change struct {
	Revision Revision
	// Restore goes back to a checkpoint, withdrawing what came after it; 0: on from where the job is.
	Restore checkpoint.ID
	Errors  float64 // as in Swap
}

// changeRequest is a change on its way to the job.
type changeRequest struct {
	change   *Change
	what     string
	migrated []Migration // as tried on the checkpoint before
	gone     []string    // sinks that the new pipeline does not have: what they staged is published by then
	inForce  bool        // the attempt that runs, or failed to, is the changed one
	done     chan answer
}

// Change makes a last checkpoint of the running pipeline, ends its tasks and starts those of another from it,
// in the same process. Everything that can be checked is before anything stops. It returns when the new tasks
// run; the new version is on trial until the next checkpoint. With Restore nothing is kept: the tasks end at
// once, and the new ones start from that checkpoint.
//
// Errors: ErrUnfit, *checkpoint.OrphanError, ErrBusy, ErrRefusedModule, ErrEnded: nothing was stopped;
// ErrGivenUp: what ran before runs again. The modules are the caller's after an error, else the job's.
func (j *Job) Change(ctx context.Context, c Change) (checkpoint.ID, error) {
	select {
	case <-j.ready:
	case <-j.ended:
		return 0, ErrEnded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	running := j.Running()
	r := &changeRequest{change: &c, what: "the change", done: make(chan answer, 1)}
	if err := c.Revision.checkRefused(j.opts.StateDir, j.opts.RetryRefused); err != nil {
		return 0, err
	}
	if on := j.canaryOn(); on != nil && c.Restore == 0 {
		return 0, on.inTheWay()
	}
	if c.Restore == 0 {
		ds := Compare(running.Side(), c.Revision.Side(), c.Revision.Renamed)
		if err := refuseBreaking(ds, c.Revision.Drop); err != nil {
			return 0, err
		}
		r.what = summary(ds)
		for _, n := range running.Graph.Nodes {
			if n.Kind == operators.NodeSink && !slices.ContainsFunc(c.Revision.Graph.Nodes, func(m *operators.Node) bool { return m.ID == n.ID }) {
				r.gone = append(r.gone, n.ID)
			}
		}
		// One before the last, so that the last has little to write: nothing moves while it is made.
		id, err := j.Checkpoint(ctx)
		if err != nil {
			return 0, err
		}
		if r.migrated, err = j.checkChange(ctx, id, &c.Revision, r.gone); err != nil {
			return 0, err
		}
	} else {
		r.what = fmt.Sprintf("the rollback to checkpoint %d", c.Restore)
		if err := j.store.Verify(ctx, c.Restore, true); err != nil {
			return 0, fmt.Errorf("%w: checkpoint %d: %w", ErrUnfit, c.Restore, err)
		}
	}
	select {
	case j.changes <- r:
	case <-j.ended:
		return 0, ErrEnded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	got := <-r.done
	return got.id, got.err
}

// checkChange refuses what a start from checkpoint id would, migrations included, which are only tried.
func (j *Job) checkChange(ctx context.Context, id checkpoint.ID, v *Revision, gone []string) ([]Migration, error) {
	m, err := j.store.Load(id)
	if err != nil {
		return nil, err
	}
	r, err := checkpoint.PlanRestore(m, j.target(v.Graph, append(slices.Clone(v.Drop), gone...), v.Renamed, v.refs()))
	if err != nil {
		return nil, err
	}
	if err := j.fits(ctx, m, r, v.Graph); err != nil {
		return nil, err
	}
	if err := j.tryHandovers(ctx, m, r, v); err != nil {
		return nil, err
	}
	return j.tryMigrations(ctx, m, r, v)
}

// target is what a start with a graph asks of a checkpoint.
func (j *Job) target(g *operators.Graph, drop []string, renamed map[string]string, refs []checkpoint.ModuleRef) checkpoint.Target {
	t := checkpoint.Target{Job: g.Name, Modules: refs, Droppable: drop, Renamed: renamed}
	for _, n := range g.Nodes {
		t.Operators = append(t.Operators, n.ID)
	}
	return t
}

// summary is a change in a few words.
func summary(ds []Difference) string {
	if len(ds) == 0 {
		return "a new start of the same pipeline"
	}
	var parts []string
	for _, d := range ds {
		parts = append(parts, d.String())
	}
	if len(parts) > 3 {
		parts = append(parts[:3], fmt.Sprintf("and %d more", len(parts)-3))
	}
	return strings.Join(parts, "; ")
}

// errRollback ends an attempt whose place another checkpoint's takes.
var errRollback = errors.New("rolled back by request")

// beginChange ends the attempt for a change: with a last checkpoint, or at once.
func (d *driver) beginChange(ctx context.Context, r *changeRequest) error {
	switch {
	case d.swap != nil || d.change != nil:
		r.done <- answer{0, ErrBusy}
		return nil
	case d.job.trial != nil && r.change.Restore == 0:
		r.done <- answer{0, fmt.Errorf("%w: that of checkpoint %d is on trial until the next one", ErrBusy, d.job.trial.after)}
		return nil
	}
	d.change, d.job.stalled = r, d.mono()
	if r.change.Restore != 0 {
		return errRollback
	}
	return d.step(ctx, checkpoint.Stop{})
}

// changed puts the change in force that ended an attempt, for the next. False: there is none, or it did not
// come to its checkpoint.
func (j *Job) changed(done *checkpoint.JobDone, err error) bool {
	r := j.change
	if r == nil {
		return false
	}
	fail := func(err error) bool {
		j.change = nil
		j.upgraded(Upgrade{State: UpgradeFailed, What: r.what, Reason: err.Error()})
		r.done <- answer{0, fmt.Errorf("%w: %w", ErrGivenUp, err)}
		return false
	}
	v := &r.change.Revision
	r.inForce = true
	switch {
	case errors.Is(err, errRollback):
		gone, werr := j.store.Withdraw(r.change.Restore)
		if werr != nil {
			fail(werr)
			return true // what ran before goes on
		}
		for _, id := range gone {
			j.note(fmt.Sprintf("checkpoint %d is withdrawn", id))
		}
		j.trial = nil
		j.enforce(v)
		j.restore = r.change.Restore
		return true
	case err != nil:
		return fail(err)
	case done.Finished:
		return fail(fmt.Errorf("%w: its input has ended", ErrEnded))
	}
	v.Drop = append(slices.Clone(v.Drop), r.gone...)
	j.begin(v, done.ID, r.change.Errors, r.what)
	crashpoint.Hit(crashpoint.AfterSwap)
	return true
}

// running says that all tasks of the attempt run, and answers the change that started them.
func (d *driver) running() {
	j := d.job
	j.up = true
	close(d.up)
	j.opened()
	j.follow(d.from)
	r := j.change
	if r == nil {
		return
	}
	j.change = nil
	var from checkpoint.ID
	if d.from != nil {
		from = d.from.ID
	}
	ms := (d.mono() - j.stalled) / 1e6
	state := UpgradeTrial
	if j.trial == nil {
		state = UpgradeDone
		j.retire()
	}
	j.upgraded(Upgrade{State: state, Checkpoint: from, What: r.what, Millis: max(ms, 1), Migrated: r.migrated})
	j.event(Event{Kind: EventUpgraded, Checkpoint: from, Message: r.what, Millis: ms})
	r.done <- answer{from, nil}
}

// again says that the job goes on with another attempt at once: with a change that ended the last one, or
// with the version before one that failed.
func (j *Job) again(ctx context.Context, done *checkpoint.JobDone, err error) bool {
	undone := j.undone
	j.undone = false
	if r := j.change; r != nil && !r.inForce {
		if j.changed(done, err) {
			return true
		}
	}
	if undone {
		return true
	}
	if err == nil {
		return false
	}
	taken := j.endCanary(ctx, err) || j.takeBack(ctx, j.up, err)
	if r := j.change; r != nil {
		j.change = nil
		if !taken {
			j.upgraded(Upgrade{State: UpgradeFailed, What: r.what, Reason: err.Error()})
		}
		r.done <- answer{0, fmt.Errorf("%w: %w", ErrGivenUp, err)}
	}
	return taken
}
