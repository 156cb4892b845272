// Package worker is where guests run: everything a worker can be asked and everything it tells is a
// serialisable message, so that the worker may be in this process (Local) or in one of its own (Remote over
// a pair of pipes, served by Serve).
package worker

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/stateview"
)

// Deploy starts a pipeline. A worker runs one.
type Deploy struct {
	Graph    *operators.Graph `json:"graph"`
	StateDir string           `json:"state_dir"`
	CacheDir string           `json:"cache_dir,omitempty"` // of compiled modules
	Fresh    bool             `json:"fresh,omitempty"`
	Restore  checkpoint.ID    `json:"restore,omitempty"` // 0: the newest
	Drop     []string         `json:"drop,omitempty"`    // orphaned states to drop
	// RetryRefused lets modules run that were taken out after an upgrade.
	RetryRefused bool   `json:"retry_refused,omitempty"`
	LogLevel     string `json:"log_level,omitempty"`
	Engine       string `json:"engine,omitempty"` // wazero (default), wazero-interpreter; with the build tag, wasmtime
}

// Stop ends the pipeline: with a last checkpoint, or at once.
type Stop struct {
	Now bool `json:"now"`
}

// Worker runs one pipeline.
type Worker interface {
	// Deploy starts it and returns when all tasks run, or with why they don't.
	Deploy(ctx context.Context, d Deploy) error
	Stats(ctx context.Context) (job.Stats, error)
	// Barrier makes a checkpoint that starts after the call, and returns its id when it is complete.
	Barrier(ctx context.Context) (checkpoint.ID, error)
	// Savepoint is Barrier for a snapshot that does not expire; see job.Job.Savepoint.
	Savepoint(ctx context.Context, r job.SavepointRequest) (job.Savepoint, error)
	// ChangeSnapshots changes what the pipeline's snapshot store holds.
	ChangeSnapshots(ctx context.Context, c storechange.Change) (storechange.Changed, error)
	// Change puts another pipeline in place of the running one: other modules at a barrier while everything
	// goes on, other operators by a new start of the tasks, or an older snapshot with its code.
	Change(ctx context.Context, c Change) (Changed, error)
	// Canary gives part of the keys to other modules, puts them in force, or takes them out.
	Canary(ctx context.Context, c Canary) (CanaryDone, error)
	// Query gives a page of state; see job.Job.Query.
	Query(ctx context.Context, r stateview.Request) (stateview.Page, error)
	Stop(ctx context.Context, s Stop) error
	// Wait returns when the pipeline has ended.
	Wait(ctx context.Context) (job.Result, error)
	Close() error
}
