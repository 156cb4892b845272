package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Revision is what a job runs: a checked pipeline with its modules.
type Revision struct {
	Graph   *operators.Graph
	Modules map[string]guestop.Module // by operator, of every guest operator; the job closes those it takes
	Drop    []string                  // operators whose orphaned state may be dropped
	Renamed map[string]string         // ids in the checkpoint to ids in the graph
}

// Compile compiles the modules of all guest operators of g by compile, but takes those of have that are
// the same. On an error nothing is left.
func (v *Revision) Compile(ctx context.Context, have map[string]guestop.Module, compile func(context.Context, *operators.Node) (guestop.Module, error)) error {
	v.Modules = map[string]guestop.Module{}
	var fresh []guestop.Module
	for _, n := range v.Graph.GuestNodes() {
		m, err := compile(ctx, n)
		if err != nil {
			return errors.Join(err, closeModules(fresh))
		}
		if old := have[n.ID]; old != nil && old.Digest() == m.Digest() {
			v.Modules[n.ID] = old
			if err := closeModules([]guestop.Module{m}); err != nil {
				return errors.Join(err, closeModules(fresh))
			}
			continue
		}
		fresh = append(fresh, m)
		v.Modules[n.ID] = m
	}
	return nil
}

func closeModules(ms []guestop.Module) error {
	var errs []error
	for _, m := range ms {
		if c, ok := m.(interface{ Close() error }); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Side is the revision as Compare takes it.
func (v *Revision) Side() Side {
	s := Side{Graph: v.Graph, Digests: map[string]string{}, Saves: map[string]bool{}, Loads: map[string]bool{}}
	for id, m := range v.Modules {
		s.Digests[id] = m.Digest()
		s.Saves[id], s.Loads[id] = m.Descriptor().Save, m.Descriptor().Load
	}
	return s
}

// refs binds each guest operator to the module it runs.
func (v *Revision) refs() []checkpoint.ModuleRef {
	var refs []checkpoint.ModuleRef
	for _, n := range v.Graph.GuestNodes() {
		if m := v.Modules[n.ID]; m != nil {
			refs = append(refs, checkpoint.ModuleRef{Operator: n.ID, Digest: m.Digest(), Path: n.Guest.Module})
		}
	}
	return refs
}

// Running is the version in force. Its graph and modules are shared: they are not to be changed or closed.
func (j *Job) Running() Revision {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Revision{Graph: j.opts.Graph, Modules: maps.Clone(j.modules)}
}

// enforce makes v what the next attempt, or the next checkpoint, runs. What the version before it alone
// used is kept until the trial is over.
func (j *Job) enforce(v *Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, m := range j.modules {
		if v.Modules[id] != m {
			j.retired = append(j.retired, m)
		}
	}
	j.opts.Graph, j.modules, j.renamed = v.Graph, maps.Clone(v.Modules), v.Renamed
	j.opts.Drop = append(slices.Clone(j.opts.Drop), v.Drop...)
}

// retire closes what no version in force uses any more.
func (j *Job) retire() {
	j.mu.Lock()
	used := slices.Collect(maps.Values(j.modules))
	if j.canary != nil {
		used = slices.AppendSeq(used, maps.Values(j.canary.rev.Modules))
	}
	var gone []guestop.Module
	for _, m := range j.retired {
		if !slices.Contains(used, m) {
			gone = append(gone, m)
		}
	}
	j.retired = nil
	j.mu.Unlock()
	if err := closeModules(gone); err != nil {
		j.warn("old modules can't be closed: " + err.Error())
	}
}

// trial is a version on trial: until a checkpoint later than After is complete, a failure takes it out again.
type trial struct {
	after  checkpoint.ID
	before Revision
	errors float64
	what   string            // for people
	fresh  map[string]string // digests of the modules that are new with it, to their operators
	left   int               // checkpoints for which its output is held, 0: it is on no probation
}

// guestTrial is the trial as operator n sees it; nil: none.
func (j *Job) guestTrial(n *operators.Node) *guestop.Trial {
	if j.trial == nil || !slices.Contains(slices.Collect(maps.Values(j.trial.fresh)), n.ID) {
		return nil
	}
	return &guestop.Trial{After: j.trial.after, Errors: j.trial.errors}
}

// begin puts v on trial behind checkpoint after.
func (j *Job) begin(v *Revision, after checkpoint.ID, limit float64, what string) {
	before := j.Running()
	t := &trial{after: after, before: before, errors: limit, what: what, fresh: freshModules(before.Modules, v.Modules)}
	j.enforce(v)
	j.trial = t
	j.upgraded(Upgrade{State: UpgradeTrial, Checkpoint: after, What: what})
}

// passed ends the trial once a later checkpoint is complete whose output is not held.
func (j *Job) passed(id checkpoint.ID, held bool) {
	t := j.trial
	if t != nil && held {
		j.stillHeld(t)
		return
	}
	if t == nil {
		j.retire() // what a canary left
		return
	}
	if id <= t.after {
		return
	}
	j.trial = nil
	j.mu.Lock()
	j.renamed = nil // what was renamed is so in this checkpoint
	j.mu.Unlock()
	j.upgraded(Upgrade{State: UpgradeDone, Checkpoint: t.after, What: t.what})
	j.retire()
	j.release()
}

// takeBack ends the trial of a version that failed: the one before goes on from the checkpoint at which it
// was replaced, and the digests are remembered. False: there is none on trial, or the failure is not its.
func (j *Job) takeBack(ctx context.Context, opened bool, err error) bool {
	t := j.trial
	if t == nil || ctx.Err() != nil || opened && !guestop.IsGuestFault(err) {
		return false
	}
	var fault *guestop.Fault
	if errors.As(err, &fault) {
		if rerr := j.refuseModules(t, err); rerr != nil {
			j.warn("the refused module can't be noted: " + rerr.Error())
		}
	}
	if t.left > 0 && !j.discardHeld(t.after) {
		return false
	}
	j.trial = nil
	j.enforce(&t.before)
	j.upgraded(Upgrade{State: UpgradeRolledBack, Checkpoint: t.after, What: t.what, Reason: err.Error()})
	j.event(Event{Kind: EventRolledBack, Checkpoint: t.after, Message: fmt.Sprintf("%s is taken back: %v", t.what, err)})
	j.retire()
	return true
}

// UpgradeState says how the last change of a running pipeline went.
type UpgradeState string

// States of an upgrade.
const (
	UpgradeTrial      UpgradeState = "trial"       // in force; a failure before the next checkpoint takes it back
	UpgradeDone       UpgradeState = "done"        // in force
	UpgradeRolledBack UpgradeState = "rolled back" // the version before runs
	UpgradeFailed     UpgradeState = "failed"      // never in force
)

// Upgrade is the last change of a running pipeline. It is serialisable.
type Upgrade struct {
	State      UpgradeState  `json:"state"`
	Held       int           `json:"held,omitempty"`       // checkpoints until what the new code put out is published
	Checkpoint checkpoint.ID `json:"checkpoint,omitempty"` // at whose barrier
	What       string        `json:"what"`
	Reason     string        `json:"reason,omitempty"`
	Millis     int64         `json:"ms,omitempty"` // without output, where the tasks started anew
	Migrated   []Migration   `json:"migrated,omitempty"`
}

func (j *Job) upgraded(u Upgrade) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.upgrade != nil && u.Millis == 0 && u.Checkpoint == j.upgrade.Checkpoint {
		u.Millis, u.Migrated = j.upgrade.Millis, j.upgrade.Migrated
	}
	j.upgrade = &u
}

// Discard closes the modules that are not among those in use.
func (v *Revision) Discard(used map[string]guestop.Module) error {
	var gone []guestop.Module
	for id, m := range v.Modules {
		if used[id] != m {
			gone = append(gone, m)
		}
	}
	return closeModules(gone)
}

// describeCode says what is in force.
func (j *Job) describeCode(s *Stats) {
	v := j.Running()
	sum := sha256.Sum256(v.Graph.Text)
	s.Pipeline, s.Modules = hex.EncodeToString(sum[:]), v.refs()
}
