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
	Clock   clock.Clock // nil: the machine's
}

// Local is a worker in this process.
type Local struct {
	opts   Options
	engine *engine.Engine
	job    *job.Job
	cancel context.CancelFunc

	once   sync.Once
	done   chan struct{}
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

// Deploy implements Worker.
func (l *Local) Deploy(ctx context.Context, d Deploy) error {
	if l.job != nil {
		return errors.New("this worker already runs a pipeline")
	}
	eng, err := engine.New(ctx, engine.Options{CacheDir: d.CacheDir, Interpreter: d.Engine == EngineInterpreter})
	if err != nil {
		return err
	}
	l.engine = eng
	j, err := job.New(ctx, job.Options{Graph: d.Graph, StateDir: d.StateDir, Fresh: d.Fresh, Restore: d.Restore, Drop: d.Drop,
		Module: func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
			return l.compile(ctx, d.Graph, n)
		},
		Connect: l.opts.Connect, Clock: l.opts.Clock, Log: l.opts.Log, Event: l.opts.Event})
	if err != nil {
		return errors.Join(err, eng.Close(ctx))
	}
	l.job = j
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l.cancel = cancel
	go func() {
		defer close(l.done)
		l.result, l.err = j.Run(run)
	}()
	select {
	case <-j.Ready():
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// compile reads and compiles a node's module, which is looked for beside the pipeline file.
func (l *Local) compile(ctx context.Context, g *operators.Graph, n *operators.Node) (guestop.Module, error) {
	path := n.Guest.Module
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(g.File), path)
	}
	wasm, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("operator %q: module: %w", n.ID, err)
	}
	m, err := l.engine.Compile(ctx, wasm, n.Guest.Describe)
	if err != nil {
		return nil, fmt.Errorf("operator %q: module %s: %w", n.ID, n.Guest.Module, err)
	}
	if want := n.Guest.Digest; want != "" && want != m.Digest() {
		return nil, fmt.Errorf("operator %q: module %s has digest %s, expected %s: it changed since it was checked", n.ID, n.Guest.Module, m.Digest(), want)
	}
	return m, nil
}

// Stats implements Worker.
func (l *Local) Stats(context.Context) (job.Stats, error) {
	if l.job == nil {
		return job.Stats{}, errNothing
	}
	return l.job.Stats(), nil
}

// Stop implements Worker.
func (l *Local) Stop(_ context.Context, s Stop) error {
	if l.job == nil {
		return errNothing
	}
	if s.Now {
		l.cancel()
	} else {
		l.job.Stop()
	}
	return nil
}

// Wait implements Worker.
func (l *Local) Wait(ctx context.Context) (job.Result, error) {
	if l.job == nil {
		return job.Result{}, errNothing
	}
	select {
	case <-l.done:
		return l.result, l.err
	case <-ctx.Done():
		return job.Result{}, ctx.Err()
	}
}

// Close ends the pipeline at once if it still runs and frees everything.
func (l *Local) Close() error {
	var err error
	l.once.Do(func() {
		if l.job != nil {
			l.cancel()
			<-l.done
			err = l.job.Close()
		}
		if l.engine != nil {
			err = errors.Join(err, l.engine.Close(context.Background()))
		}
	})
	return err
}

var errNothing = errors.New("this worker runs no pipeline")

// Engines a Deploy may name.
const (
	EngineCompiler    = "wazero"
	EngineInterpreter = "wazero-interpreter"
)

var (
	_ Worker    = (*Local)(nil)
	_ io.Closer = (*Local)(nil)
)
