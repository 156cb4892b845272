package guestop

import (
	"fmt"
	"sync/atomic"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// Canary is other code that gets part of an operator's keys, over the same state.
type Canary struct {
	Node   *operators.Node // with the candidate's function
	Module Module          // the candidate
	Slots  state.Range     // whose keys it gets
	Errors float64         // share of its records that may fail; 0: DefaultTrialErrors, or twice the share of the others
}

// CanaryOpenError says that a canary's candidate could not be started again from a checkpoint.
type CanaryOpenError struct {
	Operator string
	Digest   string // of the candidate
	Err      error
}

// Error implements error.
func (e *CanaryOpenError) Error() string { return fmt.Sprintf("canary %.12s: %v", e.Digest, e.Err) }

// Unwrap implements errors.
func (e *CanaryOpenError) Unwrap() error { return e.Err }

// SideStats are counters of one of the two codes of an operator in one task, since the canary began or the task
// started, whichever came later.
type SideStats struct {
	Records int64 `json:"records"` // handled
	Timers  int64 `json:"timers"`
	Faults  int64 `json:"faults"`
	Skipped int64 `json:"skipped"` // by the error policy
	Dead    int64 `json:"dead_letters"`
	Fuel    int64 `json:"fuel"`
}

// Add adds those of another task.
func (s SideStats) Add(o SideStats) SideStats {
	return SideStats{s.Records + o.Records, s.Timers + o.Timers, s.Faults + o.Faults, s.Skipped + o.Skipped, s.Dead + o.Dead, s.Fuel + o.Fuel}
}

// canary is the second side of an operator, and what was done with it.
type canary struct {
	slots  state.Range
	asleep side          // the one that is not in the operator
	since  Stats         // of the code in force when it began
	turned bool          // the candidate is in the operator
	split  split         // scratch
	shown  [2]shownStats // in force, candidate
}

// shownStats are SideStats for other goroutines.
type shownStats struct{ records, timers, faults, skipped, dead, fuel atomic.Int64 }

// turn puts the other side into the operator.
func (o *Op) turn() {
	c := o.canary
	o.side, c.asleep = c.asleep, o.side
	c.turned = !c.turned
}

// Touches says that the task has keys in a range of slots.
func (o *Op) Touches(r state.Range) bool {
	own := o.ctx.Range
	return max(own.Lo, r.Lo) < min(own.Hi, r.Hi)
}

// Begin lets r have the keys of some slots from now on, over the state as it is. By the task's goroutine, right
// after a cut, as all that follow. errors is the share of its records that may fail, 0: the default.
func (o *Op) Begin(r *Replacement, slots state.Range, errors float64) {
	c := &canary{slots: slots, asleep: r.side, since: o.stats}
	o.canary = c
	o.turn()
	o.bindAs(&c.asleep, r.preOf)
	o.trial = &Trial{Errors: errors, most: errors, against: c}
	if errors == 0 {
		o.trial.most = DefaultTrialErrors
	}
	o.turn()
	o.rival.Store(&r.guest)
	o.seen.Store(c)
	c.show(o)
}

// Widen changes the slots of a canary that is on.
func (o *Op) Widen(slots state.Range) { o.canary.slots = slots }

// Promote puts the candidate in force for all keys. trial judges it from now on; nil: nobody does.
func (o *Op) Promote(trial *Trial) (closed <-chan error) {
	total := o.total()
	o.turn()
	was := o.canary.asleep.guest
	o.canary = nil
	o.stats = total
	g := o.guest
	o.live.Store(&g)
	o.rival.Store(nil)
	o.seen.Store(nil)
	o.try(trial)
	return closing(was)
}

// Revert ends a canary: the code in force gets all keys again.
func (o *Op) Revert() (closed <-chan error) {
	was := o.canary.asleep.guest
	o.stats = o.total()
	o.canary = nil
	o.rival.Store(nil)
	o.seen.Store(nil)
	return closing(was)
}

// HasCanary says that a canary is on in this task. By the task's goroutine.
func (o *Op) HasCanary() bool { return o.canary != nil }

// openCanary begins the canary that the checkpoint has.
func (o *Op) openCanary() error {
	c := o.cfg.Canary
	if c == nil || !o.Touches(c.Slots) {
		return nil
	}
	r, err := o.Prepare(c.Node, c.Module)
	if err != nil {
		return &CanaryOpenError{Operator: o.ctx.Operator, Digest: c.Module.Digest(), Err: err}
	}
	o.Begin(r, c.Slots, c.Errors)
	return nil
}

// failing is the share of records that fail in the code in force since the canary began; while the candidate is
// in the operator.
func (c *canary) failing() float64 {
	s := &c.asleep.stats
	n := s.In - c.since.In
	if n == 0 {
		return 0
	}
	return float64(s.Skipped-c.since.Skipped+s.Dead-c.since.Dead) / float64(n)
}

// show makes the counters visible; while the code in force is in the operator.
func (c *canary) show(o *Op) {
	for i, s := range [2]*Stats{&o.stats, &c.asleep.stats} {
		var was Stats
		if i == 0 {
			was = c.since
		}
		t := &c.shown[i]
		t.records.Store(s.In - was.In)
		t.timers.Store(s.Timers - was.Timers)
		t.faults.Store(s.Faults - was.Faults)
		t.skipped.Store(s.Skipped - was.Skipped)
		t.dead.Store(s.Dead - was.Dead)
		t.fuel.Store(s.Fuel - was.Fuel)
	}
}

func (t *shownStats) take() SideStats {
	return SideStats{Records: t.records.Load(), Timers: t.timers.Load(), Faults: t.faults.Load(), Skipped: t.skipped.Load(),
		Dead: t.dead.Load(), Fuel: t.fuel.Load()}
}

// CanaryStats are the counters of the code in force and of the candidate; false: no canary is on. From any
// goroutine.
func (o *Op) CanaryStats() ([2]SideStats, bool) {
	c := o.seen.Load()
	if c == nil {
		return [2]SideStats{}, false
	}
	return [2]SideStats{c.shown[0].take(), c.shown[1].take()}, true
}
