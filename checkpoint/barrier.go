// Package checkpoint makes consistent snapshots: barriers and their alignment (a pure state machine),
// the coordinator, the manifest and the content-addressed store.
package checkpoint

// ID numbers the checkpoints of a job, from 1, rising, never reused (aborted ones leave gaps).
type ID uint64

// Barrier is the cut that travels through the stream: everything before it belongs to the checkpoint.
type Barrier struct {
	ID ID
	// Final: the job stops after this one (end of input, or a stop asked for).
	Final bool
}
