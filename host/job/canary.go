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
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// CanaryAction is what a step of a canary does.
type CanaryAction string

// Actions of a canary.
const (
	CanaryShare   CanaryAction = "share"   // it gets slots: the first, or more
	CanaryPromote CanaryAction = "promote" // its code gets all keys, as by a swap
	CanaryRevert  CanaryAction = "revert"  // the code in force gets all keys again
)

// CanaryStep is one step of a canary.
type CanaryStep struct {
	Action CanaryAction
	// Slots is the range it gets; it begins with slot 0, so that more slots only add keys.
	Slots state.Range
	// Revision is the candidate, to begin with. Later it may be there to be held against the canary that is on.
	Revision *Revision
	Errors   float64 // as in Swap, for as long as the canary is on; of its first step and of a promotion
}

// Errors of canaries.
var (
	// ErrCanary: a canary is on, which has to end first.
	ErrCanary = errors.New("a canary is on")
	// ErrNoCanary: none is.
	ErrNoCanary = errors.New("no canary is on")
	// ErrNotACanary: the module, or the range, can't be one's.
	ErrNotACanary = errors.New("that can't be a canary")
)

// canary is one that is on. It is not changed, but replaced.
type canary struct {
	rev    Revision // the candidate; it shares the modules of operators that are not part of it
	ref    checkpoint.Canary
	since  checkpoint.ID // of its first step, 0: not known
	errors float64
}

// operators are those it is about.
func (c *canary) operators() (ids []string) {
	for _, m := range c.ref.Modules {
		ids = append(ids, m.Operator)
	}
	return ids
}

// what names it: "canary of count: 817132f63f87 has slots 0-3276 (5 %)".
func (c *canary) what() string {
	var parts []string
	for _, m := range c.ref.Modules {
		parts = append(parts, fmt.Sprintf("%s: %.12s", m.Operator, m.Digest))
	}
	return fmt.Sprintf("canary of %s has %v", strings.Join(parts, ", "), &c.ref)
}

// Canary does a step at the barrier of a checkpoint, which it starts, while everything goes on; it returns that
// checkpoint when it is complete. Both codes run over the same state. While a canary is on it is on trial: where its
// code fails as no trial allows, the job goes on without it from the newest checkpoint. After the first step the
// modules of Revision belong to the job, after another step or an error to the caller.
//
// Errors: ErrNotACanary with what is in the way, ErrNoCanary, ErrCanary, ErrBusy, ErrRefusedModule, ErrEnded; ErrGivenUp
// where it was begun. After each of them what ran before goes on.
func (j *Job) Canary(ctx context.Context, s CanaryStep) (checkpoint.ID, error) {
	for {
		r, err := j.canaryStep(&s)
		if err != nil {
			return 0, err
		}
		id, err := j.swapOnce(ctx, r)
		if !errors.Is(err, errOtherAttempt) {
			return id, err
		}
	}
}

// canaryStep checks a step against what is on.
func (j *Job) canaryStep(s *CanaryStep) (*swapRequest, error) {
	on := j.canaryOn()
	r := &swapRequest{canary: s, was: on}
	if s.Action == CanaryShare && (s.Slots.Lo != 0 || s.Slots.Hi <= s.Slots.Lo || s.Slots.Hi > state.Slots) {
		return nil, fmt.Errorf("%w: its slots are 0 to N, at most %d, so that widening it only adds keys", ErrNotACanary, state.Slots-1)
	}
	if on == nil {
		if s.Action != CanaryShare || s.Revision == nil {
			return nil, ErrNoCanary
		}
		return r, j.newCanary(r)
	}
	if s.Revision != nil && s.Action != CanaryRevert {
		for _, m := range on.ref.Modules {
			if is := s.Revision.Modules[m.Operator]; is == nil || is.Digest() != m.Digest {
				return nil, fmt.Errorf("%w: its module of operator %s is %.12s, the pipeline file names another: put that back, or say --revert first", ErrCanary, m.Operator, m.Digest)
			}
		}
	}
	next := *on
	r.now = &next
	switch s.Action {
	case CanaryShare:
		if s.Slots.Hi <= on.ref.Hi {
			return nil, fmt.Errorf("%w: it has %v already: a canary only gets wider; --revert takes everything back", ErrCanary, &on.ref)
		}
		next.ref.Lo, next.ref.Hi = s.Slots.Lo, s.Slots.Hi
		r.what = next.what()
	case CanaryPromote:
		r.now = nil
		running := j.Running()
		r.what = listed(Compare(running.Side(), on.rev.Side(), nil), ChangeSwap)
	case CanaryRevert:
		r.now = nil
		r.what = "end of the " + on.what()
	}
	return r, nil
}

