package job

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

// Job is one pipeline, over as many attempts as it takes.
type Job struct {
	opts     Options
	plan     *Plan
	store    *snapstore.Store
	modules  map[string]guestop.Module
	pipeline string           // digest of the pipeline file in the store
	kept     map[string]int64 // sizes of the modules in the store, by digest
	remote   *Remote          // nil: the pipeline file names none
	looked   bool             // into it, before starting from nothing
	afresh   bool             // what was there was forgotten

	stopOnce sync.Once
	stopped  chan struct{}
	ready    chan struct{} // closed when all tasks of the first attempt run
	readied  sync.Once
	requests chan *request // of checkpoints; taken by the driver of an attempt whose tasks all run
	swaps    chan *swapRequest
	changes  chan *changeRequest
	ended    chan struct{} // closed when Run has returned

	skips []operators.Skip // records that the error policy gets when they come again

	mu       sync.Mutex
	current  *attempt
	coord    checkpoint.CoordinatorStats
	restarts int
	paused   string
	warnings []string
	started  int64            // Mono
	uploads  *uploads         // nil: none
	retired  []guestop.Module // of versions no longer in force
	upgrade  *Upgrade         // the last one, nil: none
	canary   *canary          // nil: none is on

	// Of the goroutine of Run.
	trial   *trial         // nil: none
	change  *changeRequest // that ended an attempt, until its tasks run; nil: none
	undone  bool           // a swap's new code ran and was given up
	up      bool           // all tasks of the last attempt ran
	stalled int64          // Mono when a change was asked for
	renamed map[string]string
	// With Options.Clocks: there was an attempt, and what it started from.
	repeats     bool
	repeatsFrom checkpoint.ID

	restore checkpoint.ID // start from this one; 0: the newest
}

// New opens the state folder and compiles the modules; nothing runs before Run. Close the job in the end.
func New(ctx context.Context, o Options) (*Job, error) {
	o.defaults()
	j := &Job{opts: o, plan: NewPlan(o.Graph), modules: map[string]guestop.Module{}, kept: map[string]int64{}, stopped: make(chan struct{}),
		ready: make(chan struct{}), requests: make(chan *request), swaps: make(chan *swapRequest), changes: make(chan *changeRequest), restore: o.Restore, ended: make(chan struct{}), started: o.Clock.Mono()}
	var err error
	if j.remote, err = j.openRemote(); err != nil {
		return nil, err
	}
	store, err := j.open(filepath.Join(o.StateDir, "snapshots"))
	if err != nil {
		return nil, err
	}
	j.store = store
	if err := j.prepare(ctx); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *Job) prepare(ctx context.Context) error {
	o := &j.opts
	for _, line := range j.store.Skipped() {
		j.event(Event{Kind: EventSkipped, Message: line})
	}
	if o.Fresh {
		if err := j.forget(); err != nil {
			return err
		}
	}
	for _, n := range o.Graph.GuestNodes() {
		m, err := o.Module(ctx, n)
		if err != nil {
			return err
		}
		j.modules[n.ID] = m
	}
	if err := j.takePending(); err != nil {
		return err
	}
	if err := j.holdBack(ctx); err != nil {
		return err
	}
	running := j.Running()
	if err := running.checkRefused(o.StateDir, o.RetryRefused); err != nil {
		return err
	}
	if o.Restore != 0 {
		gone, err := j.store.Withdraw(o.Restore)
		if err != nil {
			return fmt.Errorf("%w %d: %w", ErrUnfit, o.Restore, err)
		}
		for _, id := range gone {
			j.warn(fmt.Sprintf("checkpoint %d is withdrawn", id))
		}
	}
	return nil
}

