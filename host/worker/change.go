package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// Change asks for another pipeline in place of the running one.
type Change struct {
	Graph   *operators.Graph  `json:"graph,omitempty"` // nil with Restore: that of the snapshot
	Drop    []string          `json:"drop,omitempty"`  // operators whose state may be dropped
	Renamed map[string]string `json:"renamed,omitempty"`
	// Restore goes back to a snapshot with its code, withdrawing what came after it; 0: go on.
	Restore checkpoint.ID `json:"restore,omitempty"`
	// ModulesOnly refuses everything but other modules.
	ModulesOnly bool    `json:"modules_only,omitempty"`
	Plan        string  `json:"plan,omitempty"`   // hash of the plan that was seen; empty: any
	Errors      float64 `json:"errors,omitempty"` // share of records that may fail on trial; 0: the default
	DryRun      bool    `json:"dry_run,omitempty"`
	// Probation is for how many checkpoints the output of what is swapped in is held back; 0: as the pipeline file says,
	// -1: for none.
	Probation int `json:"probation,omitempty"`
}

// Plan is what a change would do.
type Plan struct {
	Hash        string           `json:"hash"`
	Kind        job.ChangeKind   `json:"kind,omitempty"` // the hardest; empty: nothing changes
	Differences []job.Difference `json:"differences"`
	// Probation is for how many checkpoints output would be held back, and Delay by how much, in ms.
	Probation int   `json:"probation,omitempty"`
	Delay     int64 `json:"delay_ms,omitempty"`
}

// Changed is a change that was made, or, with DryRun, its plan.
type Changed struct {
	Plan
	Checkpoint checkpoint.ID   `json:"checkpoint,omitempty"` // at whose barrier
	Millis     int64           `json:"ms,omitempty"`         // without output, where the tasks started anew
	Withdrawn  []job.Output    `json:"withdrawn,omitempty"`  // published later, and taken back
	Migrated   []job.Migration `json:"migrated,omitempty"`
}

// ErrStalePlan: what runs, the file or its modules are not what the plan was made of.
var ErrStalePlan = errors.New("the plan is out of date")

// Change implements Worker.
func (l *Local) Change(ctx context.Context, c Change) (Changed, error) {
	j, err := l.running()
	if err != nil {
		return Changed{}, err
	}
	l.changing.Lock() // one at a time is prepared
	defer l.changing.Unlock()
	running := j.Running()
	rev := job.Revision{Graph: c.Graph, Drop: c.Drop, Renamed: c.Renamed}
	if c.Restore != 0 {
		err = l.restored(ctx, j, c.Restore, &rev)
	} else {
		err = rev.Compile(ctx, running.Modules, func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
			return compile(ctx, l.engine, c.Graph, n)
		})
	}
	if err != nil {
		return Changed{}, err
	}
	out, err := l.change(ctx, j, &c, &running, &rev)
	if err != nil || c.DryRun || out.Checkpoint == 0 {
		err = errors.Join(err, rev.Discard(running.Modules))
	}
	return out, err
}

func (l *Local) change(ctx context.Context, j *job.Job, c *Change, running, rev *job.Revision) (out Changed, err error) {
	out.Differences = job.Compare(running.Side(), rev.Side(), c.Renamed)
	out.Kind = job.Hardest(out.Differences)
	out.Hash = planHash(running.Side(), rev.Side(), out.Differences, c.Renamed)
	if err := out.onProbation(c, rev); err != nil {
		return out, err
	}
	switch {
	case c.Plan != "" && c.Plan != out.Hash:
		return out, fmt.Errorf("%w: it is %s now, not %s; look at millrace diff again", ErrStalePlan, out.Hash, c.Plan)
	case c.DryRun, out.Kind == "" && c.Restore == 0:
		return out, nil
	case c.Restore != 0:
		if out.Withdrawn, err = j.OutputAfter(c.Restore); err != nil {
			return out, err
		}
	case c.ModulesOnly && others(out.Differences) != "":
		return out, fmt.Errorf("%w: %s; millrace diff and apply do that", job.ErrNeedsRestart, others(out.Differences))
	}
	if c.Restore == 0 {
		if err := l.tried(ctx, rev); err != nil {
			return out, err
		}
	}
	if out.Kind == job.ChangeSwap && c.Restore == 0 {
		out.Checkpoint, err = j.Swap(ctx, job.Swap{Revision: *rev, Errors: c.Errors, Probation: out.Probation})
		return out, err
	}
	out.Checkpoint, err = j.Change(ctx, job.Change{Revision: *rev, Restore: c.Restore, Errors: c.Errors})
	if u := j.Stats().Upgrade; err == nil && u != nil {
		out.Millis, out.Migrated = u.Millis, u.Migrated
	}
	return out, err
}

