package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
)

// Options of a worker in this process.
type Options struct {
	Log     *slog.Logger
	Event   func(job.Event)
	Connect connect.Env
	Secrets job.Secrets // where references of keys and credentials lead
	Clock   clock.Clock // nil: the machine's
}

// Local is a worker in this process. Its methods may be called by several goroutines.
type Local struct {
	opts Options

	changing sync.Mutex

	mu       sync.Mutex
	taken    bool // a Deploy is under way or has succeeded
	engine   *engine.Engine
	cacheDir string
	job      *job.Job
	cancel   context.CancelFunc

	once   sync.Once
	done   chan struct{} // closed when result and err are there
	result job.Result
	err    error
}

// NewLocal makes a worker that runs nothing yet.
func NewLocal(o Options) *Local {
	if o.Clock == nil {
		o.Clock = clock.Wall{}
	}
	return &Local{opts: o, done: make(chan struct{})}
}

// Deploy implements Worker. After an error before anything ran, another pipeline may be deployed.
func (l *Local) Deploy(ctx context.Context, d Deploy) error {
	l.mu.Lock()
	taken := l.taken
	l.taken = true
	l.mu.Unlock()
	if taken {
		return errors.New("this worker already runs a pipeline")
	}
	j, err := l.prepare(ctx, d)
	if err != nil {
		l.mu.Lock()
		l.taken = false
		l.mu.Unlock()
		return err
	}
	select {
	case <-j.Ready():
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// prepare compiles and starts the job.
func (l *Local) prepare(ctx context.Context, d Deploy) (*job.Job, error) {
	eng, err := engine.New(ctx, engine.Options{CacheDir: d.CacheDir, Interpreter: d.Engine == EngineInterpreter,
		Wasmtime: d.Engine == EngineWasmtime})
	if err != nil {
		return nil, err
	}
	checked, release, err := check(ctx, eng, d.Graph, d.CacheDir)
	defer func() { _ = release() }() // the job has the modules by then
	if err != nil {
		return nil, errors.Join(err, eng.Close(ctx))
	}
	l.tellUnchecked(checked)
	j, err := job.New(ctx, job.Options{Graph: d.Graph, StateDir: d.StateDir, Fresh: d.Fresh, Restore: d.Restore, Drop: d.Drop, RetryRefused: d.RetryRefused,
		Module: func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
			return compile(ctx, eng, d.Graph, n)
		},
		Compile: eng.Compile,
		Connect: l.opts.Connect, Secrets: l.opts.Secrets, Clock: l.opts.Clock, Log: l.opts.Log, Event: l.opts.Event})
	if err != nil {
		return nil, errors.Join(err, eng.Close(ctx))
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.mu.Lock()
	l.engine, l.job, l.cancel, l.cacheDir = eng, j, cancel, d.CacheDir
	l.mu.Unlock()
	go func() {
		defer close(l.done)
		l.result, l.err = j.Run(run)
	}()
	return j, nil
}

// running is the job, or why there is none.
func (l *Local) running() (*job.Job, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.job == nil {
		return nil, errNothing
	}
	return l.job, nil
}

// compile reads and compiles a node's module, which is looked for beside the pipeline file.
func compile(ctx context.Context, eng *engine.Engine, g *operators.Graph, n *operators.Node) (guestop.Module, error) {
	path := n.Guest.Module
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(g.File), path)
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("operator %q: module: %w", n.ID, err)
	}
	m, err := eng.Compile(ctx, wasm, n.Guest.Describe)
	if err != nil {
		return nil, fmt.Errorf("operator %q: module %s: %w", n.ID, n.Guest.Module, err)
	}
	if want := n.Guest.Digest; want != "" && want != m.Digest() {
		return nil, fmt.Errorf("operator %q: module %s has digest %s, expected %s: it changed since it was checked", n.ID, n.Guest.Module, m.Digest(), want)
	}
	return m, nil
}

// Stats implements Worker.
func (l *Local) Stats(ctx context.Context) (job.Stats, error) {
	j, err := l.running()
	if err != nil {
		return job.Stats{}, err
	}
	s := j.Stats()
	s.Operators = j.Operators(ctx)
	return s, nil
}

// Barrier implements Worker.
func (l *Local) Barrier(ctx context.Context) (checkpoint.ID, error) {
	j, err := l.running()
	if err != nil {
		return 0, err
	}
	return j.Checkpoint(ctx)
}

// Savepoint implements Worker.
func (l *Local) Savepoint(ctx context.Context, r job.SavepointRequest) (job.Savepoint, error) {
	j, err := l.running()
	if err != nil {
		return job.Savepoint{}, err
	}
	return j.Savepoint(ctx, r)
}

// ChangeSnapshots implements Worker.
func (l *Local) ChangeSnapshots(ctx context.Context, c storechange.Change) (storechange.Changed, error) {
	j, err := l.running()
	if err != nil {
		return storechange.Changed{}, err
	}
	return j.ChangeSnapshots(ctx, c)
}

// Stop implements Worker.
func (l *Local) Stop(_ context.Context, s Stop) error {
	j, err := l.running()
	switch {
	case err != nil:
		return err
	case s.Now:
		l.cancel()
	default:
		j.Stop()
	}
	return nil
}

// Wait implements Worker.
func (l *Local) Wait(ctx context.Context) (job.Result, error) {
	if _, err := l.running(); err != nil {
		return job.Result{}, err
	}
	select {
	case <-l.done:
		return l.result, l.err
	case <-ctx.Done():
		return job.Result{}, ctx.Err()
	}
}

// Close ends the pipeline at once if it still runs and frees everything. No Deploy may be under way.
func (l *Local) Close() error {
	var err error
	l.once.Do(func() {
		l.mu.Lock()
		l.taken = true // nothing more can be deployed
		l.mu.Unlock()
		if l.job == nil {
			return
		}
		l.cancel()
		<-l.done
		err = errors.Join(l.job.Close(), l.engine.Close(context.Background()))
	})
	return err
}

var errNothing = errors.New("this worker runs no pipeline")

// Engines a Deploy may name.
const (
	EngineCompiler    = "wazero"
	EngineInterpreter = "wazero-interpreter"
	EngineWasmtime    = "wasmtime" // in builds with that tag
)

var (
	_ Worker    = (*Local)(nil)
	_ io.Closer = (*Local)(nil)
)
