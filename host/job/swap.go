package job

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Errors of changes of a running job.
var (
	// ErrBusy: another change is under way, or still on trial.
	ErrBusy = errors.New("another change is under way")
	// ErrNeedsRestart: the change can't be made in place, see Job.Change.
	ErrNeedsRestart = errors.New("the change needs the tasks to start anew")
	// ErrGivenUp: the change did not happen, what ran before goes on.
	ErrGivenUp = errors.New("the change was given up")

	errOtherAttempt = errors.New("the job restarted meanwhile")
)

// Swap puts other modules in while everything goes on.
type Swap struct {
	Revision Revision
	// Errors is the share of records that may fail in new code while it is on trial; 0: the default.
	Errors float64
	// Probation is for how many checkpoints behind the barrier nothing of the new code is published; 0: no longer than
	// ever.
	Probation int
}

// Swap changes the modules of a running job at the barrier of a checkpoint, which it starts: every task makes
// its cut with the old code and handles the next record with the new. It returns that checkpoint when it is
// complete; from then on the version is in force, and on trial until the next. The modules of s.Revision
// belong to the job then, after an error to the caller.
//
// Errors: ErrNeedsRestart and ErrUnfit with what is in the way, ErrBusy, ErrRefusedModule, ErrEnded; ErrGivenUp
// where it was begun. After each of them the old code runs.
func (j *Job) Swap(ctx context.Context, s Swap) (checkpoint.ID, error) {
	if c := j.canaryOn(); c != nil {
		return 0, c.inTheWay()
	}
	running := j.Running()
	ds := Compare(running.Side(), s.Revision.Side(), nil)
	if err := refuseBreaking(ds, nil); err != nil {
		return 0, err
	}
	if Hardest(ds) == ChangeRestart {
		return 0, fmt.Errorf("%w: %s", ErrNeedsRestart, listed(ds, ChangeRestart))
	}
	if err := s.Revision.checkRefused(j.opts.StateDir, j.opts.RetryRefused); err != nil {
		return 0, err
	}
	if s.Probation > 0 {
		if problems := ProbationProblems(s.Revision.Graph, ds); len(problems) > 0 {
			return 0, fmt.Errorf("%w: %s", ErrNoProbation, strings.Join(problems, "; "))
		}
	}
	for {
		r := &swapRequest{swap: &s, what: listed(ds, ChangeSwap), running: &running, differences: ds}
		id, err := j.swapOnce(ctx, r)
		if !errors.Is(err, errOtherAttempt) {
			return id, err
		}
	}
}

