package state

import "context"

// Run is one immutable, checksummed run file of a snapshot: entries of one state in hash order.
type Run struct {
	Object string `json:"object"` // SHA-256 of the file, hex; its name in the snapshot store
	Size   int64  `json:"size"`   // bytes
	Lo     uint64 `json:"lo"`     // hashes for which the run counts here, Hi inclusive; the file may hold others
	Hi     uint64 `json:"hi"`
	Count  uint64 `json:"count"` // entries of the file, tombstones included
}

// StateSnapshot is one state of one task at one barrier: its runs, newest first within each hash range.
type StateSnapshot struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // value, map, list, timers
	Version int    `json:"version"`
	Runs    []Run  `json:"runs"`
	// TTL: the entries begin with a stamp; nil: they do not.
	TTL *TTLNote `json:"ttl,omitempty"`
}

// Snapshot is all keyed state of one operator in one task at one barrier.
type Snapshot struct {
	Range  Range           `json:"range"`
	States []StateSnapshot `json:"states"`
}

// Objects is what the backend needs of a snapshot store. Paths are files of the local disk.
type Objects interface {
	// AddFile takes over a finished, fsynced file under its digest (by link or rename) and returns the
	// digest. Adding a digest that is there is no error. The file at path may be removed afterwards.
	AddFile(ctx context.Context, path string) (digest string, size int64, err error)
	// Path is where the object can be opened or mapped for reading.
	Path(ctx context.Context, digest string) (string, error)
}

// Frozen is a barrier's cut that is being written. Task goroutine: Backend.Step until it says done.
type Frozen interface {
	// Done is closed when Result is there.
	Done() <-chan struct{}
	// Result is the snapshot, or why it could not be written. Only after Done.
	Result() (Snapshot, error)
}

// Keyed is the keyed state of one operator in one task.
type Keyed interface {
	// Value and Ordered return the state of descriptor i; the kind must fit.
	Value(i int) Value
	Ordered(i int) Ordered
	Timers() Timers
	// Freeze cuts at a barrier, in about a microsecond. The previous cut must be Done (or Aborted).
	Freeze() (Frozen, error)
	// Step does a bounded piece (about 100 us) of the copying that a freeze left to the task, between
	// batches. Busy says that more is left.
	Step() (busy bool, err error)
	// Committed says that the cut is part of a complete checkpoint, so the objects of older cuts that it
	// no longer names are not needed by this backend any more.
	Committed(Snapshot)
	// Stats are for people.
	Stats() Stats
	Close() error
}

// Stats says how much a backend holds.
type Stats struct {
	Entries    int64 // in memory
	MemBytes   int64 // off heap, of the budget
	ColdBytes  int64 // in runs and Pebble
	Timers     int64
	Evictions  int64
	ColdReads  int64
	OpenIters  int64
	MergeBytes int64
}