// newCanary is the first step.
func (j *Job) newCanary(r *swapRequest) error {
	s, running := r.canary, j.Running()
	ds := Compare(running.Side(), s.Revision.Side(), nil)
	if problems := canaryProblems(&running, s.Revision, ds); len(problems) > 0 {
		return fmt.Errorf("%w: %s", ErrNotACanary, strings.Join(problems, "; "))
	}
	if err := s.Revision.checkRefused(j.opts.StateDir, j.opts.RetryRefused); err != nil {
		return err
	}
	r.now = &canary{rev: *s.Revision, errors: s.Errors, ref: checkpoint.Canary{Lo: s.Slots.Lo, Hi: s.Slots.Hi, Errors: s.Errors}}
	for _, d := range ds {
		r.now.ref.Modules = append(r.now.ref.Modules, checkpoint.ModuleRef{Operator: d.Operator, Digest: d.Module})
	}
	r.what = r.now.what()
	return nil
}

// canaryProblems is what two codes can't differ in over one state at one time.
func canaryProblems(running, rev *Revision, ds []Difference) (problems []string) {
	node := func(g *operators.Graph, id string) *operators.Node {
		i := slices.IndexFunc(g.Nodes, func(n *operators.Node) bool { return n.ID == id })
		return g.Nodes[i]
	}
	for _, d := range ds {
		if d.Kind != ChangeSwap || d.Operator == "" {
			problems = append(problems, d.String())
			continue
		}
		was, is := node(running.Graph, d.Operator).Guest, node(rev.Graph, d.Operator).Guest
		switch {
		case was.Instances > 0 || is.Instances > 0:
			problems = append(problems, fmt.Sprintf("operator %s: its memory is state (snapshot: memory), which two modules can't share", d.Operator))
		case !was.Keyed:
			problems = append(problems, fmt.Sprintf("operator %s: it is not keyed, and a canary goes by slots of keys", d.Operator))
		case was.Function != is.Function:
			problems = append(problems, fmt.Sprintf("operator %s: function %s becomes %s, a canary changes the module only", d.Operator, was.Function, is.Function))
		case was.Memory != is.Memory || was.Fuel != is.Fuel || was.Clock != is.Clock || was.OnError != is.OnError:
			problems = append(problems, fmt.Sprintf("operator %s: its limits, clock or error policy change, a canary changes the module only", d.Operator))
		case d.Module == "":
			problems = append(problems, d.String()+": a canary changes the module")
		case !slices.Equal(was.Fn.Outputs, is.Fn.Outputs):
			problems = append(problems, fmt.Sprintf("operator %s: side outputs %v become %v", d.Operator, was.Fn.Outputs, is.Fn.Outputs))
		}
	}
	if len(ds) == 0 {
		problems = append(problems, "it runs this file with these modules: put another module where the pipeline file names it")
	}
	return problems
}

// prepareCanary makes the instances that a step needs: in tasks that get their first keys of it.
func (r *swapRequest) prepareCanary() error {
	of, had, gets := r.now, state.Range{}, state.Range{}
	if r.was != nil {
		had = r.was.ref.Slots()
	}
	if r.now != nil {
		gets = r.now.ref.Slots()
	} else if of = r.was; r.canary.Action == CanaryPromote {
		gets = state.Range{Hi: state.Slots}
	}
	for _, op := range r.attempt.guests {
		id := op.ID()
		if !slices.Contains(of.operators(), id) {
			continue
		}
		var made *guestop.Replacement
		if op.Touches(gets) && !op.Touches(had) {
			i := slices.IndexFunc(of.rev.Graph.Nodes, func(n *operators.Node) bool { return n.ID == id })
			var err error
			if made, err = op.Prepare(of.rev.Graph.Nodes[i], of.rev.Modules[id]); err != nil {
				return err
			}
		}
		k := len(r.made)
		r.made, r.put = append(r.made, made), append(r.put, made == nil)
		if made != nil || op.Touches(had) {
			t := r.attempt.taskOf[op]
			r.apply[t] = append(r.apply[t], func() { r.takeStep(op, k) })
		}
	}
	return nil
}

// takeStep does a step in one operator, by its task's goroutine.
func (r *swapRequest) takeStep(op *guestop.Op, k int) {
	made := r.made[k]
	r.put[k] = true
	switch r.canary.Action {
	case CanaryShare:
		if made != nil {
			op.Begin(made, r.now.ref.Slots(), r.now.errors)
		} else {
			op.Widen(r.now.ref.Slots())
		}
	case CanaryPromote:
		t := &guestop.Trial{After: r.id, Errors: r.canary.Errors}
		if made != nil {
			op.Swap(made, t)
		} else {
			op.Promote(t)
		}
	case CanaryRevert:
		op.Revert()
	}
	crashpoint.Hit(crashpoint.MidSwap)
}