// forget drops state and staged output.
func (j *Job) forget() error {
	for _, n := range j.opts.Graph.Nodes {
		path, err := connect.Published(n)
		if err != nil {
			return err
		}
		if path != "" {
			return fmt.Errorf("operator %q: %w: %s is there, and a fresh run does not write over what is published; move it away, or name another path (state is as it was)",
				n.ID, operators.ErrNotOurs, path)
		}
	}
	for _, d := range []string{"stage", "work"} {
		if err := os.RemoveAll(filepath.Join(j.opts.StateDir, d)); err != nil {
			return err
		}
	}
	dir := j.store.Dir()
	j.stopUploads()
	j.afresh = true
	j.store.Close()
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	store, err := j.open(dir)
	j.store = store
	return err
}

func (j *Job) open(dir string) (*snapstore.Store, error) {
	return snapstore.Open(dir, snapstore.Options{Crash: crashpoint.Hit, FS: j.opts.SnapshotFS, Signer: j.signer()})
}

// Run runs the job to its end: the end of input, a stop, a guest's fault under policy stop, or more faults
// of the host in a row than allowed. Cancelling ctx ends it at once, without a checkpoint.
func (j *Job) Run(ctx context.Context) (Result, error) {
	defer close(j.ended)
	defer j.stopUploads()
	delay := restartFirst
	failures := 0
	most := j.opts.Restarts
	if most == 0 {
		most = defaultRestarts
	}
	for {
		done, progress, err := j.attempt(ctx)
		if j.again(ctx, done, err) || j.skip(ctx, err) {
			failures, delay = 0, restartFirst
			continue
		}
		switch {
		case err == nil:
			j.finishUploads(ctx)
			return j.result(done), nil
		case ctx.Err() == nil && errors.Is(err, state.ErrCorrupt) && j.startedFrom() != 0:
			return j.result(nil), j.store.Offer(ctx, j.startedFrom(), err)
		case ctx.Err() != nil, !retryable(err), j.readsStdin(), !j.hasRun() && !storageFull(err):
			return j.result(nil), err
		}
		if progress {
			failures, delay = 0, restartFirst
		}
		if !storageFull(err) { // waits for space for as long as it takes
			failures++
		}
		if failures > most || most < 0 {
			return j.result(nil), fmt.Errorf("gave up after %d restarts without a checkpoint: %w", max(0, failures-1), err)
		}
		j.pause(err.Error())
		j.event(Event{Kind: EventRestarting, Message: err.Error(), Millis: delay.Milliseconds()})
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return j.result(nil), ctx.Err()
		case <-j.stopped:
			return j.result(nil), fmt.Errorf("stopped while waiting to restart after: %w", err)
		}
		j.pause("")
		delay = min(restartMost, time.Duration(float64(delay)*restartFactor))
	}
}

// pause notes why the job waits for its next restart; "": it does no longer.
func (j *Job) pause(reason string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.paused = reason; reason != "" {
		j.restarts++
	}
}

