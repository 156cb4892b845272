package replay

import (
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// Kind is what differs at a record or timer; kinds can be added up.
type Kind uint8

// The kinds of differences.
const (
	KindOutput Kind = 1 << iota // what it emitted: bytes, or their order
	KindState                   // what it left in states
	KindTimer                   // timers it set or deleted, or one that fired in one version only
	KindFault                   // whether it failed, and how
	KindFuel                    // how much work it was
)

// Kinds are all kinds with their names.
var Kinds = []struct {
	Kind Kind
	Name string
}{{KindFault, "fault"}, {KindOutput, "output"}, {KindState, "state"}, {KindTimer, "timer"}, {KindFuel, "fuel"}}

// String is the names, joined by a plus.
func (k Kind) String() string {
	s := ""
	for _, x := range Kinds {
		if k&x.Kind != 0 {
			if s != "" {
				s += "+"
			}
			s += x.Name
		}
	}
	return s
}

// MarshalJSON writes the names.
func (k Kind) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// Difference is a record or timer at which the two versions differ. It is serialisable.
type Difference struct {
	Operator string `json:"operator"`
	Task     int    `json:"task"`
	Kinds    Kind   `json:"kinds"`
	// Follow: state or timers of the key differed before, so that this one may follow from that.
	Follow bool   `json:"follow,omitempty"`
	Timer  bool   `json:"timer,omitempty"` // the cause is a timer, not a record
	Name   string `json:"name,omitempty"`  // of the timer
	Time   *int64 `json:"time,omitempty"`  // event time, or the timer's; ms
	Key    []byte `json:"-"`               // nil: none
	KeyRow string `json:"key,omitempty"`   // Key for people
	// Position of the record for people; of a timer, or a window: key and time.
	// Set in samples only; else see Where.
	Position string `json:"position"`
	where    func() string
	Pos      abi.Position `json:"-"` // abi.NoPosition: it has none
	// Records is how many records this is about: more than 1 where a batch of several differs in fuel alone.
	Records int      `json:"records,omitempty"`
	Details []Detail `json:"details"`
	OldFuel int64    `json:"old_fuel"` // of the record; -1: not known
	NewFuel int64    `json:"new_fuel"`
}

// Where names the position for people. To name a line its file is read.
func (d *Difference) Where() string {
	if d.Position == "" && d.where != nil {
		return d.where()
	}
	return d.Position
}

// Detail is one thing that differs.
type Detail struct {
	Kind   Kind   `json:"kind"`
	Of     string `json:"of,omitempty"` // name of the output, state and entry, or timer
	Before string `json:"before"`       // as JSON where that is known; empty: nothing
	After  string `json:"after"`
}

// Fuel is the work of one version.
type Fuel struct {
	Total int64  `json:"total"`
	P50   int64  `json:"p50"` // of a record or timer, within an eighth; of a call where several records are in one
	Max   int64  `json:"max"`
	MaxAt string `json:"max_at,omitempty"` // position
}

// Operator is what was compared of one operator, over all its tasks.
type Operator struct {
	ID       string `json:"operator"`
	Function string `json:"function,omitempty"`
	Old      string `json:"old"` // SHA-256 of the modules
	New      string `json:"new"`
	Records  int64  `json:"records"` // compared
	Timers   int64  `json:"timers,omitempty"`
	// Differ counts records and timers that differ in more than fuel, without those that may follow from an earlier one.
	Differ    int64            `json:"differ"`
	Follow    int64            `json:"follow,omitempty"`
	Kinds     map[string]int64 `json:"kinds,omitempty"`      // by kind; one record may count in several; with those that follow
	StateOnly int64            `json:"state_only,omitempty"` // differ in states and timers alone
	FuelOnly  int64            `json:"fuel_only,omitempty"`  // differ in fuel alone, calls where several records are in one
	Keys      int64            `json:"keys,omitempty"`       // whose state differed
	OldFuel   Fuel             `json:"old_fuel"`
	NewFuel   Fuel             `json:"new_fuel"`
	// Stopped is why the new version could not go on in some task, after which NotCompared records came there.
	Stopped     string        `json:"stopped,omitempty"`
	NotCompared int64         `json:"not_compared,omitempty"`
	Samples     []*Difference `json:"samples,omitempty"` // the first of each kind
}

// FuelRatio is how much more work the new version is: 1.1 is a tenth more; 1 where the old one took none.
func (o *Operator) FuelRatio() float64 {
	if o.OldFuel.Total == 0 {
		return 1
	}
	return float64(o.NewFuel.Total) / float64(o.OldFuel.Total)
}

// Report is what a replay found. It is serialisable.
type Report struct {
	Job       string        `json:"job"`
	From      checkpoint.ID `json:"from"`
	To        checkpoint.ID `json:"to,omitempty"`
	Records   int64         `json:"records"` // read from the sources
	Over      bool          `json:"over"`    // the input ended
	Exact     bool          `json:"exact"`   // to the record
	Operators []*Operator   `json:"operators"`
	Sinks     []SinkCount   `json:"sinks,omitempty"`
	Notes     []string      `json:"notes,omitempty"` // what may not repeat, and why
	Millis    int64         `json:"ms"`
}

// SinkCount is what a sink would have got.
type SinkCount struct {
	Sink    string `json:"sink"`
	Records int64  `json:"records"`
}

// Compared is how many records and timers were compared.
func (r *Report) Compared() (n int64) {
	for _, o := range r.Operators {
		n += o.Records + o.Timers
	}
	return n
}

// NotCompared is how many records came when the new version could not go on.
func (r *Report) NotCompared() (n int64) {
	for _, o := range r.Operators {
		n += o.NotCompared
	}
	return n
}

// Verdict is what differs, in a line.
func (r *Report) Verdict() string {
	left := r.NotCompared()
	text := fmt.Sprintf("%d of %d records and timers differ", r.Differ()-left, r.Compared())
	if left > 0 {
		text += fmt.Sprintf(", and the new version could not go on: %d more could not be compared", left)
	}
	return text
}

// Differ is how many records and timers differ in more than fuel, those that follow from others and those that could
// not be compared included.
func (r *Report) Differ() (n int64) {
	for _, o := range r.Operators {
		n += o.Differ + o.Follow + o.NotCompared
	}
	return n
}

// Same says that nothing differs, not even fuel.
func (r *Report) Same() bool {
	for _, o := range r.Operators {
		if o.Differ+o.Follow+o.FuelOnly+o.NotCompared > 0 || o.Stopped != "" {
			return false
		}
	}
	return true
}
