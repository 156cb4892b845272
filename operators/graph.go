package operators

import (
	"time"

	"github.com/millrace-io/millrace/abi"
)

// Graph is the job graph: a checked pipeline, every name resolved, every default filled in. It is
// serialisable: a worker in another process gets it as JSON.
type Graph struct {
	Name        string             `json:"name"`
	File        string             `json:"file"`     // where it came from, for messages
	Text        []byte             `json:"text"`     // the pipeline file as read
	Mode        string             `json:"mode"`     // ModeStream or ModeBatch
	ModeWhy     string             `json:"mode_why"` // for people
	Checkpoint  CheckpointSettings `json:"checkpoint"`
	MemoryBytes int64              `json:"memory_bytes"` // one budget for the pipeline
	StateKind   string             `json:"state"`        // "disk" (default) or "memory"
	BatchMax    int                `json:"batch"`        // records
	Linger      time.Duration      `json:"linger"`
	Nodes       []*Node            `json:"nodes"` // in an order in which inputs come first
}

// Modes of a job: what the settings that the file leaves open are chosen for. Results are the same.
const (
	ModeStream = "stream" // results soon, little to do again after a crash
	ModeBatch  = "batch"  // the input ends: what matters is when all of it is done
)

// CheckpointSettings say when checkpoints are made and how many are kept.
type CheckpointSettings struct {
	Interval time.Duration `json:"interval"` // 0: only the final one
	Timeout  time.Duration `json:"timeout"`
	Retain   int           `json:"retain"`
	// Probation is for how many checkpoints behind an upgrade output is held back; 0: for none.
	Probation int `json:"probation,omitempty"`
	// Store is where copies of snapshots go; nil: nowhere.
	Store *StoreSettings `json:"store,omitempty"`
}

// NodeKind is the kind of a node.
type NodeKind string

// Kinds of nodes.
const (
	NodeSource NodeKind = "source"
	NodeGuest  NodeKind = "guest" // map, filter, flat_map, process
	NodeKeyBy  NodeKind = "key_by"
	NodeUnion  NodeKind = "union"
	NodeWindow NodeKind = "window"
	NodeSink   NodeKind = "sink"
)

// Node is one operator of the graph.
type Node struct {
	ID          string   `json:"id"`
	Kind        NodeKind `json:"kind"`
	Line        int      `json:"line"` // in the pipeline file
	Parallelism int      `json:"parallelism"`
	Inputs      []Edge   `json:"inputs"`
	// PushedInto is set on a key_by whose work its source does while decoding. Such a node runs nowhere:
	// those behind it have their inputs at the source itself. It stays for people to see.
	PushedInto string `json:"pushed_into,omitempty"`
	// Keyed: records of the main output have a key and batches their hashes. A keyed guest behind it
	// needs each key in one task.
	Keyed bool `json:"keyed,omitempty"`
	// Hidden: made by the parser (a dead-letter sink), not written by the user.
	Hidden bool        `json:"hidden,omitempty"`
	Schema []abi.Field `json:"schema,omitempty"` // of the main output's values; empty: raw bytes
	Source *SourceNode `json:"source,omitempty"`
	Guest  *GuestNode  `json:"guest,omitempty"`
	KeyBy  *KeyByNode  `json:"key_by,omitempty"`
	Sink   *SinkNode   `json:"sink,omitempty"`
	Window *WindowNode `json:"window,omitempty"`
}

// Edge says where an input comes from.
type Edge struct {
	From   string `json:"from"`
	Output int    `json:"output"` // 0 main, 1.. side outputs, OutputDeadLetter
}

// SourceNode configures a source. Connector-specific settings are in the connector's own struct, of
// which exactly one is set.
type SourceNode struct {
	Connector string          `json:"connector"`        // file, stdin, tcp, generator
	Format    string          `json:"format"`           // ndjson, csv, parquet, lines, binary
	Fields    []abi.Field     `json:"fields,omitempty"` // declared; the node's Schema has those in use
	Time      *TimeSettings   `json:"time,omitempty"`
	Key       *KeyByNode      `json:"key,omitempty"` // pushed down by the planner from the next key_by
	File      *FileSource     `json:"file,omitempty"`
	TCP       *TCPSource      `json:"tcp,omitempty"`
	Generator *GeneratorSpec  `json:"generator,omitempty"`
	OnError   *ErrorPolicy    `json:"on_error,omitempty"` // for lines that don't parse
	Options   map[string]bool `json:"options,omitempty"`  // format options: csv header ...
	// NaturalKey: the records have a key of their own (generator).
	NaturalKey bool `json:"natural_key,omitempty"`
}

// TimeSettings say where event time comes from and how the watermark follows it.
type TimeSettings struct {
	Source         string        `json:"source,omitempty"` // TimeFromField (""), TimeIngestion, TimeProcessing
	Field          string        `json:"field"`
	Unit           string        `json:"unit"`                 // ms (default), s, us, ns, or rfc3339; text and Parquet timestamps know theirs
	Watermarks     string        `json:"watermarks,omitempty"` // WatermarksBounded (""), WatermarksMonotonic, WatermarksNone, WatermarksPunctuated
	OutOfOrderness time.Duration `json:"out_of_orderness"`     // WatermarksBounded only
	Quantum        time.Duration `json:"quantum"`              // default 100 ms
	// Idle is how long a split gives nothing, though it is read to its present end, until the watermark
	// does without it; 0: it waits for ever.
	Idle time.Duration `json:"idle,omitempty"`
	// MaxFutureSkew bounds how far ahead of the clock a time may be to move the watermark; 0: no bound.
	MaxFutureSkew time.Duration `json:"max_future_skew,omitempty"`
	// OnFuture says what becomes of records beyond it; an empty policy: they are kept.
	OnFuture ErrorPolicy `json:"on_future,omitzero"`
	// Align bounds how much event time a split may be ahead of the source's slowest one; 0: no bound.
	Align time.Duration `json:"align,omitempty"`
	// Punctuate is the function of WatermarksPunctuated; its faults are for the source's OnError.
	Punctuate *GuestNode `json:"punctuate,omitempty"`
}