// storageFull says that only space is missing.
func storageFull(err error) bool {
	for _, e := range []error{operators.ErrStorageFull, state.ErrStorageFull, syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retryable says that another attempt may go better: not for what the input, the pipeline file or a guest
// determines.
func retryable(err error) bool {
	if guestop.IsGuestFault(err) || errors.Is(err, state.ErrCorrupt) {
		return false
	}
	var damaged *snapstore.DamagedCheckpointError
	if errors.As(err, &damaged) {
		return false
	}
	for _, permanent := range []error{operators.ErrNotOurs, operators.ErrOutputLost, operators.ErrInputChanged, operators.ErrStdout,
		ErrRepeatOnce, task.ErrOtherInput, clocklog.ErrMissing} {
		if errors.Is(err, permanent) {
			return false
		}
	}
	var record *operators.RecordError
	var source *task.SourceError
	if errors.As(err, &source) && !fromSystem(source.Err) {
		return false
	}
	return !errors.As(err, &record)
}

// fromSystem says that an error came from disk or network, which may do better another time, and not from
// what the input holds.
func fromSystem(err error) bool {
	var errno syscall.Errno
	var network net.Error
	return errors.As(err, &errno) || errors.As(err, &network)
}

// attempt starts the tasks from the newest checkpoint and drives them to an end.
func (j *Job) attempt(ctx context.Context) (done *checkpoint.JobDone, progress bool, err error) {
	a := &attempt{job: j, counted: map[string][]operators.Counted{}, readers: map[string][]operators.Source{}, taskOf: map[*guestop.Op]*task.Task{}, events: make(chan task.Event, 1024), up: make(chan struct{}), over: make(chan struct{})}
	defer close(a.over)
	j.up = false
	if err := j.load(ctx, a); err != nil {
		return nil, false, err
	}
	if a.from != nil && a.from.Finished && !j.rereads() {
		j.warn(fmt.Sprintf("the input of checkpoint %d has ended, and this one is another: starting afresh", a.from.ID))
		if err := j.forget(); err != nil {
			return nil, false, err
		}
		a.from, a.restore = nil, nil
		if err := j.load(ctx, a); err != nil {
			return nil, false, err
		}
	}
	if a.from != nil && a.from.Finished {
		j.mu.Lock()
		j.coord.LastComplete = a.from.ID
		j.mu.Unlock()
		if err := j.republish(ctx, a); err != nil {
			return nil, false, err
		}
		j.settlePending()
		j.follow(a.from)
		return &checkpoint.JobDone{ID: a.from.ID, Finished: true}, false, nil
	}
	j.smallMemory()
	a.cold = coldpebble.New(filepath.Join(j.opts.StateDir, "work", "pebble"), coldpebble.Options{Log: a.log()})
	defer a.cold.Close()
	if err := a.build(); err != nil {
		return nil, false, err
	}
	coord, err := checkpoint.NewCoordinator(j.coordinator(a))
	if err != nil {
		return nil, false, err
	}
	j.mu.Lock()
	j.current = a
	j.mu.Unlock()
	d := &driver{kinds: map[checkpoint.ID]checkpoint.Kind{}, attempt: a, coord: coord, written: make(chan checkpoint.ManifestWritten, 4), started: map[checkpoint.ID]int64{}, commits: map[checkpoint.ID]int{}}
	before := coord.Stats().LastComplete
	err = d.drive(ctx)
	return d.last, coord.Stats().LastComplete > before, err
}

func (j *Job) coordinator(a *attempt) checkpoint.CoordinatorOptions {
	g := j.opts.Graph
	o := checkpoint.CoordinatorOptions{Restored: a.from, IntervalMS: g.Checkpoint.Interval.Milliseconds(),
		TimeoutMS: g.Checkpoint.Timeout.Milliseconds(),
		Template:  checkpoint.Manifest{Job: g.Name, Engine: Version, Seed: a.seed, Pipeline: j.pipeline, Canary: a.canary}}
	o.Template.Modules = j.moduleRefs()
	o.Probation = j.probationOf(a.from)
	for _, v := range j.plan.Vertices {
		o.Vertices = append(o.Vertices, checkpoint.Vertex{ID: v.ID, Parallelism: v.Parallelism, Source: v.Nodes[0].Source != nil})
	}
	return o
}

// load finds the checkpoint to start from.
func (j *Job) load(ctx context.Context, a *attempt) error {
	defer func() {
		j.plan = NewPlan(Clamp(j.opts.Graph, a.restoredSplits))
		a.nodes = j.plan.nodes
	}()
	digest, _, err := j.store.Put(ctx, j.opts.Graph.Text) // first: a damaged copy of it is repaired by this
	if err != nil {
		return err
	}
	j.pipeline = digest
	if err := j.keepModules(ctx); err != nil {
		return err
	}
	m, err := j.store.Latest(ctx)
	if errors.Is(err, snapstore.ErrNoCheckpoint) {
		if err := j.first(ctx); err != nil {
			return err
		}
		a.seed, err = newSeed()
		return err
	}
	if err != nil {
		return err
	}
	canary, again, err := j.resumeCanary(ctx, m)
	if err != nil {
		return err
	}
	if again {
		return j.load(ctx, a)
	}
	a.canary = canary
	if again, err = j.resumeProbation(ctx, m); err != nil {
		return err
	}
	if again {
		return j.load(ctx, a)
	}
	target := j.target(j.opts.Graph, j.opts.Drop, j.renamed, j.moduleRefs())
	if !j.hasRun() { // what was dropped at the first start is gone at the next
		if problems := j.emptyDrops(m); len(problems) > 0 {
			return fmt.Errorf("%w %d: %s", ErrUnfit, m.ID, strings.Join(problems, "; "))
		}
	}
	if a.restore, err = checkpoint.PlanRestore(m, target); err != nil {
		return err
	}
	if err := j.fits(ctx, m, a.restore, j.opts.Graph); err != nil {
		return err
	}
	if err := j.handMemoryOver(ctx, m, a.restore); err != nil {
		return err
	}
	if err := j.migrate(ctx, m, a.restore); err != nil {
		return err
	}
	a.from, a.seed = m, m.Seed
	for _, note := range a.restore.Notes {
		j.note(note)
	}
	j.event(Event{Kind: EventRestored, Checkpoint: m.ID})
	return nil
}

// hasRun says that all tasks of some attempt were running.
func (j *Job) hasRun() bool {
	select {
	case <-j.ready:
		return true
	default:
		return false
	}
}

// rereads says that every source can be read again from its start.
func (j *Job) rereads() bool {
	return !slices.ContainsFunc(j.opts.Graph.Nodes, func(n *operators.Node) bool {
		return n.Source != nil && connect.Promise(n) == operators.PromiseLossy
	})
}

// readsStdin says that another attempt would find its input gone.
func (j *Job) readsStdin() bool {
	return slices.ContainsFunc(j.opts.Graph.Nodes, func(n *operators.Node) bool {
		return n.Source != nil && n.Source.Connector == "stdin"
	})
}

// moduleRefs binds each guest operator to the module it runs.
func (j *Job) moduleRefs() []checkpoint.ModuleRef {
	var refs []checkpoint.ModuleRef
	for _, n := range j.opts.Graph.GuestNodes() {
		if m := j.modules[n.ID]; m != nil {
			refs = append(refs, checkpoint.ModuleRef{Operator: n.ID, Digest: m.Digest(), Path: n.Guest.Module, Size: j.kept[m.Digest()]})
		}
	}
	return refs
}

func newSeed() (uint64, error) {
	var b [8]byte
	_, err := rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]), err
}

// Stop asks for a last checkpoint, after which Run returns. Safe to call twice.
func (j *Job) Stop() {
	j.stopOnce.Do(func() { close(j.stopped) })
}

// Ready is closed when all tasks run.
func (j *Job) Ready() <-chan struct{} { return j.ready }

func (j *Job) opened() {
	j.readied.Do(func() {
		j.settlePending()
		close(j.ready)
	})
}

// Close frees modules and the state folder.
func (j *Job) Close() error {
	var errs []error
	j.setCanary(nil)
	j.retire()
	errs = append(errs, closeModules(slices.Collect(maps.Values(j.modules))))
	return errors.Join(append(errs, j.store.Close())...)
}

func (j *Job) event(e Event) {
	if j.opts.Event != nil {
		j.opts.Event(e)
	}
}

// note tells at once, and again in the result.
func (j *Job) note(text string) {
	j.event(Event{Kind: EventNote, Message: text})
	j.warn(text)
}

// startedFrom is the checkpoint that the current attempt began with, 0 if none.
func (j *Job) startedFrom() checkpoint.ID {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil || j.current.from == nil {
		return 0
	}
	return j.current.from.ID
}

func (j *Job) warn(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.warnings = append(j.warnings, text)
}
