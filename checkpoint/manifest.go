package checkpoint

import (
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/memimage"
)

// FormatVersion is the version of manifests this build writes; it reads all from 1 on. Format 2 added the
// kind, the digest of the parent, the origin and signatures; a parent of format 1 is what a run started from.
const FormatVersion = 2

// Kind says what a snapshot is for.
type Kind string

// The kinds of snapshots. All are complete cuts, and a restart goes on from the newest of any kind.
const (
	// KindCheckpoint is made for recovery and expires by retention.
	KindCheckpoint Kind = ""
	// KindSavepoint was asked for: it never expires, does not count for retention and replaces no checkpoint.
	KindSavepoint Kind = "savepoint"
)

// String is "checkpoint" or "savepoint".
func (k Kind) String() string {
	if k == KindCheckpoint {
		return "checkpoint"
	}
	return string(k)
}

// Origin is where the first snapshot of a fork comes from.
type Origin struct {
	Job    string `json:"job"`
	ID     ID     `json:"id"`
	SHA256 string `json:"sha256"` // of its manifest file
}

// Manifest is a complete snapshot: written last, fsynced, renamed into place. It names every object
// with its digest, whoever added it, and carries a checksum of itself: it needs no other manifest.
type Manifest struct {
	Format    int         `json:"format"`
	ID        ID          `json:"id"`
	Kind      Kind        `json:"kind,omitempty"`
	Parent    ID          `json:"parent,omitempty"`        // the snapshot before it, 0: none
	ParentSHA string      `json:"parent_sha256,omitempty"` // of the parent's manifest file
	Origin    *Origin     `json:"origin,omitempty"`        // of a fork's first snapshot
	Job       string      `json:"job"`                     // pipeline name
	CreatedMS int64       `json:"created_ms"`
	Engine    string      `json:"engine"`           // version of millrace that wrote it
	Seed      uint64      `json:"seed,string"`      // of the key hash
	Slots     int         `json:"slots"`            // always state.Slots; another number is refused
	Finished  bool        `json:"finished"`         // input ended and everything is in here
	Pipeline  string      `json:"pipeline"`         // digest object of the pipeline file as run
	Modules   []ModuleRef `json:"modules"`          // every module in use
	States    []StateRef  `json:"states,omitempty"` // as the operators declare them
	Canary    *Canary     `json:"canary,omitempty"` // that was on; nil: none
	// Probation is that of the code that left this snapshot; nil: none.
	Probation   *Probation       `json:"probation,omitempty"`
	Next        *Next            `json:"next,omitempty"` // in force behind this barrier; nil: what is above
	Tasks       []TaskSnapshot   `json:"tasks"`          // one per (operator chain, task)
	Extra       map[string]int64 `json:"extra,omitempty"`
	StoredBytes int64            `json:"stored_bytes"` // new bytes this checkpoint added
}

// Next is the code that takes over at a barrier. It is in the manifest of that barrier's checkpoint, whose
// state the code before it left: once the manifest is there, the change has happened; before, it has not.
type Next struct {
	Pipeline string      `json:"pipeline"` // digest object of the pipeline file
	Modules  []ModuleRef `json:"modules"`  // every module in use
	Canary   *Canary     `json:"canary,omitempty"`
	// Probation begins behind the barrier; nil: what the new code puts out is published as ever.
	Probation *Probation `json:"probation,omitempty"`
}

// InForce is what runs behind the checkpoint's barrier.
func (m *Manifest) InForce() Next {
	if m.Next != nil {
		return *m.Next
	}
	return m.Before()
}

// Before is what ran before the checkpoint's barrier: it left the state.
func (m *Manifest) Before() Next {
	return Next{Pipeline: m.Pipeline, Modules: m.Modules, Canary: m.Canary}
}

// ModuleRef binds an operator to the module it ran.
type ModuleRef struct {
	Operator string `json:"operator"`
	Digest   string `json:"digest"` // SHA-256 of the original module
	Path     string `json:"path"`
	Size     int64  `json:"size,omitempty"` // bytes of its object in the snapshot store; 0: not stored
}

// TaskSnapshot is what one task acknowledged at a barrier.
type TaskSnapshot struct {
	Vertex      string             `json:"vertex"` // id of the chain's first operator
	Task        int                `json:"task"`
	Parallelism int                `json:"parallelism"`
	Finished    bool               `json:"finished,omitempty"` // the task had ended before the barrier
	Watermarks  []int64            `json:"watermarks"`         // of each input channel, in channel order
	Idle        []bool             `json:"idle,omitempty"`     // of each input channel; empty: none is
	Ahead       uint64             `json:"ahead,omitempty"`    // how far the task's watermark is ahead of the least of them, ms
	Operators   []OperatorSnapshot `json:"operators"`
	Channels    []ChannelState     `json:"channels,omitempty"` // records in flight; empty with aligned barriers
	// Clock is what the clock did to the task since the snapshot before, for a replay; nil: nothing that matters.
	Clock *ClockLog `json:"clock,omitempty"`
}

// ClockLog is a log of package host/clocklog: in the manifest if it is short, else an object.
type ClockLog struct {
	Data   []byte `json:"data,omitempty"`
	Object string `json:"object,omitempty"` // digest; "": it is Data
	Size   int64  `json:"size"`             // bytes
}

// OperatorSnapshot is one operator of a task's chain.
type OperatorSnapshot struct {
	Operator string          `json:"operator"`
	Keyed    *state.Snapshot `json:"keyed,omitempty"`
	// Memory is what the variables of a guest's instance were, of a module with snapshot: memory.
	Memory  *memimage.Snapshot `json:"memory,omitempty"`
	Splits  []SplitPosition    `json:"splits,omitempty"`  // sources
	Staged  []StagedFile       `json:"staged,omitempty"`  // sinks: to publish once this manifest is there
	Data    []byte             `json:"data,omitempty"`    // small private state
	Numbers map[string]int64   `json:"numbers,omitempty"` // counters that belong to the snapshot
}

// SplitPosition is where a source stands in a split, with what its watermark generator needs.
type SplitPosition struct {
	Split    string `json:"split"`  // stable name: path, or generator range
	Index    uint32 `json:"index"`  // number used in record positions
	Offset   int64  `json:"offset"` // source-defined: bytes, rows, records
	Ordinal  int64  `json:"ordinal"`
	MaxTime  int64  `json:"max_time"`
	Mark     int64  `json:"mark"` // last watermark emitted
	Finished bool   `json:"finished"`
	Idle     bool   `json:"idle,omitempty"`     // the watermark does without it
	Ahead    uint64 `json:"ahead,omitempty"`    // how far the task's watermark was ahead of Mark, ms
	Identity string `json:"identity,omitempty"` // detects changed input: size, hash of the first block
}

// StagedFile is an output that is complete and durable under Staged and visible once renamed to Final.
type StagedFile struct {
	Staged  string `json:"staged"`
	Final   string `json:"final"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Records int64  `json:"records"`
	Cut     ID     `json:"cut,omitempty"` // the barrier that ended it; 0: not known, an older build's
}

// ChannelState is the place for records in flight on one input channel.
type ChannelState struct {
	Channel int    `json:"channel"`
	Object  string `json:"object"`
	Size    int64  `json:"size"`
}
