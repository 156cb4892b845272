package checkpoint

// Instant is the time of an event, given by the caller.
type Instant struct {
	MonoMS int64 // monotonic: intervals and time-outs
	WallMS int64 // since 1970: written into manifests only
}

// Event is something the coordinator hears of.
type Event interface{ event() }

// Tick says only that time has passed; see Coordinator.NextWake.
type Tick struct{}

// IDsReserved answers ReserveIDs: First to First+N-1 were never used before.
type IDsReserved struct {
	First ID
	N     int
	Err   error
}

// Ack is the snapshot of a task for checkpoint ID, durable but for the manifest.
type Ack struct {
	ID       ID
	Snapshot TaskSnapshot
}

// Decline says that a task could not make or write its snapshot.
type Decline struct {
	ID     ID
	Task   TaskID
	Reason error
}

// TaskFinished says that a task has handled the end of all its inputs (a source: of all its splits), with
// what it leaves behind: this stands for the task in every later checkpoint, and in the one under way if
// the task has not cut for that. A task that stops after a final barrier has not finished.
type TaskFinished struct {
	Snapshot TaskSnapshot
	// LastCut is the last checkpoint that the task cut for, 0 if none: its acknowledgement may come after
	// this, and what the task did since is no part of that checkpoint.
	LastCut ID
}

// ManifestWritten answers WriteManifest. Uncertain: it may be durable in spite of Err.
type ManifestWritten struct {
	ID        ID
	Err       error
	Uncertain bool
}

// Stop asks for a last checkpoint of the unfinished job, after which it stops. Savepoint: it is to be one.
type Stop struct{ Savepoint bool }

// Trigger asks for a checkpoint now: one that starts after this, so that one under way is finished first.
// Next, if set, is put into force at its barrier: that checkpoint is the last of the old code. One trigger
// with Next at a time.
//
// Savepoint: what it makes is to be a savepoint; who asks for a checkpoint meanwhile is served by it too.
type Trigger struct {
	Next      *Next
	Savepoint bool
}

// InputEnded says that all sources are at the end of their input and have sent what follows from it
// downstream, but wait for a final barrier instead of finishing. Where sources just finish, the finishing
// of all tasks does the same without it.
type InputEnded struct{}

func (Tick) event()            {}
func (IDsReserved) event()     {}
func (Ack) event()             {}
func (Decline) event()         {}
func (TaskFinished) event()    {}
func (ManifestWritten) event() {}
func (Stop) event()            {}
func (InputEnded) event()      {}
func (Trigger) event()         {}

// Effect is something the caller has to do for the coordinator, in the order given.
type Effect interface{ effect() }

// ReserveIDs asks for N new ids; answered by IDsReserved.
type ReserveIDs struct{ N int }

// InjectBarrier starts a checkpoint: every source task that has not finished sends the barrier. Next: what
// every task changes to at this barrier; they have to know before it is sent.
type InjectBarrier struct {
	Barrier Barrier
	Next    *Next
}

// AbortCheckpoint gives a checkpoint up: tasks stop aligning and drop what they made for it. Said once.
type AbortCheckpoint struct {
	ID     ID
	Reason error
}

// WriteManifest makes a checkpoint complete; answered by ManifestWritten.
type WriteManifest struct{ Manifest *Manifest }

// NotifyComplete says that a checkpoint is complete: every task is told, finished ones too, and sinks
// publish what is staged up to it: all cuts with this id or a lower one. What a sink left when it finished
// belongs to the first complete checkpoint above its last cut. Older checkpoints may be dropped now.
//
// Held: code is on probation, and sinks publish nothing of this checkpoint yet.
type NotifyComplete struct {
	ID   ID
	Held bool
}

// JobDone says that the last checkpoint is complete: the job stops. Finished: its input has ended.
type JobDone struct {
	ID       ID
	Finished bool
}

// FailJob says that the job cannot go on like this: it restarts from the last complete checkpoint.
type FailJob struct{ Reason error }

func (ReserveIDs) effect()      {}
func (InjectBarrier) effect()   {}
func (AbortCheckpoint) effect() {}
func (WriteManifest) effect()   {}
func (NotifyComplete) effect()  {}
func (JobDone) effect()         {}
func (FailJob) effect()         {}
