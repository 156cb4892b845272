package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// Migration says what rewriting a state for a higher schema version did, or would do. It is serialisable.
type Migration struct {
	Operator string             `json:"operator"`
	State    string             `json:"state"`
	From     int                `json:"from"` // schema versions
	To       int                `json:"to"`
	Function string             `json:"function"`
	Entries  int64              `json:"entries"`
	Removed  int64              `json:"removed,omitempty"` // the function gave nothing for them
	Failed   int64              `json:"failed,omitempty"`
	Failures []MigrationFailure `json:"failures,omitempty"` // the first of them
}

// MigrationFailure is an entry that the function could not rewrite.
type MigrationFailure struct {
	Key   string `json:"key"`
	Entry string `json:"entry,omitempty"` // user key of a map
	Error string `json:"error"`
}

const mostFailures = 10

// MigrationError refuses a change some of whose entries can't be rewritten.
type MigrationError struct{ Migrations []Migration }

func (e *MigrationError) Error() string {
	var parts []string
	for _, m := range e.Migrations {
		if m.Failed == 0 {
			continue
		}
		f := m.Failures[0]
		parts = append(parts, fmt.Sprintf("operator %s, state %s, version %d to %d: %s failed for %d of %d entries, the first is key %q: %s",
			m.Operator, m.State, m.From, m.To, m.Function, m.Failed, m.Entries, f.Key, f.Error))
	}
	return strings.Join(parts, "; ")
}

func (e *MigrationError) Unwrap() error { return ErrUnfit }

// rewriting is one state of a snapshot that a revision declares in a higher version.
type rewriting struct {
	node   *operators.Node
	module guestop.Module
	fn     *abi.Function
	index  int
	state  *snapread.State
	to     abi.StateDescriptor
	snaps  []checkpoint.OperatorSnapshot // of all tasks of the operator
}

// MigrateFunction is the name of the function that rewrites the values of a state: a map from key and old
// value to the new value.
func MigrateFunction(state string, from, to int) string {
	return fmt.Sprintf("migrate_%s_%d_%d", state, from, to)
}

// rewritings finds what has to be rewritten for v to start from a snapshot.
func (j *Job) rewritings(m *checkpoint.Manifest, r *checkpoint.Restore, v *Revision) ([]rewriting, error) {
	var out []rewriting
	var problems []string
	snap := snapread.Open(m, j.store, j.opts.StateFS)
	for _, n := range v.Graph.Nodes {
		snaps := r.Operator(n.ID)
		if n.Kind != operators.NodeGuest || n.Guest.Fn == nil || len(snaps) == 0 || v.Modules[n.ID] == nil {
			continue
		}
		for _, to := range n.Guest.Fn.States {
			from, ok := versionIn(snaps, to)
			if !ok || from == to.Version {
				continue
			}
			if from > to.Version {
				problems = append(problems, fmt.Sprintf("operator %s: state %s has schema version %d, the module declares %d: millrace rollback, or run --restore, goes back to a snapshot of that version", n.ID, to.Name, from, to.Version))
				continue
			}
			w := rewriting{node: n, module: v.Modules[n.ID], to: to, snaps: snaps}
			name := MigrateFunction(to.Name, from, to.Version)
			if w.index = slices.IndexFunc(w.module.Descriptor().Functions, func(f abi.Function) bool { return f.Name == name && f.Kind == abi.FunctionMap }); w.index < 0 {
				problems = append(problems, fmt.Sprintf("operator %s: state %s has schema version %d, the module declares %d and has no map function %s to rewrite it", n.ID, to.Name, from, to.Version, name))
				continue
			}
			w.fn = &w.module.Descriptor().Functions[w.index]
			var err error
			if w.state, err = snap.Find(before(v.Renamed, n.ID), to.Name); err != nil {
				return nil, err
			}
			if w.state.TTL != nil || to.TTL != nil {
				problems = append(problems, fmt.Sprintf("operator %s: state %s has a TTL: its values can't be rewritten", n.ID, to.Name))
				continue
			}
			out = append(out, w)
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnfit, strings.Join(problems, "; "))
	}
	return out, nil
}

// before is the id that an operator had.
func before(renamed map[string]string, id string) string {
	for from, to := range renamed {
		if to == id {
			return from
		}
	}
	return id
}

