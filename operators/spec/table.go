package spec

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
)

// kind is the kind of a value in a pipeline file.
type kind int

const (
	kindString kind = iota
	kindID
	kindRef // an operator, or operator.output
	kindInt
	kindNumber
	kindBool
	kindDuration
	kindSize
	kindDurationOff // a duration, or "off"
	kindDurationOr  // a duration, or one of field.enum
	kindOffset      // a duration, perhaps negative
	kindSpan        // a duration, or a number of records
	kindEnum
	kindStrings    // a string or a list of them
	kindRefs       // a kindRef or a list of them
	kindList       // a list of objects of field.object
	kindObject     // field.object
	kindFields     // ordered map: name -> field type
	kindPolicy     // a policy's name or an object
	kindKey        // a field, a list of fields, or an object
	kindConst      // exactly field.enum[0]
	kindAggregates // ordered map: name -> aggregate
	kindTTLs       // ordered map: state -> duration, "off" or ttlShape
	kindOperators  // a list of operators
	kindTextOr     // text, or a field.object
)

// field says what may stand under a name.
type field struct {
	name     string
	kind     kind
	doc      string
	required bool
	enum     []string
	min, max int64 // kindInt; both 0: any
	object   *shape
}

// shape is an object: its fields, and groups of which exactly one field must be there.
type shape struct {
	doc    string
	fields []field
	either [][]string
}