// Where the time of records comes from.
const (
	TimeFromField = ""          // of the record
	TimeIngestion = "ingestion" // the clock when the source takes the record; another one after a replay
	// TimeProcessing: records have none, operators go by their own clock.
)

// Watermark generators.
const (
	WatermarksBounded   = ""          // OutOfOrderness behind the greatest time
	WatermarksMonotonic = "monotonic" // a split's times never fall
	WatermarksNone      = "none"      // only the end of input
	// WatermarksPunctuated: a function of a module says it, record by record.
	WatermarksPunctuated = "punctuated"
)

// FileSource reads files: each is one split.
type FileSource struct {
	Dir    string   `json:"dir"`    // folder of the pipeline file, absolute; Paths are relative to it
	Paths  []string `json:"paths"`  // globs, expanded in sorted order at the first start
	Follow bool     `json:"follow"` // unbounded: waits for more at the end of the last line
}

// TCPSource reads lines of a socket it connects to.
type TCPSource struct {
	Address string `json:"address"` // host:port
}

// GeneratorSpec makes records from a seed: record i is a function of (Seed, i).
type GeneratorSpec struct {
	Kind       string  `json:"kind"`    // payments, counter, sequence
	Records    int64   `json:"records"` // 0: unbounded
	Rate       float64 `json:"rate"`    // records/s of wall time, 0: as fast as taken
	Keys       int64   `json:"keys"`
	ValueBytes int     `json:"value_bytes"`
	Seed       uint64  `json:"seed"`
	StepMS     int64   `json:"step_ms"`  // event time between records
	StartMS    int64   `json:"start_ms"` // event time of record 0
	Splits     int     `json:"splits"`   // each key is in one of them; fixed at the first start
}

// GuestNode runs a function of a module.
type GuestNode struct {
	Module    string           `json:"module"`           // path, relative to the pipeline file
	Digest    string           `json:"digest,omitempty"` // expected SHA-256, hex; empty: any
	Function  string           `json:"function"`
	Kind      abi.FunctionKind `json:"kind"`  // what the pipeline file called it
	Keyed     bool             `json:"keyed"` // the input is keyed
	OnError   ErrorPolicy      `json:"on_error"`
	Outputs   []string         `json:"outputs"`               // side outputs by number from 1, from the descriptor
	Describe  *abi.Descriptor  `json:"describe,omitempty"`    // given in the pipeline file when the module has none
	Memory    int64            `json:"memory_bytes"`          // of one instance
	Fuel      int64            `json:"fuel"`                  // per record
	Input     []abi.Field      `json:"input"`                 // schema of the values it gets; empty: raw
	Fn        *abi.Function    `json:"function_desc"`         // resolved descriptor of the function
	Clock     string           `json:"clock"`                 // what guests see as time: "event" (default) or "processing"
	Index     int              `json:"function_index"`        // of Fn in the descriptor
	Instances int              `json:"instances,omitempty"`   // of a module whose memory is state: the number of tasks, for good; 0: it is none
	Unchecked bool             `json:"unchecked,omitempty"`   // it is let in without being tried on fresh instances
	DropOld   []string         `json:"drop_states,omitempty"` // orphaned states that may be dropped
	TTL       []StateTTL       `json:"state_ttl,omitempty"`   // of the pipeline file; Fn has them already
}

// StateTTL is what a pipeline file says of a state's time to live; a nil TTL: what it holds stays.
type StateTTL struct {
	State string   `json:"state"`
	TTL   *abi.TTL `json:"ttl,omitempty"`
}

// ErrorPolicy says what happens to a record whose handling failed.
type ErrorPolicy struct {
	Policy string `json:"policy"` // stop (default), skip, dead_letter
}

// KeyByNode sets the key of a record.
type KeyByNode struct {
	ID     string   `json:"id"`     // of the key_by, also where it was pushed into a source
	Fields []string `json:"fields"` // one or more; more are joined self-delimiting
	Whole  bool     `json:"whole"`  // the whole value is the key
	// Null says what happens to a record without that field: stop, skip, dead_letter (C017).
	Null ErrorPolicy `json:"null"`
}

// SinkNode configures a sink.
type SinkNode struct {
	Connector string `json:"connector"`     // stdout, file, blackhole
	Dir       string `json:"dir,omitempty"` // folder of the pipeline file, absolute; Path is relative to it
	Path      string `json:"path,omitempty"`
	Single    bool   `json:"single"` // one file, published once at the end
	// Provenance: enveloped lines say which snapshot, split and offset they come from.
	Provenance bool        `json:"provenance,omitempty"`
	PartBytes  int64       `json:"part_bytes,omitempty"` // a part is closed at this size; 0: 64 MiB
	Envelope   bool        `json:"envelope,omitempty"`   // lines are {"key","value","time"}: null, empty and keys survive
	Format     string      `json:"format"`               // ndjson
	Input      []abi.Field `json:"input"`                // schema of the values; empty: raw bytes, one per line
	// DeadLetter: the records are wrapped with where and why.
	DeadLetter bool `json:"dead_letter"`
}
