package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Replacement is what takes an operator's place at a barrier, or part of it as a canary: an initialised instance
// of another module with all that the operator needs to call it. It is made while the operator runs.
type Replacement struct {
	side        // states and pre without their stores
	preOf []int // state of each of pre
}

// Prepare makes a replacement: from any goroutine once the operator is open, while it runs. node is the
// operator's node with the new module's function resolved; see Swappable for what may differ.
func (o *Op) Prepare(node *operators.Node, m Module) (*Replacement, error) {
	fn := node.Guest.Fn
	r := &Replacement{side: side{node: node.Guest, fn: fn, module: m, states: make([]stateRef, len(fn.States))}}
	for i, d := range fn.States {
		r.states[i].desc = d
		if d.Prefetched() {
			r.pre = append(r.pre, prefetched{maxBytes: d.MaxBytes, stride: abi.CellStride(d.MaxBytes)})
			r.preOf = append(r.preOf, i)
		}
	}
	proj, err := newProjection(node.Guest.Input, fn.Input)
	if err != nil {
		return nil, fmt.Errorf("operator %s: %w", node.ID, err)
	}
	r.proj = proj
	r.blk.init(r.pre)
	// Until it takes over the instance's host calls go to an operator of its own: what runs must not notice.
	stand := &Op{cfg: Config{Node: node, Module: m}, side: side{node: node.Guest, fn: fn, module: m}, ctx: o.ctx, now: o.ctx.Clock.NowMS(), wm: abi.MinWatermark}
	r.env = &env{op: stand}
	stand.env = r.env
	g, err := m.New(r.env, InstanceOptions{MemoryBytes: node.Guest.Memory, FuelPerRecord: node.Guest.Fuel})
	if err != nil {
		return nil, fmt.Errorf("operator %s: make an instance of module %s: %w", node.ID, node.Guest.Module, err)
	}
	r.guest = g
	return r, nil
}

// IsListItem says whether a user key of list state holds an element, not the list's own bookkeeping.
func IsListItem(ukey []byte) bool { return len(ukey) > 0 && ukey[0] == listItem }

// Close gives up a replacement that never took over.
func (r *Replacement) Close() error { return r.guest.Close() }

// Swap puts r in: the operator's state, watermark, counters and cuts stay. By the task's goroutine, right
// after the cut of checkpoint at. The old instance is closed by another goroutine, since giving its memory
// back takes long. trial judges the new one until a later checkpoint is complete; nil: nobody does.
func (o *Op) Swap(r *Replacement, trial *Trial) (closed <-chan error) {
	was := o.side
	o.side = r.side
	o.stats = was.stats
	o.bindAs(&was, r.preOf)
	o.out.fit(len(o.fn.Outputs))
	o.live.Store(&r.guest)
	o.try(trial)
	return closing(was.guest)
}

// closing closes an instance beside the task, since giving its memory back takes long.
func closing(g Guest) <-chan error {
	done := make(chan error, 1)
	go func() { done <- g.Close() }()
	return done
}

// Trial judges an operator's new code: from the barrier at which it took over until a later checkpoint is
// complete it must not fail more than it may.
type Trial struct {
	After  checkpoint.ID // of the barrier
	Errors float64       // share of the records that may fail; 0: DefaultTrialErrors, or twice the share of the old code

	from, failed int64   // records before it, failures since
	most         float64 // share that ends it
	against      *canary // it is a canary's: twice the share of the code in force may fail too; nil: it is not
}

// DefaultTrialErrors is the share of failing records above which new code is taken out again; fewer than
// trialFailures of them never do.
const (
	DefaultTrialErrors = 0.01
	trialFailures      = 5
)

// TrialError ends an operator whose new code fails too often.
type TrialError struct {
	Operator        string
	Failed, Records int64
	Most            float64
	Last            *Fault
}

func (e *TrialError) Error() string {
	return fmt.Sprintf("operator %s: %d of the first %d records failed in the new module, at most %.3g %% may; the last one: %v",
		e.Operator, e.Failed, e.Records, e.Most*100, e.Last)
}

func (e *TrialError) Unwrap() error { return e.Last }

// try begins a trial.
func (o *Op) try(t *Trial) {
	o.trial = nil
	if t == nil {
		return
	}
	own := *t
	own.from, own.most = o.stats.In, own.Errors
	if own.most == 0 {
		own.most = DefaultTrialErrors
		if o.stats.In > 0 {
			own.most = max(own.most, 2*float64(o.stats.Skipped+o.stats.Dead)/float64(o.stats.In))
		}
	}
	o.trial = &own
}

// onTrial counts a failure that the policy lets pass; not nil: there were too many.
func (o *Op) onTrial(f *Fault) error {
	t := o.trial
	if t == nil {
		return nil
	}
	t.failed++
	n, most := o.stats.In-t.from, t.most
	if t.against != nil && t.Errors == 0 {
		most = max(most, 2*t.against.failing())
	}
	if t.failed < trialFailures || float64(t.failed) <= most*float64(n) {
		return nil
	}
	return &TrialError{Operator: o.ctx.Operator, Failed: t.failed, Records: n, Most: most, Last: f}
}
