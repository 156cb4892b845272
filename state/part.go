package state

import "log/slog"

// Part is one state of a backend, or its timers: what Keyed freezes, limits and closes as one. A type
// that implements Ordered, Timers or Value for a backend implements Part too.
//
// Concurrency: the task's goroutine only. The Cut is for any goroutine.
type Part interface {
	// Freeze cuts in about a microsecond. The previous Cut is done. What the cut leaves to copy is done by
	// Step; its files are written in the background.
	Freeze() (Cut, error)
	// Step does a bounded piece (about 100 us) of what a cut, growth or eviction left to the task.
	Step() (busy bool, err error)
	// Committed says that the snapshot, a Result of a Cut of this part, is in a complete checkpoint.
	Committed(StateSnapshot)
	// Limit sets the part's share of the budget, bytes off heap. The part obeys it in its next calls if
	// it can spill (PartConfig.Cold), else ignores it.
	Limit(bytes int64)
	// Stats are cheap; MemBytes is what counts against the limit.
	Stats() Stats
	// Close waits for background work, aborts a cut that is not done, frees memory, unmaps files. Files
	// that no snapshot took over are removed.
	Close() error
}

// Cut is one part of a Frozen.
type Cut interface {
	// Done is closed when Result is there.
	Done() <-chan struct{}
	// Result is the part's snapshot: all runs that are live at the cut, newest first within each hash.
	// After an error nothing is lost: the next cut holds what this one should have held.
	Result() (StateSnapshot, error)
}

// PartConfig is what a backend gives to a part when it opens it.
type PartConfig struct {
	Operator   string
	Descriptor Descriptor // of timers: Name "timers", Kind "timers"
	Range      Range      // slots this task owns; keys of others never come
	Hasher     Hasher
	Dir        string // folder of the part's local files: exists, empty, of this part alone
	Cold       bool   // backend "disk": beyond the limit the part spills. Else all stays in memory
	Limit      int64  // bytes off heap at first; see Part.Limit
	FS         FS
	Objects    Objects
	Restore    []RestorePart
	Log        *slog.Logger // never nil
}

// RestorePart is one task's snapshot of the state that is restored. Its runs hold this task's entries
// for hashes in Range, and within each run's Lo..Hi only; entries outside are to be ignored, as several
// tasks may name one object after a change of parallelism.
type RestorePart struct {
	Range    Range
	Snapshot StateSnapshot
}