// onProbation says for how long the change holds output back, or why it can't though it was asked to.
func (p *Plan) onProbation(c *Change, rev *job.Revision) error {
	k := c.Probation
	if k == 0 {
		k = rev.Graph.Checkpoint.Probation
	}
	if k <= 0 || c.Restore != 0 || p.Kind == "" {
		return nil
	}
	if problems := job.ProbationProblems(rev.Graph, p.Differences); len(problems) > 0 {
		return fmt.Errorf("%w: %s; --probation -1 does without", job.ErrNoProbation, strings.Join(problems, "; "))
	}
	p.Probation, p.Delay = k, job.ProbationDelay(rev.Graph, k).Milliseconds()
	return nil
}

// tried checks functions that were not checked before.
func (l *Local) tried(ctx context.Context, rev *job.Revision) error {
	l.mu.Lock()
	cacheDir := l.cacheDir
	l.mu.Unlock()
	_, release, err := check(ctx, l.engine, rev.Graph, cacheDir)
	return errors.Join(err, release())
}

// others are the differences that are no module's.
func others(ds []job.Difference) string {
	var parts []string
	for _, d := range ds {
		if d.Module == "" && d.Kind != job.ChangeSwap {
			parts = append(parts, d.String())
		}
	}
	return strings.Join(parts, "; ")
}

// planHash names a change: what runs, what is to run, and what that means.
func planHash(was, is job.Side, ds []job.Difference, renamed map[string]string) string {
	b, err := json.Marshal([]any{was.Graph.Text, was.Digests, is.Graph.Text, is.Digests, ds, renamed})
	if err != nil {
		panic(fmt.Sprintf("worker: plan: %v", err))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// restored makes the revision that left a snapshot, from what the store holds.
func (l *Local) restored(ctx context.Context, j *job.Job, id checkpoint.ID, rev *job.Revision) error {
	code, err := j.CodeOf(ctx, id)
	if err != nil {
		return err
	}
	file := j.Running().Graph.File
	stored := &storedModules{ctx: ctx, engine: l.engine, code: code, dir: filepath.Dir(file)}
	g, err := spec.Parse(file, code.Pipeline, spec.Options{Modules: stored})
	if err != nil {
		return fmt.Errorf("%w: pipeline of checkpoint %d: %w", job.ErrUnfit, id, err)
	}
	g.File, rev.Graph = file, g
	return rev.Compile(ctx, j.Running().Modules, func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
		for _, ref := range code.Modules {
			if ref.Operator == n.ID {
				return stored.compile(ref.Digest, n.Guest.Describe)
			}
		}
		return nil, fmt.Errorf("%w: checkpoint %d names no module of operator %s", job.ErrUnfit, id, n.ID)
	})
}

// storedModules are the modules of a snapshot. It implements spec.Modules.
type storedModules struct {
	ctx    context.Context
	engine *engine.Engine
	code   *job.StoredCode
	dir    string
}

func (s *storedModules) compile(digest string, describe *abi.Descriptor) (guestop.Module, error) {
	wasm, err := s.code.Read(digest)
	if err != nil {
		return nil, err
	}
	return s.engine.Compile(s.ctx, wasm, describe)
}

// ModuleInfo implements spec.Modules.
func (s *storedModules) ModuleInfo(path string) (*abi.Descriptor, string, error) {
	for _, ref := range s.code.Modules {
		p := ref.Path
		if !filepath.IsAbs(p) {
			p = filepath.Join(s.dir, p)
		}
		if filepath.Clean(p) != filepath.Clean(path) {
			continue
		}
		m, err := s.compile(ref.Digest, undescribed)
		if err != nil {
			return nil, ref.Digest, err
		}
		d := m.Descriptor()
		if d == undescribed {
			d = nil
		}
		if c, ok := m.(interface{ Close() error }); ok {
			err = c.Close()
		}
		return d, ref.Digest, err
	}
	return nil, "", fmt.Errorf("the snapshot holds no module %s", path)
}

// Modules are the digests of the modules in force, by operator.
func (l *Local) Modules() (map[string]string, error) {
	j, err := l.running()
	if err != nil {
		return nil, err
	}
	running := j.Running()
	return maps.Clone(running.Side().Digests), nil
}