func (s *shape) names() []string {
	var ns []string
	for _, f := range s.fields {
		ns = append(ns, f.name)
	}
	return ns
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// variant is one form of an operator: told by the field `by`, and its value where there are several.
type variant struct {
	by    string
	value string // "": any value of the field's own kind
	shape *shape
}

const (
	maxDepth     = 64
	maxBytes     = 1 << 20
	maxOperators = 1000
	maxParall    = 512 // tasks of an operator: each has buffers and a guest instance
)

// Words of check.
const (
	checkOn  = "on"
	checkOff = "off"
)

var policies = []string{"stop", "skip", "dead_letter"}

var fieldTypes = []string{string(abi.TypeInt64), string(abi.TypeFloat64), string(abi.TypeBool), string(abi.TypeString),
	string(abi.TypeBytes), string(abi.TypeTime)}

var top = &shape{doc: "A Millrace pipeline.", fields: []field{
	{name: "name", kind: kindID, required: true, doc: "Name of the pipeline and of its state folder."},
	{name: "parallelism", kind: kindInt, min: 1, max: maxParall, doc: "Tasks per operator where the operator does not say; default 1."},
	{name: "mode", kind: kindEnum, enum: []string{modeAuto, operators.ModeStream, operators.ModeBatch}, doc: "What the settings left open are chosen for: stream, soon (a checkpoint each 1s, batches of 256); batch, for input that ends (only the final checkpoint, batches of 1024); auto (default): batch with a checkpoint each 60s where all input ends and can be read again, else stream. Results are the same."},
	{name: "checkpoint", kind: kindObject, object: checkpointShape, doc: "When checkpoints are made."},
	{name: "memory", kind: kindSize, doc: "Memory for keyed state of the whole pipeline; default 512MiB."},
	{name: "state", kind: kindEnum, enum: []string{"disk", "memory"}, doc: "Where state beyond the memory goes: disk (default), or nowhere."},
	{name: "batch", kind: kindInt, min: 1, max: abi.MaxBatchRecords, doc: "Records per batch at most; default 256, mode batch: 1024."},
	{name: "linger", kind: kindDuration, doc: "How long a batch waits for more records before it crosses an exchange; default 5ms."},
	{name: "operators", kind: kindOperators, required: true, doc: "Operators. Each reads the one above it unless it says `from`."},
}}

var checkpointShape = &shape{fields: []field{
	{name: "interval", kind: kindDuration, doc: "Time between checkpoints; 0s: only at the end. Default 1s; mode batch: 0s, chosen by auto: 60s."},
	{name: "timeout", kind: kindDuration, doc: "A checkpoint not complete by then is given up. Default 60s."},
	{name: "retain", kind: kindInt, min: 1, max: 1000, doc: "Complete checkpoints kept; default 3."},
	{name: "probation", kind: kindInt, min: 0, max: 1000, doc: "Checkpoints for which the output of modules that an upgrade brought is held back, to be discarded if they fail; default 0."},
	{name: "store", kind: kindTextOr, object: storeShape, doc: "Where copies of the snapshots go: a URL, or an object. Default: nowhere."},
}}

var policyShape = &shape{fields: []field{
	{name: "policy", kind: kindEnum, enum: policies, required: true, doc: "stop (default): the job stops; skip: counted and dropped; dead_letter: written with the reason."},
	{name: "path", kind: kindString, doc: "NDJSON file for dead letters, or a folder (ends in /); default dead-letters/<id>/."},
}}

var keyShape = &shape{fields: []field{
	{name: "fields", kind: kindStrings, doc: "Fields that make the key."},
	{name: "whole", kind: kindBool, doc: "The whole value is the key."},
	{name: "null", kind: kindPolicy, doc: "What happens to a record without a key; default stop."},
}, either: [][]string{{"fields", "whole"}}}

var timeShape = &shape{fields: []field{
	{name: "source", kind: kindEnum, enum: []string{"event", "ingestion", "processing"}, doc: "Where the time of a record is from: its own field (event, default), the clock when it is read (ingestion; another one after a restart), or nowhere (processing: what looks at time goes by the clock)."},
	{name: "field", kind: kindString, doc: "Field of the event time."},
	{name: "unit", kind: kindEnum, enum: format.Units, doc: "What a number there counts since 1970 UTC; default ms. Text is RFC 3339; Parquet timestamps know their unit."},
	{name: "watermarks", kind: kindEnum, enum: []string{"bounded", "monotonic", "punctuated", "none"}, doc: "How the watermark follows: out_of_orderness behind the greatest time (bounded, default), times never fall (monotonic), as a function of a module says behind each record (punctuated), or only at the end of input (none)."},
	{name: "punctuate", kind: kindObject, object: punctuateShape, doc: "The function that says the watermark; a record at which it fails goes to on_error."},
	{name: "out_of_orderness", kind: kindDuration, doc: "How far behind the greatest time so far a record may come without being late; default 0s."},
	{name: "quantum", kind: kindDuration, doc: "Step of event time at which the watermark moves; default 100ms."},
	{name: "idle", kind: kindDuration, doc: "A split that is read to its present end and gives nothing for so long no longer holds the watermark; default: it holds it for ever."},
	{name: "max_future_skew", kind: kindDurationOff, doc: "A time further ahead of the clock does not move the watermark; default 5m, off: every time does."},
	{name: "on_future", kind: kindPolicy, doc: "What happens to a record of such a time; default: it is kept."},
	{name: "align", kind: kindDuration, doc: "How much event time a split may be ahead of the slowest one of this source before it has to wait; default: any."},
}}

var describeShape = &shape{fields: []field{
	{name: "keyed", kind: kindBool, doc: "The function works per key."},
	{name: "input", kind: kindFields, doc: "Fields it reads; without: raw bytes."},
	{name: "output", kind: kindFields, doc: "Fields it writes; without: raw bytes."},
	{name: "outputs", kind: kindStrings, doc: "Names of its side outputs."},
	{name: "states", kind: kindList, object: stateShape, doc: "Its keyed states."},
	{name: "timers", kind: kindStrings, doc: "Domains of its timers: event, processing."},
}}

var stateShape = &shape{fields: []field{
	{name: "name", kind: kindID, required: true, doc: "Name of the state."},
	{name: "kind", kind: kindEnum, enum: []string{"value", "list", "map"}, required: true, doc: "Kind of the state."},
	{name: "version", kind: kindInt, min: 0, max: 1 << 30, doc: "Schema version."},
	{name: "max_bytes", kind: kindInt, min: 1, max: abi.MaxStateValueBytes, doc: "Bytes of one value; up to 4096 it comes with the batch."},
}}

var guestShape = &shape{fields: []field{
	{name: "module", kind: kindString, required: true, doc: "WebAssembly module, relative to this file."},
	{name: "function", kind: kindString, doc: "Function of the module; may be left out if it offers one of this kind."},
	{name: "digest", kind: kindString, doc: "SHA-256 the module must have, hexadecimal."},
	{name: "memory", kind: kindSize, doc: "Linear memory of one instance; default 64MiB."},
	{name: "fuel", kind: kindInt, min: 1, max: 1 << 50, doc: "Fuel per record; default 52428800."},
	{name: "instances", kind: kindInt, min: 1, max: 512, doc: "Of a module whose memory is state: in how many instances, each with keys of its own, it runs for good; default 8."},
	{name: "clock", kind: kindEnum, enum: []string{"event", "processing"}, doc: "What the guest sees as time: that of the record (default), or the host's."},
	{name: "check", kind: kindEnum, enum: []string{checkOn, checkOff}, doc: "Whether the function is tried before it is let in: the same records, one by one and together, on kept and on fresh instances (on, default). off lets one in that keeps something between calls, which a restart loses."},
	{name: "describe", kind: kindObject, object: describeShape, doc: "What the function is, for a module that does not describe itself."},
	{name: "state_ttl", kind: kindTTLs, doc: "How long what its states hold lives, by state; without: as the module declares it. A state that gets one later ages from that start on."},
	{name: "drop_states", kind: kindStrings, doc: "States of an earlier version that may be dropped."},
}}

var (
	idField = field{name: "id", kind: kindID, required: true, doc: "Stable name: state is found by it again."}
	pField  = field{name: "parallelism", kind: kindInt, min: 1, max: maxParall, doc: "Number of tasks."}
	from    = field{name: "from", kind: kindRefs, doc: "Operators to read, `op` or `op.output`; default: the operator above."}
	onError = field{name: "on_error", kind: kindPolicy, doc: "What happens to a record that fails; default stop."}
	fields  = field{name: "fields", kind: kindFields, doc: "Fields to extract, with their types: the value becomes a typed row of them."}
	timing  = field{name: "time", kind: kindObject, object: timeShape, doc: "Event time."}
)

func formats(names ...string) field {
	return field{name: "format", kind: kindEnum, enum: names, doc: "Format of the input."}
}

func variantOf(by, value, doc string, either [][]string, fs ...field) variant {
	s := &shape{doc: doc, fields: append([]field{idField}, fs...), either: either}
	return variant{by, value, s}
}

func is(name, value, doc string) field {
	return field{name: name, kind: kindConst, enum: []string{value}, required: true, doc: doc}
}

func guest(name, doc string) variant {
	return variantOf(name, "", doc, nil, field{name: name, kind: kindObject, object: guestShape, required: true, doc: doc},
		from, pField, onError)
}

var variants = []variant{
	variantOf("source", "file", "Reads files; each is one split.", [][]string{{"path", "paths"}}, is("source", "file", "Reads files."),
		field{name: "path", kind: kindStrings, doc: "Files or globs, relative to this file."},
		field{name: "paths", kind: kindStrings, doc: "The same as path."},
		field{name: "follow", kind: kindBool, doc: "Wait for more at the end (lines only): unbounded."},
		formats("ndjson", "csv", "parquet", "lines", "binary"), fields, timing, pField, onError),
	variantOf("source", "stdin", "Reads lines of standard input.", nil, is("source", "stdin", "Reads standard input."),
		formats("lines", "ndjson"), fields, timing, onError),
	variantOf("source", "tcp", "Connects and reads lines.", nil, is("source", "tcp", "Reads a socket."),
		field{name: "address", kind: kindString, required: true, doc: "host:port to connect to."},
		formats("lines", "ndjson"), fields, timing, onError),
	variantOf("source", "generator", "Makes records from a seed.", nil, is("source", "generator", "Makes records."),
		field{name: "kind", kind: kindEnum, enum: []string{"payments", "counter", "sequence"}, required: true, doc: "What is made."},
		field{name: "records", kind: kindInt, min: 0, max: 1 << 60, doc: "How many; 0 (default): without end."},
		field{name: "rate", kind: kindNumber, doc: "Records per second of wall time; default: as fast as they are taken."},
		field{name: "keys", kind: kindInt, min: 1, max: 1 << 40, doc: "Distinct keys; default 1000."},
		field{name: "value_bytes", kind: kindInt, min: 1, max: 1 << 16, doc: "Bytes of a counter's value; default 80."},
		field{name: "seed", kind: kindInt, min: 0, max: 1 << 62, doc: "Another seed makes other records."},
		field{name: "step", kind: kindDuration, doc: "Event time between records; default 1ms."},
		field{name: "start", kind: kindInt, min: -1 << 50, max: 1 << 50, doc: "Event time of the first record in ms since 1970."},
		field{name: "splits", kind: kindInt, min: 1, max: maxParall, doc: "Splits; default: the parallelism at the first start."},
		field{name: "out_of_orderness", kind: kindDuration, doc: "Delay of the watermark; default 0s: records come in order."},
		formats("rows", "ndjson"), pField),
	variantOf("key_by", "", "Sets the key of each record.", nil,
		field{name: "key_by", kind: kindKey, required: true, doc: "The field, or fields, of the key."}, from, pField),
	guest("map", "One record in, at most one out."),
	guest("filter", "Keeps or drops records."),
	guest("flat_map", "One record in, any number out."),
	guest("process", "Keyed state, timers and side outputs."),
	windowVariant,
	variantOf("union", "", "Joins streams of one schema.", nil,
		field{name: "union", kind: kindRefs, required: true, doc: "Operators to join."}, pField),
	variantOf("sink", "stdout", "Writes lines at once: at least once.", nil, is("sink", "stdout", "Writes to standard output."),
		envelope, provenance, from, pField),
	variantOf("sink", "file", "Writes NDJSON exactly once.", nil, is("sink", "file", "Writes files."),
		field{name: "path", kind: kindString, required: true, doc: "One file, published at the end; or a folder (ends in /) of parts."},
		field{name: "part_size", kind: kindSize, doc: "A part is closed at this size; default 64MiB."},
		formats("ndjson"), envelope, provenance, from, pField),
	variantOf("sink", "blackhole", "Counts and drops.", nil, is("sink", "blackhole", "Drops."), from, pField),
}

var envelope = field{name: "envelope", kind: kindBool, doc: `Lines are {"key","value","time"}: keys, null and empty values survive.`}

var provenance = field{name: "provenance", kind: kindBool, doc: `Enveloped lines with "from": {"snapshot", "split", "offset"} besides, for millrace why. Snapshots come by the clock: two runs differ in them.`}

// discriminators are the fields that tell operators apart, in the order of variants.
func discriminators() (names []string) {
	for _, v := range variants {
		if len(names) == 0 || names[len(names)-1] != v.by {
			names = append(names, v.by)
		}
	}
	return names
}