// refuseBreaking is the error for state-breaking differences but those that are allowed.
func refuseBreaking(ds []Difference, drop []string) error {
	var parts []string
	for _, d := range ds {
		if d.Kind == ChangeBreaking && !(d.Drop && slices.Contains(drop, d.Operator)) {
			text := d.String()
			if d.Drop {
				text += " (--drop " + d.Operator + " allows it)"
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrUnfit, strings.Join(parts, "; "))
}

// listed joins the differences of a kind.
func listed(ds []Difference, kind ChangeKind) string {
	var parts []string
	for _, d := range ds {
		if d.Kind == kind {
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; ")
}

// String is "operator count: module 1234 becomes 5678".
func (d Difference) String() string {
	if d.Operator == "" {
		return d.What
	}
	return "operator " + d.Operator + ": " + d.What
}

// swapRequest is a swap, or a step of a canary, with everything made for one attempt.
type swapRequest struct {
	swap        *Swap // nil: a step of a canary
	running     *Revision
	differences []Difference

	canary   *CanaryStep
	was, now *canary // that is on before and behind the step; nil: none

	what    string
	attempt *attempt
	next    *checkpoint.Next
	apply   map[*task.Task][]func()
	made    []*guestop.Replacement
	put     []bool        // by made; each by its own task
	id      checkpoint.ID // that carries it; 0: it has not started
	done    chan answer   // cap 1
}

func (j *Job) swapOnce(ctx context.Context, r *swapRequest) (checkpoint.ID, error) {
	select {
	case <-j.ready:
	case <-j.ended:
		return 0, ErrEnded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	j.mu.Lock()
	a := j.current
	j.mu.Unlock()
	select {
	case <-a.up:
	case <-a.over:
		select { // the next attempt is on its way
		case <-time.After(10 * time.Millisecond):
			return 0, errOtherAttempt
		case <-j.ended:
			return 0, ErrEnded
		}
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	r.attempt, r.apply, r.done = a, map[*task.Task][]func(){}, make(chan answer, 1)
	prepare := r.prepare
	if r.canary != nil {
		prepare = r.prepareCanary
	}
	if err := prepare(); err != nil {
		return 0, errors.Join(err, r.close())
	}
	select {
	case j.swaps <- r:
	case <-j.ended:
		return 0, errors.Join(ErrEnded, r.close())
	case <-ctx.Done():
		return 0, errors.Join(ctx.Err(), r.close())
	}
	// Not given up for ctx: what has begun is seen through.
	got := <-r.done
	if got.err != nil {
		return 0, errors.Join(got.err, r.close())
	}
	return got.id, nil
}

// prepare makes one instance per task of every operator that changes.
func (r *swapRequest) prepare() error {
	for _, d := range r.differences {
		if d.Operator == "" {
			continue
		}
		i := slices.IndexFunc(r.swap.Revision.Graph.Nodes, func(n *operators.Node) bool { return n.ID == d.Operator })
		n := r.swap.Revision.Graph.Nodes[i]
		m := r.swap.Revision.Modules[n.ID]
		fresh := m.Digest() != r.running.Modules[n.ID].Digest()
		for _, op := range r.attempt.guests {
			if op.ID() != n.ID {
				continue
			}
			made, err := op.Prepare(n, m)
			if err != nil {
				return err
			}
			k := len(r.made)
			r.made, r.put = append(r.made, made), append(r.put, false)
			t := r.attempt.taskOf[op]
			r.apply[t] = append(r.apply[t], func() { r.take(op, k, fresh) })
		}
	}
	return nil
}

// take swaps one operator, by its task's goroutine. r.id was set before any task could get there.
func (r *swapRequest) take(op *guestop.Op, k int, fresh bool) {
	var t *guestop.Trial
	if fresh {
		t = &guestop.Trial{After: r.id, Errors: r.swap.Errors}
	}
	r.put[k] = true
	op.Swap(r.made[k], t)
	crashpoint.Hit(crashpoint.MidSwap)
}

// close gives up what was prepared and never put in. Where tasks were told of it, after they have ended.
func (r *swapRequest) close() error {
	var errs []error
	for k, m := range r.made {
		if !r.put[k] {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// beginSwap asks for the checkpoint that carries a swap.
func (d *driver) beginSwap(ctx context.Context, r *swapRequest) error {
	refuse := func(err error) error {
		r.done <- answer{0, err}
		return nil
	}
	switch {
	case r.attempt != d.attempt:
		return refuse(errOtherAttempt)
	case d.swap != nil || d.change != nil:
		return refuse(ErrBusy)
	case d.job.trial != nil:
		return refuse(fmt.Errorf("%w: that of checkpoint %d is on trial until the next one", ErrBusy, d.job.trial.after))
	case r.was != d.job.canaryOn():
		return refuse(errOtherAttempt)
	}
	next, err := d.job.keep(ctx, r)
	if err != nil {
		return refuse(err)
	}
	r.next, d.swap = next, r
	return d.step(ctx, checkpoint.Trigger{Next: next})
}

// keep puts what is in force behind a request into the store.
func (j *Job) keep(ctx context.Context, r *swapRequest) (*checkpoint.Next, error) {
	if r.canary != nil {
		return j.keepStep(ctx, r)
	}
	next, err := j.keepRevision(ctx, &r.swap.Revision)
	if err == nil {
		next.Probation = r.swap.probation(r.what)
	}
	return next, err
}

// keepRevision puts a version's pipeline and modules into the store.
func (j *Job) keepRevision(ctx context.Context, v *Revision) (*checkpoint.Next, error) {
	digest, _, err := j.store.Put(ctx, v.Graph.Text)
	if err != nil {
		return nil, err
	}
	next := &checkpoint.Next{Pipeline: digest, Modules: v.refs()}
	for i, n := range v.Graph.GuestNodes() {
		c, g := *n, *n.Guest
		c.Guest = &g
		if !filepath.IsAbs(g.Module) {
			g.Module = filepath.Join(filepath.Dir(v.Graph.File), g.Module)
		}
		if err := j.keepModule(ctx, &c, next.Modules[i].Digest); err != nil {
			return nil, fmt.Errorf("operator %q: keep module %s: %w", n.ID, n.Guest.Module, err)
		}
		next.Modules[i].Size = j.kept[next.Modules[i].Digest]
	}
	return next, nil
}

// carried tells the tasks what to do at the barrier that is about to be injected. The objects of the next
// version are put once more: a sweep between then and now spares only what came after the barrier's begin.
func (d *driver) carried(ctx context.Context, id checkpoint.ID) error {
	r := d.swap
	r.id = id
	if _, err := d.job.keep(ctx, r); err != nil {
		return err
	}
	for t, fs := range r.apply {
		t.Arm(&task.Swap{At: id, Apply: func() {
			for _, f := range fs {
				f()
			}
		}})
	}
	return nil
}

// swapped puts a version in force whose checkpoint is complete, or ends the trial of the one before.
func (d *driver) swapped(id checkpoint.ID, held bool) {
	d.job.passed(id, held)
	r := d.swap
	if r == nil || r.id != id {
		return
	}
	d.swap = nil
	if r.canary != nil {
		d.job.stepped(r, id)
	} else {
		d.job.begin(&r.swap.Revision, id, r.swap.Errors, r.what)
		d.job.onProbation(r.swap.probation(r.what))
	}
	d.job.event(Event{Kind: EventUpgraded, Checkpoint: id, Message: r.what})
	crashpoint.Hit(crashpoint.AfterSwap)
	r.done <- answer{id, nil}
}

// dropSwap ends a swap that did not come into force, since the attempt has ended. undone: new code ran, so
// that the attempt's end may be its doing.
func (d *driver) dropSwap(ctx context.Context, err error) (undone bool) {
	r := d.swap
	if r == nil {
		return false
	}
	d.swap = nil
	if err == nil {
		err = ErrEnded
	}
	failure := fmt.Errorf("%w: %w", ErrGivenUp, err)
	j := d.job
	switch {
	case r.canary != nil:
		undone = ctx.Err() == nil && r.id != 0 && d.stepUndone(r, err)
	case r.id != 0 && ctx.Err() == nil:
		undone = guestop.IsGuestFault(err) || errors.Is(err, checkpoint.ErrChangeGivenUp)
		if guestop.IsGuestFault(err) {
			t := &trial{after: r.id, what: r.what, fresh: freshModules(j.modules, r.swap.Revision.Modules)}
			if rerr := j.refuseModules(t, err); rerr != nil {
				j.warn("the refused module can't be noted: " + rerr.Error())
			}
		}
		j.event(Event{Kind: EventRolledBack, Checkpoint: r.id, Message: fmt.Sprintf("%s is taken back: %v", r.what, err)})
	}
	if !undone || r.canary == nil {
		j.upgraded(Upgrade{State: UpgradeFailed, Checkpoint: r.id, What: r.what, Reason: err.Error()})
	}
	r.done <- answer{0, failure}
	return undone
}

// freshModules are the digests in now that were not in use, to their operators.
func freshModules(was, now map[string]guestop.Module) map[string]string {
	fresh := map[string]string{}
	for id, m := range now {
		if o := was[id]; o == nil || o.Digest() != m.Digest() {
			fresh[m.Digest()] = id
		}
	}
	return fresh
}
