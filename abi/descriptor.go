package abi

import "strconv"

// DescriptorSection is the custom section in which a module describes itself, as JSON. A module whose
// toolchain can't write sections exports ExportDescribe instead.
const DescriptorSection = "mr.descriptor"

// FunctionKind says what a function of a module is for.
type FunctionKind string

// Kinds of functions that v0 hosts run.
const (
	FunctionMap     FunctionKind = "map"      // one record in, at most one out
	FunctionFlatMap FunctionKind = "flat_map" // one in, any number out
	FunctionFilter  FunctionKind = "filter"   // keeps or drops
	FunctionProcess FunctionKind = "process"  // keyed state, timers, side outputs
	// FunctionAggregate folds the records of a window: exactly one state, the accumulator, prefetched.
	FunctionAggregate FunctionKind = "aggregate"
	// FunctionWindow is called when a window fires, with its elements or the row of its aggregates.
	FunctionWindow FunctionKind = "window"
	// FunctionWatermark says behind which records of a source the watermark goes on: no keys, states, timers, outputs.
	FunctionWatermark FunctionKind = "watermark"
)

// Descriptor is what a module says of itself.
type Descriptor struct {
	ABI  int    `json:"abi"`            // 0
	Name string `json:"name,omitempty"` // of the module
	SDK  string `json:"sdk,omitempty"`  // "rust 0.1.0"
	// Snapshot says what of an instance belongs to a snapshot: nothing (default), or SnapshotMemory.
	Snapshot string `json:"snapshot,omitempty"`
	// Save and Load, with SnapshotMemory: the module exports ExportSave, by which a successor can get what its
	// variables mean, and ExportLoad, by which it takes over from one before it.
	Save      bool       `json:"save,omitempty"`
	Load      bool       `json:"load,omitempty"`
	Functions []Function `json:"functions"`
}

// SnapshotMemory in a descriptor: the instance's own variables, all of its linear memory, are state. Such
// functions are keyed and run in a fixed number of instances, each with slots of its own.
const SnapshotMemory = "memory"

// Function is one function a module offers.
type Function struct {
	Name    string            `json:"name"`
	Kind    FunctionKind      `json:"kind"`
	Keyed   bool              `json:"keyed,omitempty"`
	Input   []Field           `json:"input,omitempty"`   // typed row wanted; empty: raw bytes
	Output  []Field           `json:"output,omitempty"`  // typed row given on the main output; empty: raw bytes
	Outputs []string          `json:"outputs,omitempty"` // names of the side outputs, numbered from 1
	States  []StateDescriptor `json:"states,omitempty"`
	Timers  []string          `json:"timers,omitempty"` // "event", "processing"
	// Retracts says that an aggregate can take a record back.
	Retracts bool `json:"retracts,omitempty"`
}

// StateKind is the kind of a keyed state.
type StateKind string

// Kinds of keyed state.
const (
	StateValue StateKind = "value"
	StateList  StateKind = "list"
	StateMap   StateKind = "map"
)

// StateDescriptor declares one keyed state. Value states with 0 < MaxBytes <= MaxPrefetchBytes come with
// the batch; all others are reached by host calls. Numbered by their place in Function.States.
type StateDescriptor struct {
	Name     string    `json:"name"`
	Kind     StateKind `json:"kind"`
	Version  int       `json:"version,omitempty"`   // schema version
	MaxBytes int       `json:"max_bytes,omitempty"` // of one value; 0: MaxStateValueBytes
	TTL      *TTL      `json:"ttl,omitempty"`       // nil: what it holds stays
	// Schema describes values, or a list's elements; KeySchema a map's user keys. Nil: undescribed.
	Schema    *Schema `json:"schema,omitempty"`
	KeySchema *Schema `json:"key_schema,omitempty"`
}

// TTL is how long a value, an element of a list or an entry of a map lives after it was written.
type TTL struct {
	MS      int64  `json:"ms"`
	Domain  string `json:"domain,omitempty"`  // DomainNameEvent (default) or DomainNameProcessing: the clock it ages by
	Refresh string `json:"refresh,omitempty"` // RefreshWrite (default) or RefreshRead: what makes it young again
}

// Words of a TTL.
const (
	DomainNameEvent      = "event"
	DomainNameProcessing = "processing"
	RefreshWrite         = "write"
	RefreshRead          = "read" // reading as well
)

// Equal says whether two TTLs mean the same; nil: for ever.
func (t *TTL) Equal(o *TTL) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.MS == o.MS && (t.Domain == DomainNameProcessing) == (o.Domain == DomainNameProcessing) && (t.Refresh == RefreshRead) == (o.Refresh == RefreshRead)
}

// String is "1000 ms of event time since it was written".
func (t *TTL) String() string {
	if t == nil {
		return "ever"
	}
	domain, refresh := DomainNameEvent, "written"
	if t.Domain == DomainNameProcessing {
		domain = DomainNameProcessing
	}
	if t.Refresh == RefreshRead {
		refresh = "written or read"
	}
	return strconv.FormatInt(t.MS, 10) + " ms of " + domain + " time since it was " + refresh
}

// Check says what is wrong with t, "": nothing.
func (t *TTL) Check() string {
	switch {
	case t == nil:
		return ""
	case t.MS <= 0:
		return "a TTL is at least 1 ms"
	case t.Domain != "" && t.Domain != DomainNameEvent && t.Domain != DomainNameProcessing:
		return "the domain of a TTL is event or processing"
	case t.Refresh != "" && t.Refresh != RefreshWrite && t.Refresh != RefreshRead:
		return "the refresh of a TTL is write or read"
	}
	return ""
}

// Accumulator is the state of an aggregate; nil if it declares it as no aggregate may.
func (f *Function) Accumulator() *StateDescriptor {
	if f.Kind != FunctionAggregate || len(f.States) != 1 || !f.States[0].Prefetched() {
		return nil
	}
	return &f.States[0]
}

// Prefetched says whether the state comes with the batch.
func (d StateDescriptor) Prefetched() bool {
	return d.Kind == StateValue && d.MaxBytes > 0 && d.MaxBytes <= MaxPrefetchBytes
}

// FieldType is the type of a field of a typed row.
type FieldType string

// Field types.
const (
	TypeInt64   FieldType = "int64"
	TypeFloat64 FieldType = "float64"
	TypeBool    FieldType = "bool"
	TypeString  FieldType = "string" // UTF-8
	TypeBytes   FieldType = "bytes"
	TypeTime    FieldType = "timestamp" // int64 ms since 1970 UTC
	TypeJSON    FieldType = "json"      // UTF-8 JSON text, as a string: lists that native operators make
)

// Field is a named column of a typed row.
type Field struct {
	Name string    `json:"name" yaml:"name"`
	Type FieldType `json:"type" yaml:"type"`
}