// keepStep puts the code of a step into the store and says what is in force behind it.
func (j *Job) keepStep(ctx context.Context, r *swapRequest) (*checkpoint.Next, error) {
	if r.canary.Action == CanaryPromote {
		return j.keepRevision(ctx, &r.was.rev)
	}
	if r.now != nil { // before anything else: a start that finds nothing of the step must not run its code
		if err := j.hold(r.now.ref.Modules); err != nil {
			return nil, err
		}
	}
	running := j.Running()
	next, err := j.keepRevision(ctx, &running)
	if err != nil || r.now == nil {
		return next, err
	}
	kept, err := j.keepRevision(ctx, &r.now.rev)
	if err != nil {
		return nil, err
	}
	ref := r.now.ref
	ref.Pipeline, ref.Modules = kept.Pipeline, slices.Clone(ref.Modules)
	for i := range ref.Modules {
		m := &ref.Modules[i]
		at := slices.IndexFunc(kept.Modules, func(k checkpoint.ModuleRef) bool { return k.Operator == m.Operator })
		if *m = kept.Modules[at]; m.Size == 0 {
			return nil, fmt.Errorf("%w: operator %s: module %.12s is not there any more: its file changed again", ErrUnfit, m.Operator, m.Digest)
		}
	}
	r.now.ref = ref
	next.Canary = &ref
	return next, nil
}

// stepped puts a step in force whose checkpoint is complete.
func (j *Job) stepped(r *swapRequest, id checkpoint.ID) {
	if r.canary.Action == CanaryPromote {
		j.setCanary(nil)
		j.begin(&r.was.rev, id, r.canary.Errors, r.what)
		return
	}
	if r.now != nil && r.was == nil {
		r.now.since = id
	}
	j.setCanary(r.now)
	j.upgraded(Upgrade{State: UpgradeDone, Checkpoint: id, What: r.what})
}

func (j *Job) canaryOn() *canary {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.canary
}

// setCanary says what canary is on. The modules of the one before are closed by a later checkpoint, or the end.
func (j *Job) setCanary(c *canary) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if was := j.canary; was != nil && c == nil {
		for id, m := range was.rev.Modules {
			if j.modules[id] != m {
				j.retired = append(j.retired, m)
			}
		}
	}
	j.canary = c
}

// canaryOf is the canary as operator n sees it; nil: it has none.
func (j *Job) canaryOf(n *operators.Node) *guestop.Canary {
	c := j.canaryOn()
	if c == nil || !slices.Contains(c.operators(), n.ID) {
		return nil
	}
	i := slices.IndexFunc(c.rev.Graph.Nodes, func(o *operators.Node) bool { return o.ID == n.ID })
	return &guestop.Canary{Node: c.rev.Graph.Nodes[i], Module: c.rev.Modules[n.ID], Slots: c.ref.Slots(), Errors: c.errors}
}

// blames says that an error is the doing of a canary's code.
func (c *canary) blames(err error) bool {
	if c == nil {
		return false
	}
	var open *guestop.CanaryOpenError
	if errors.As(err, &open) {
		return true
	}
	var f *guestop.Fault
	return guestop.IsGuestFault(err) && errors.As(err, &f) &&
		slices.ContainsFunc(c.ref.Modules, func(m checkpoint.ModuleRef) bool { return m.Digest == f.Module })
}

// inTheWay refuses another change.
func (c *canary) inTheWay() error {
	return fmt.Errorf("%w: %s; millrace canary --promote puts it in force, --revert ends it", ErrCanary, c.what())
}

// stepUndone ends a step that did not come into force. True: the attempt ended by its doing.
func (d *driver) stepUndone(r *swapRequest, err error) bool {
	for _, c := range []*canary{r.now, r.was} {
		if c.blames(err) {
			d.job.refuseCanary(c, r.id, err)
			d.job.setCanary(nil)
			return true
		}
	}
	if errors.Is(err, checkpoint.ErrChangeGivenUp) {
		d.job.upgraded(Upgrade{State: UpgradeFailed, Checkpoint: r.id, What: r.what, Reason: err.Error()})
		return true
	}
	return false
}

// endCanary takes a canary out whose code failed, and remembers it: the job goes on from the newest checkpoint with
// the code in force for all keys. False: there is none, or the failure is not its doing.
func (j *Job) endCanary(ctx context.Context, err error) bool {
	c := j.canaryOn()
	if ctx.Err() != nil || !c.blames(err) {
		return false
	}
	j.refuseCanary(c, j.startedFrom(), err)
	j.setCanary(nil)
	return true
}

func (j *Job) refuseCanary(c *canary, at checkpoint.ID, err error) {
	t := &trial{after: at, fresh: map[string]string{}}
	for _, m := range c.ref.Modules {
		t.fresh[m.Digest] = m.Operator
	}
	if rerr := j.refuseModules(t, err); rerr != nil {
		j.warn("the refused module can't be noted: " + rerr.Error())
	}
	j.upgraded(Upgrade{State: UpgradeRolledBack, Checkpoint: at, What: c.what(), Reason: err.Error()})
	j.event(Event{Kind: EventRolledBack, Checkpoint: at, Message: fmt.Sprintf("%s is taken back: %v", c.what(), err)})
}
