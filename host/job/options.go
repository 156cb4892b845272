package job

import (
	"context"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/state"
)

// Options of a job.
type Options struct {
	Graph    *operators.Graph
	StateDir string        // snapshots, staged output and scratch
	Fresh    bool          // forget state and staged output; published output stays
	Restore  checkpoint.ID // start from this one, withdrawing later ones; 0: the newest
	Drop     []string      // operators whose orphaned state may be dropped
	// RetryRefused lets modules run again that were taken out after an upgrade.
	RetryRefused bool
	// Module compiles the module of a guest node; called once per node, the results are closed by the job.
	Module func(ctx context.Context, n *operators.Node) (guestop.Module, error)
	// Compile compiles a module that the snapshot store holds, described by describe if it does not describe itself
	// (nil: it does). Nil: what needs the code of a snapshot is refused.
	Compile func(ctx context.Context, wasm []byte, describe *abi.Descriptor) (guestop.Module, error)
	// Source and Operator make a native node's source or operator, once per task. Nil: by the node's
	// connector, with Connect. They are for graphs built in code and for tests.
	Source   func(n *operators.Node) (operators.Source, error)
	Operator func(n *operators.Node) (operators.Operator, error)
	// Guest makes what runs a guest node in one task, and which guestop.Op it is or has inside; nil: guestop.New.
	Guest func(n *operators.Node, cfg guestop.Config) (operators.Operator, *guestop.Op)
	// Window makes what runs a window node in one task, out of its operator; nil: that itself.
	Window  func(n *operators.Node, op *window.Op) operators.Operator
	Connect connect.Env
	// Remote opens the mirror that the pipeline file names; nil: OpenRemote with Secrets.
	Remote  func(s *operators.StoreSettings, job string) (*Remote, error)
	Secrets Secrets
	// SnapshotFS and StateFS are the disks of the snapshot store and of state; nil: the machine's.
	SnapshotFS snapstore.FS
	StateFS    state.FS
	Clock      clock.Clock
	// Clocks gives, per task and start, what the clock did over a stretch that begins with the snapshot that the job
	// starts from: clocklog.Stretch.Reader. The tasks do that again instead of looking at Clock, and go on by Clock behind
	// it, or stand still with Reader.Hold. Nil, or a nil reader: by Clock from the start. Graph needs the operators and
	// parallelism of the job that was logged. The job fails with clocklog.ErrMissing where an operator looks at the clock
	// and has no log, with task.ErrOtherInput where the records are not those that were logged, and with ErrRepeatOnce
	// instead of a restart behind a checkpoint of its own.
	Clocks func(id task.ID) *clocklog.Reader
	Log    *slog.Logger // nil: none
	Event  func(Event)  // called from the job's goroutine; nil: none
	// Restarts bounds how often the job starts again after faults of the host without having completed a
	// checkpoint in between. 0: the default, -1: never.
	Restarts int
}

func (o *Options) defaults() {
	if o.Guest == nil {
		o.Guest = func(_ *operators.Node, cfg guestop.Config) (operators.Operator, *guestop.Op) {
			op := guestop.New(cfg)
			return op, op
		}
	}
	if o.Window == nil {
		o.Window = func(_ *operators.Node, op *window.Op) operators.Operator { return op }
	}
	if o.Remote == nil {
		from := o.Secrets
		o.Remote = func(s *operators.StoreSettings, job string) (*Remote, error) { return OpenRemote(s, job, from) }
	}
	if o.Source == nil {
		env := o.Connect
		o.Source = func(n *operators.Node) (operators.Source, error) { return connect.Source(n, env) }
	}
	if o.Operator == nil {
		env := o.Connect
		o.Operator = func(n *operators.Node) (operators.Operator, error) { return connect.Operator(n, env) }
	}
}

// Restart delays: exponential, reset by progress.
const (
	defaultRestarts = 8
	restartFirst    = time.Second
	restartFactor   = 1.5
	restartMost     = time.Minute
)

// EventKind is the kind of an Event.
type EventKind string

// Kinds of events, for people and for whoever watches the job.
const (
	EventStarted    EventKind = "started"
	EventRestored   EventKind = "restored"
	EventCheckpoint EventKind = "checkpoint"
	EventAborted    EventKind = "checkpoint_aborted"
	EventRestarting EventKind = "restarting"
	EventSkipped    EventKind = "incomplete_checkpoint_skipped"
	EventNote       EventKind = "note"
	EventUpgraded   EventKind = "upgraded"    // a change is in force, on trial until the next checkpoint
	EventRolledBack EventKind = "rolled_back" // a change was taken back
)

// Event is something that happened to the job. It is serialisable.
type Event struct {
	Kind       EventKind     `json:"kind"`
	Checkpoint checkpoint.ID `json:"checkpoint,omitempty"`
	Message    string        `json:"message,omitempty"`
	Millis     int64         `json:"ms,omitempty"`    // how long it took
	Bytes      int64         `json:"bytes,omitempty"` // written
}

// Result says how a job ended. It is serialisable.
type Result struct {
	// Complete: the input ended and everything is committed. Already: it was so before this run.
	Complete   bool          `json:"complete"`
	Already    bool          `json:"already,omitempty"`
	Stopped    bool          `json:"stopped,omitempty"` // by request, with a checkpoint to go on from
	Checkpoint checkpoint.ID `json:"checkpoint"`
	Restarts   int           `json:"restarts,omitempty"`
	Stats      Stats         `json:"stats"`
	Warnings   []string      `json:"warnings,omitempty"` // why there may be less output than expected
}