// versionIn is the schema version that a snapshot has of a state.
func versionIn(snaps []checkpoint.OperatorSnapshot, d abi.StateDescriptor) (version int, ok bool) {
	for _, s := range snaps {
		if s.Keyed == nil {
			continue
		}
		for _, st := range s.Keyed.States {
			if st.Name == d.Name && st.Kind == string(d.Kind) {
				return st.Version, true
			}
		}
	}
	return 0, false
}

// tryMigrations rewrites everything without keeping it. Errors: *MigrationError with what fails.
func (j *Job) tryMigrations(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore, v *Revision) ([]Migration, error) {
	ws, err := j.rewritings(m, r, v)
	if err != nil {
		return nil, err
	}
	var done []Migration
	failed := false
	for i := range ws {
		rep, err := ws[i].run(ctx, j, func(int) (func(*snapread.Entry, []byte) error, error) {
			return func(*snapread.Entry, []byte) error { return nil }, nil
		})
		if err != nil {
			return nil, err
		}
		failed = failed || rep.Failed > 0
		done = append(done, rep)
	}
	if failed {
		return done, &MigrationError{done}
	}
	return done, nil
}

// migrate rewrites what the revision in force declares in higher versions than the snapshot has, into new
// runs: the snapshot stays as it is, the next checkpoint names the new ones.
func (j *Job) migrate(ctx context.Context, m *checkpoint.Manifest, r *checkpoint.Restore) error {
	v := j.Running()
	v.Renamed = j.renamed
	ws, err := j.rewritings(m, r, &v)
	if err != nil || len(ws) == 0 {
		return err
	}
	dir := filepath.Join(j.opts.StateDir, "work", "migrate")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	for i := range ws {
		rep, err := ws[i].rewrite(ctx, j, r, dir)
		if err != nil {
			return err
		}
		if rep.Failed > 0 {
			return &MigrationError{[]Migration{rep}}
		}
		j.event(Event{Kind: EventNote, Message: fmt.Sprintf("operator %s: %d entries of state %s went from schema version %d to %d", rep.Operator, rep.Entries, rep.State, rep.From, rep.To)})
	}
	crashpoint.Hit(crashpoint.AfterSwap)
	return os.RemoveAll(dir)
}

// rewrite makes the new runs and puts them into what the operator restores.
func (w *rewriting) rewrite(ctx context.Context, j *Job, r *checkpoint.Restore, dir string) (Migration, error) {
	writers := make([]*snapread.RunWriter, len(w.snaps))
	defer func() {
		for _, x := range writers {
			if x != nil {
				_ = x.Close() // what is left of it goes with the folder
			}
		}
	}()
	rep, err := w.run(ctx, j, func(part int) (func(*snapread.Entry, []byte) error, error) {
		x, err := snapread.NewRunWriter(dir)
		writers[part] = x
		return func(e *snapread.Entry, v []byte) error {
			key := e.Key
			if w.to.Kind != abi.StateValue {
				key = snapread.CompositeKey(e.Key, e.UserKey)
			}
			return x.Add(e.Hash, key, v, false)
		}, err
	})
	if err != nil || rep.Failed > 0 {
		return rep, err
	}
	snaps := slices.Clone(w.snaps)
	for i := range snaps {
		if snaps[i].Keyed == nil {
			continue
		}
		var runs []state.Run
		run, err := writers[i].Finish(ctx, j.store)
		if err != nil {
			return rep, err
		}
		if run.Count > 0 {
			runs = append(runs, run)
		}
		k := *snaps[i].Keyed
		k.States = slices.Clone(k.States)
		for s := range k.States {
			if st := &k.States[s]; st.Name == w.to.Name && st.Kind == string(w.to.Kind) {
				st.Version, st.Runs = w.to.Version, runs
			}
		}
		snaps[i].Keyed = &k
	}
	w.snaps = snaps
	r.Replace(w.node.ID, snaps)
	return rep, nil
}

