package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// ErrNoProbation: a change can't be put on probation; nothing was changed.
var ErrNoProbation = errors.New("this change can't be on probation")

// MaxProbation is the longest probation, in checkpoints: each of their manifests lists everything held.
const MaxProbation = 1000

// ProbationProblems says why the differences can't be put on probation: output is held back for a number of
// checkpoints, which needs sinks that publish with checkpoints, and checkpoints by themselves. Empty: they can.
func ProbationProblems(g *operators.Graph, ds []Difference) (problems []string) {
	for _, d := range ds {
		if d.Kind != ChangeSwap {
			problems = append(problems, fmt.Sprintf("%s: the tasks start anew for it, and only what is swapped at a barrier can be on probation", d))
		}
	}
	for _, n := range g.Nodes {
		if n.Sink != nil && connect.Promise(n) != operators.PromiseExactlyOnce {
			problems = append(problems, fmt.Sprintf("sink %s (%s) publishes at once, so that nothing can be held back; expected file or blackhole", n.ID, n.Sink.Connector))
		}
	}
	if g.Checkpoint.Interval == 0 {
		problems = append(problems, "checkpoint.interval is 0s: there is no checkpoint that would end it")
	}
	return problems
}

// ProbationDelay is by how much a probation of k checkpoints delays output.
func ProbationDelay(g *operators.Graph, k int) time.Duration {
	return time.Duration(k) * g.Checkpoint.Interval
}

// probation is what the manifest of a swap's checkpoint says of it; nil: none.
func (s *Swap) probation(what string) *checkpoint.Probation {
	if s.Probation <= 0 {
		return nil
	}
	return &checkpoint.Probation{Left: s.Probation, Errors: s.Errors, What: what}
}

// onProbation makes the trial that has begun a probation; nil: it is none.
func (j *Job) onProbation(p *checkpoint.Probation) {
	if t := j.trial; p != nil && t != nil {
		t.left = p.Left
		j.tellHeld(t)
	}
}

func (j *Job) tellHeld(t *trial) {
	j.upgraded(Upgrade{State: UpgradeTrial, Checkpoint: t.after, What: t.what, Held: t.left})
}

// stillHeld counts a checkpoint whose output is held.
func (j *Job) stillHeld(t *trial) {
	t.left--
	j.tellHeld(t)
}

// heldBack refuses a savepoint of code that may yet be taken back: what it had staged would go with it.
func (j *Job) heldBack(r *request) bool {
	t := j.trial
	if t == nil || t.left == 0 || r.savepoint == nil {
		return false
	}
	r.done <- answer{0, fmt.Errorf("%w: a savepoint of code on probation would outlive it, and %d checkpoints are left of that; ask again then, or millrace rollback ends it", ErrBusy, t.left)}
	return true
}

// discardHeld goes back to the barrier at which code on probation took over. False: it can't, and the probation goes on.
func (j *Job) discardHeld(since checkpoint.ID) bool {
	gone, err := j.store.Withdraw(since)
	if err != nil {
		j.warn(fmt.Sprintf("the checkpoints behind %d can't be withdrawn, its output stays held: %v", since, err))
		return false
	}
	for _, id := range gone {
		j.note(fmt.Sprintf("checkpoint %d is withdrawn, with what was held back", id))
	}
	return true
}

// resumeProbation goes on with the probation of checkpoint m. Where other code is to run than that on probation it
// ends: the job goes back to the barrier, as after a failure, and what was held is discarded. again: it did.
func (j *Job) resumeProbation(ctx context.Context, m *checkpoint.Manifest) (again bool, err error) {
	p := m.OnProbation()
	if m.ID == j.restore {
		p = m.Probation // somebody chose the state from before the change
	}
	switch {
	case p == nil:
		return false, nil
	case j.trial != nil && j.trial.left > 0: // another attempt
		j.trial.left = p.Left
		return false, nil
	case !sameModules(m.InForce().Modules, j.moduleRefs()):
		if p.Since == m.ID {
			return false, nil // nothing came of it
		}
		j.note(fmt.Sprintf("%s was on probation since checkpoint %d, and other code is to run: what was held back is discarded", p.What, p.Since))
		if !j.discardHeld(p.Since) {
			return false, fmt.Errorf("%w: checkpoint %d is on probation", ErrUnfit, m.ID)
		}
		return true, nil
	}
	from, err := j.store.Load(p.Since)
	if err != nil {
		return false, fmt.Errorf("%w: the probation since checkpoint %d: %w", ErrUnfit, p.Since, err)
	}
	before, err := j.revisionOf(ctx, from.Before())
	if err != nil {
		return false, fmt.Errorf("%w: the code before the probation, of checkpoint %d: %w", ErrUnfit, p.Since, err)
	}
	j.trial = &trial{after: p.Since, before: *before, errors: p.Errors, what: p.What, left: p.Left, fresh: freshModules(before.Modules, j.modules)}
	j.mu.Lock()
	j.retired = slices.AppendSeq(j.retired, maps.Values(before.Modules))
	j.mu.Unlock()
	j.tellHeld(j.trial)
	return false, nil
}

