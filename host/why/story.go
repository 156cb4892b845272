// Package why explains an output: it runs the job again from the snapshot before it, in a folder of its own,
// and notes what the operator that gave the output did for its key.
package why

import (
	"encoding/json"

	"github.com/millrace-io/millrace/checkpoint"
)

// Story is why an output is there. It is serialisable.
type Story struct {
	Output   json.RawMessage `json:"output"`
	Sink     string          `json:"sink"`
	Snapshot checkpoint.ID   `json:"snapshot"` // the run began there, 0: at the beginning
	// Chapters are the operators on the output's way, its own last.
	Chapters []*Chapter `json:"operators"`
	Records  int64      `json:"records"` // run again
	Millis   int64      `json:"ms"`
}

// Chapter is what one operator did.
type Chapter struct {
	Operator string `json:"operator"`
	Function string `json:"function,omitempty"`
	Module   string `json:"module,omitempty"` // its file
	Digest   string `json:"digest,omitempty"`
	// Key is the one whose steps are told; null: the operator has no keys, or only the records are told that
	// the steps of the next chapter come from.
	Key    json.RawMessage   `json:"key,omitempty"`
	Before []json.RawMessage `json:"before,omitempty"` // state of the key in the snapshot
	Steps  []*Step           `json:"steps"`
	Left   int               `json:"left_out,omitempty"` // earlier steps, beyond the limit
}

// Step is a record, or a timer, and what the operator made of it.
type Step struct {
	Number   int64           `json:"number"` // of the key's, from 1
	Position string          `json:"position,omitempty"`
	Split    *uint32         `json:"split,omitempty"`
	Offset   *uint64         `json:"offset,omitempty"`
	Timer    *Timer          `json:"timer,omitempty"` // it is one, and not a record
	Time     *int64          `json:"time,omitempty"`  // event time, ms
	Input    json.RawMessage `json:"input,omitempty"`
	Fired    bool            `json:"fired,omitempty"` // a window
	Fuel     int64           `json:"fuel,omitempty"`
	State    []Change        `json:"state,omitempty"`
	Timers   []Timer         `json:"timers,omitempty"`
	Outputs  []Output        `json:"outputs,omitempty"`
	Logs     []string        `json:"logs,omitempty"`
	Failed   string          `json:"failed,omitempty"`
}

// Change is an entry of state before and after a step; nil: not there.
type Change struct {
	State string          `json:"state"`
	Entry json.RawMessage `json:"entry,omitempty"` // of a map, or the number of a list's element
	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
}

// Timer is one that fires, is set or deleted.
type Timer struct {
	Domain string          `json:"domain"`
	Name   json.RawMessage `json:"name,omitempty"`
	At     int64           `json:"at"` // ms
	Delete bool            `json:"delete,omitempty"`
}

// Output is a record that a step gave.
type Output struct {
	Output string          `json:"output,omitempty"` // side output; empty: the main one
	Key    json.RawMessage `json:"key,omitempty"`
	Value  json.RawMessage `json:"value"`
	Time   *int64          `json:"time,omitempty"`
	This   bool            `json:"this,omitempty"` // the one that is explained
}