// run takes every live entry of every part through the function. take gets what keeps the entries of a part.
func (w *rewriting) run(ctx context.Context, j *Job, take func(part int) (func(*snapread.Entry, []byte) error, error)) (Migration, error) {
	rep := Migration{Operator: w.node.ID, State: w.to.Name, From: w.state.Version, To: w.to.Version, Function: w.fn.Name}
	g, err := w.open(ctx, j)
	if err != nil {
		return rep, err
	}
	defer g.op.Close()
	for i, s := range w.snaps {
		if s.Keyed == nil {
			continue
		}
		keep, err := take(i)
		if err != nil {
			return rep, err
		}
		lo, hi := uint64(s.Keyed.Range.Lo)<<48, uint64(s.Keyed.Range.Hi)<<48-1
		rd, err := w.state.Open(ctx, lo, hi)
		if err != nil {
			return rep, err
		}
		err = g.scan(rd.Scan(ctx, lo, hi), w.to.Kind, &rep, keep)
		if err = errors.Join(err, rd.Close()); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// open makes an instance for the function.
func (w *rewriting) open(ctx context.Context, j *Job) (*rewriter, error) {
	n := &operators.Node{ID: w.node.ID, Kind: operators.NodeGuest, Parallelism: 1, Guest: &operators.GuestNode{Module: w.node.Guest.Module,
		Function: w.fn.Name, Kind: abi.FunctionMap, Fn: w.fn, Index: w.index, Clock: "event", Memory: w.node.Guest.Memory, Fuel: w.node.Guest.Fuel,
		OnError: operators.ErrorPolicy{Policy: operators.PolicyDeadLetter}}}
	a := attempt{job: j}
	g := &rewriter{op: guestop.New(guestop.Config{Node: n, Module: w.module})}
	return g, g.op.Open(&operators.Context{Context: ctx, Job: j.opts.Graph.Name, Operator: n.ID, Parallelism: 1, Clock: j.opts.Clock, Log: a.log(),
		Describe: func(p abi.Position) string { return fmt.Sprintf("entry %d", p.Offset) }})
}

// rewriter takes entries through a function in batches. It implements operators.Collector.
type rewriter struct {
	op      *guestop.Op
	b       abi.Batch
	entries []snapread.Entry
	kept    []bool // by entry: it is to be copied as it is
	out     [][]byte
	failed  []string // by entry; empty: it did not
	err     error
}

const rewriteBytes = 256 << 10 // of values in one batch

func (g *rewriter) scan(c *snapread.Cursor, kind abi.StateKind, rep *Migration, keep func(*snapread.Entry, []byte) error) error {
	for c.Next() {
		e := *c.Entry()
		e.Key, e.UserKey, e.Value = slices.Clone(e.Key), slices.Clone(e.UserKey), slices.Clone(e.Value)
		g.entries = append(g.entries, e)
		// A list's own bookkeeping is no value of the guest's.
		g.kept = append(g.kept, kind == abi.StateList && !guestop.IsListItem(e.UserKey))
		g.b.Append(&abi.Record{Key: e.Key, Value: e.Value, Pos: abi.Position{Offset: uint64(len(g.entries) - 1)}})
		if g.b.Len() == abi.MaxBatchRecords || len(g.b.Data) > rewriteBytes {
			if err := g.flush(rep, keep); err != nil {
				return err
			}
		}
	}
	return errors.Join(c.Err(), g.flush(rep, keep))
}

func (g *rewriter) flush(rep *Migration, keep func(*snapread.Entry, []byte) error) error {
	n := len(g.entries)
	g.out, g.failed = make([][]byte, n), make([]string, n)
	if n > 0 {
		if err := errors.Join(g.op.Batch(0, &g.b, g), g.err); err != nil {
			return err
		}
	}
	for i := range g.entries {
		e, v := &g.entries[i], g.out[i]
		switch {
		case g.kept[i]:
			if err := keep(e, e.Value); err != nil {
				return err
			}
			continue
		case g.failed[i] != "":
			if rep.Failed++; len(rep.Failures) < mostFailures {
				rep.Failures = append(rep.Failures, MigrationFailure{Key: string(e.Key), Entry: string(e.UserKey), Error: g.failed[i]})
			}
		case v == nil:
			rep.Removed++
		default:
			if err := keep(e, v); err != nil {
				return err
			}
		}
		rep.Entries++
	}
	g.b.Reset()
	g.entries, g.kept = g.entries[:0], g.kept[:0]
	return nil
}

// Emit implements operators.Collector: what came out is found by the place it came from.
func (g *rewriter) Emit(output int, b *abi.Batch) error {
	for i := range b.Len() {
		f := b.Frame(i)
		at := f.Pos().Offset
		if at >= uint64(len(g.entries)) {
			g.err = fmt.Errorf("a migrate function changed the position of a record to %d", at)
			return nil
		}
		if output != operators.OutputDeadLetter {
			g.out[at] = append([]byte{}, f.Value()...)
			continue
		}
		_, letter := operators.SplitDeadLetter(f)
		g.failed[at], _, _ = strings.Cut(letter.Error, "\n")
	}
	return nil
}