// sameModules says that two lists bind the same operators to the same modules.
func sameModules(a, b []checkpoint.ModuleRef) bool {
	of := func(refs []checkpoint.ModuleRef) map[string]string {
		m := map[string]string{}
		for _, r := range refs {
			m[r.Operator] = r.Digest
		}
		return m
	}
	return maps.Equal(of(a), of(b))
}

// probationOf is the probation that an attempt from m goes on with; nil: none.
func (j *Job) probationOf(m *checkpoint.Manifest) *checkpoint.Probation {
	if j.trial == nil || j.trial.left == 0 || m == nil {
		return nil
	}
	return m.OnProbation()
}

// heldSince is the barrier behind which nothing of the checkpoint to start from is published; 0: all of it is.
func (a *attempt) heldSince() checkpoint.ID {
	if a.from == nil || a.from.Probation == nil {
		return 0
	}
	return a.from.Probation.Since
}

// heldNote says what a job that stops leaves unpublished; empty: nothing.
func (j *Job) heldNote() string {
	if t := j.trial; t != nil && t.left > 0 {
		return fmt.Sprintf("%s is on probation: output behind checkpoint %d is held back for %d more checkpoints of the next run", t.what, t.after, t.left)
	}
	return ""
}

// revisionOf is the version that a manifest names, out of the snapshot store. Its modules are the caller's.
func (j *Job) revisionOf(ctx context.Context, code checkpoint.Next) (v *Revision, err error) {
	if j.opts.Compile == nil {
		return nil, errors.New("there is nothing that compiles its modules")
	}
	text, err := j.store.Read(ctx, code.Pipeline)
	if err != nil {
		return nil, err
	}
	v = &Revision{Modules: map[string]guestop.Module{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.Discard(nil))
		}
	}()
	file, err := filepath.Abs(j.opts.Graph.File)
	if err != nil {
		return nil, err
	}
	described := map[string]*abi.Descriptor{}
	for _, n := range j.opts.Graph.GuestNodes() {
		described[n.ID] = n.Guest.Describe
	}
	info := namedModules{dir: filepath.Dir(file), refs: code.Modules, described: described, modules: v.Modules}
	for _, ref := range code.Modules {
		wasm, err := j.store.Read(ctx, ref.Digest)
		if err != nil {
			return nil, fmt.Errorf("operator %s: module %.12s: %w", ref.Operator, ref.Digest, err)
		}
		if v.Modules[ref.Operator], err = j.opts.Compile(ctx, wasm, described[ref.Operator]); err != nil {
			delete(v.Modules, ref.Operator)
			return nil, fmt.Errorf("operator %s: module %.12s: %w", ref.Operator, ref.Digest, err)
		}
	}
	if v.Graph, err = spec.Parse(file, text, spec.Options{Modules: info}); err != nil {
		return nil, err
	}
	v.Graph.File = j.opts.Graph.File
	return v, nil
}

// namedModules tells a stored pipeline of the modules that its manifest names. It implements spec.Modules.
type namedModules struct {
	dir       string
	refs      []checkpoint.ModuleRef
	described map[string]*abi.Descriptor // by operator, of those that do not describe themselves
	modules   map[string]guestop.Module
}

// ModuleInfo implements spec.Modules.
func (s namedModules) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	var names []string
	for _, ref := range s.refs {
		p := ref.Path
		if !filepath.IsAbs(p) {
			p = filepath.Join(s.dir, p)
		}
		if filepath.Clean(p) != filepath.Clean(path) {
			names = append(names, ref.Path)
			continue
		}
		if s.described[ref.Operator] != nil {
			return nil, ref.Digest, nil
		}
		return s.modules[ref.Operator].Descriptor(), ref.Digest, nil
	}
	return nil, "", fmt.Errorf("the snapshot names no module %s, only %s", path, strings.Join(names, ", "))
}
