// Package operators holds the dataflow: the pipeline file, the job graph, and the operators, sources and
// sinks that the graph is made of. An operator runs in one task; it knows nothing of engines or threads.
package operators

import (
	"context"
	"log/slog"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state"
)

// Output numbers of Collector.Emit. 0 is the main output, 1.. are the side outputs in declared order.
const (
	OutputMain       = 0
	OutputDeadLetter = 255 // records that the error policy sends away
)

// Collector takes what an operator emits.
type Collector interface {
	// Emit hands on a batch of an output. b is borrowed for the call: the receiver copies what it keeps.
	// Watermark marks travel on every output; the caller puts the same marks on each.
	Emit(output int, b *abi.Batch) error
}

// Context is what an operator gets from its task. It is valid until Close.
type Context struct {
	context.Context
	Job         string
	Operator    string // id from the pipeline file
	Task        int    // 0 <= Task < Parallelism
	Parallelism int
	Range       state.Range // slots the task owns
	Hasher      state.Hasher
	Clock       Clock
	Log         *slog.Logger
	WorkDir     string        // scratch of this operator in this task: emptied at start
	StageDir    string        // sinks: where unpublished output is staged; survives restarts
	Objects     state.Objects // the job's snapshot store
	Budget      int64         // bytes of off-heap memory for keyed state
	StateKind   string        // "memory" or "disk"
	Batch       int           // records per batch, at most
	// Restored is what all tasks of this operator left in the checkpoint to start from, in task order,
	// possibly of another parallelism: the operator takes what falls into Range (or its splits). Empty:
	// a fresh start.
	Restored []checkpoint.OperatorSnapshot
	// Snapshot is the one that Restored is of; 0: none.
	Snapshot checkpoint.ID
	// Withdraw lets a sink take back what this job published after Restored: somebody chose to start from an
	// older checkpoint than the last.
	Withdraw bool
	// Held is the barrier behind which code is on probation: a sink does not publish what Restored has staged behind it,
	// but keeps it for the next checkpoints; 0: there is none.
	Held checkpoint.ID
	// Group is what the tasks of a source share; nil: it is alone.
	Group *SourceGroup
	// Skips are records that an earlier attempt could not do and could not undo: the error policy gets them.
	Skips []Skip
	// Punctuator makes what runs the source's watermark function; nil: it has none.
	Punctuator func(*Context) (Punctuator, error)
	// Describe names a source position for people; never nil.
	Describe func(p abi.Position) string
	// Crash is a named crash point hook: a no-op unless built with the crash tag.
	Crash func(point string)
}

// Skip is a record, or timer, of one operator that the error policy gets when it comes again.
type Skip struct {
	Operator string
	Pos      abi.Position
	Hash     uint64 // of key, value and time
	Cause    error  // its fault
}

// Clock is the wall clock, injected.
type Clock interface {
	// NowMS is the processing time in ms since 1970.
	NowMS() int64
}

// Operator is the logic of one node in one task. All methods are called by the task's goroutine.
type Operator interface {
	Open(ctx *Context) error
	// Batch handles a batch of one input. Its marks are already merged over the task's channels. The
	// operator emits what follows from the batch, marks included, before it returns. It may change b.
	Batch(input int, b *abi.Batch, out Collector) error
	Close() error
}

// Snapshotter is an operator that has something to put into a checkpoint.
type Snapshotter interface {
	// Barrier makes the cut: it must return within a fraction of a millisecond and leave the writing to
	// the background.
	Barrier(b checkpoint.Barrier) (Pending, error)
	// Step does a bounded piece of what the cut left to the task's goroutine; busy: more is left.
	Step() (busy bool, err error)
	// Complete says that checkpoint id is durable: sinks commit everything staged up to it. Calls may be
	// missing or repeated, and come in any order (C028).
	Complete(id checkpoint.ID) error
}

// Holder is a Snapshotter that does something else than Complete where output is held back: code is on probation.
// The Complete of a later checkpoint means this one too.
type Holder interface {
	Held(id checkpoint.ID) error
}

// Pending is a cut being written.
type Pending interface {
	Done() <-chan struct{}
	// Result is valid after Done.
	Result() (checkpoint.OperatorSnapshot, error)
}

// ProcessingTimer is an operator with processing-time timers.
type ProcessingTimer interface {
	// NextProcessing is when it wants to be called, ms; false: not at all.
	NextProcessing() (atMS int64, ok bool)
	// OnProcessingTime fires what is due at now.
	OnProcessingTime(nowMS int64, out Collector) error
}

// PollStatus says how a poll went.
type PollStatus int

// What Poll returns.
const (
	PollMore PollStatus = iota // there may be more at once
	PollIdle                   // nothing now: wait for Ready
	PollEnd                    // all splits are finished for good
)

// Source reads splits. It appends records with event time, key (if the plan wants one), value and
// position, and its watermark marks at places that the data fixes. It never blocks in Poll.
type Source interface {
	// Open gets the splits' positions of the checkpoint in ctx.Restored.
	Open(ctx *Context) error
	// Poll appends at most max records to b, and marks. It ends a batch early rather than wait.
	Poll(b *abi.Batch, max int) (PollStatus, error)
	// Ready has a value when a source that was idle may have something. Nil if it is never idle.
	Ready() <-chan struct{}
	// Positions is where each split stands, for the checkpoint. Called between polls.
	Positions() []checkpoint.SplitPosition
	// Describe names the split and offset of a position for people: "flights.ndjson:17 (byte 4711)".
	Describe(p abi.Position) string
	Close() error
}

// Promise is what a source or sink promises.
type Promise string

// Delivery promises, as `explain` prints them.
const (
	PromiseExactlyOnce Promise = "exactly-once"
	PromiseAtLeastOnce Promise = "at-least-once"
	PromiseLossy       Promise = "loses what arrived since the last checkpoint"
)
