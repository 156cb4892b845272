// Package ci compares two versions of a pipeline's code over a recorded slice of a job, and judges what differs by a
// policy. What it says is the same for the same slice, modules and policy, byte by byte.
package ci

import (
	"cmp"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
)

// Kind is what differs at a record or timer.
type Kind string

// The kinds of differences.
const (
	KindOutput Kind = "output" // what it emitted
	KindState  Kind = "state"  // what it left in states and timers
	KindFault  Kind = "fault"  // whether and how it failed
	KindFuel   Kind = "fuel"   // how much work it was
)

// Report is what a comparison found. It is serialisable.
type Report struct {
	Slice Slice `json:"slice"`
	// Change is what the new version is to the old one, as millrace diff says it.
	Change    []job.Difference `json:"change"`
	Findings  []Finding        `json:"findings,omitempty"` // of checks of the new modules alone
	Operators []*Operator      `json:"operators"`          // in the order of the pipeline
	Within    bool             `json:"within"`             // the policy
	Beyond    []string         `json:"beyond,omitempty"`   // what of the policy is not met
}

// Slice is the recorded input.
type Slice struct {
	Job      string        `json:"job"`
	Snapshot checkpoint.ID `json:"snapshot"`
	Records  int64         `json:"records"`
	Sources  []string      `json:"sources"`
	FromMS   int64         `json:"from_ms"` // least event time; abi.NoTime: none
	ToMS     int64         `json:"to_ms"`   // greatest
	Over     bool          `json:"over"`    // it goes to the end of the input
}

// Finding is what a check of a module says, without running the slice.
type Finding struct {
	Operator string `json:"operator"`
	Text     string `json:"text"`
	Grave    bool   `json:"grave,omitempty"` // no policy allows it
}

// Operator is a guest operator whose two modules were compared.
type Operator struct {
	ID       string `json:"operator"`
	Function string `json:"function"`
	Old      string `json:"old"` // SHA-256 of the modules
	New      string `json:"new"`
	Records  int64  `json:"records"`          // it got
	Timers   int64  `json:"timers,omitempty"` // that fired
	// Differ counts records and timers by kind; one may count in several.
	Differ  map[Kind]int64 `json:"differ,omitempty"`
	OldFuel int64          `json:"old_fuel"`
	NewFuel int64          `json:"new_fuel"`
	Samples []Sample       `json:"samples,omitempty"` // the first ones of each kind, in the order of their positions
	masks   map[mask]int64
	heaps   map[Kind][]Sample
}

// Sample is one difference.
type Sample struct {
	Kind     Kind   `json:"kind"`
	Position string `json:"position"` // for people
	Key      string `json:"key,omitempty"`
	Of       string `json:"of,omitempty"` // name of the output, state or timer
	Before   string `json:"before"`       // empty: nothing
	After    string `json:"after"`
	Split    uint32 `json:"-"`
	Offset   uint64 `json:"-"`
	Seq      int    `json:"-"` // among those of one record
}

// mask is a set of kinds.
type mask uint8

var bits = map[Kind]mask{KindOutput: 1, KindState: 2, KindFault: 4, KindFuel: 8}

// Ratio is how much more fuel the new module takes: 1.1 is a tenth more. 1: neither took any.
func (o *Operator) Ratio() float64 {
	if o.OldFuel == 0 {
		return 1
	}
	return float64(o.NewFuel) / float64(o.OldFuel)
}

// mostSamples is how many of each kind an operator has.
const mostSamples = 5

// Add counts a record or timer that differs, with what differs at it.
func (o *Operator) Add(samples ...Sample) {
	if o.masks == nil {
		o.masks, o.heaps, o.Differ = map[mask]int64{}, map[Kind][]Sample{}, map[Kind]int64{}
	}
	m := mask(0)
	for _, s := range samples {
		if m&bits[s.Kind] == 0 {
			o.Differ[s.Kind]++
		}
		m |= bits[s.Kind]
		o.keep(s)
	}
	o.masks[m]++
}

// keep holds on to a sample if it is one of the first of its kind, whenever it comes.
func (o *Operator) keep(s Sample) {
	all := o.heaps[s.Kind]
	i, _ := slices.BinarySearchFunc(all, s, order)
	if i == mostSamples {
		return
	}
	all = slices.Insert(all, i, s)
	o.heaps[s.Kind] = all[:min(len(all), mostSamples)]
}

// order is that of the input, then of keys and names.
func order(a, b Sample) int {
	return cmp.Or(cmp.Compare(a.Split, b.Split), cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Seq, b.Seq),
		cmp.Compare(a.Of, b.Of), cmp.Compare(a.Before, b.Before), cmp.Compare(a.After, b.After))
}

// settle puts the samples in order.
func (o *Operator) settle() {
	o.Samples = nil
	for _, k := range []Kind{KindFault, KindOutput, KindState, KindFuel} {
		o.Samples = append(o.Samples, o.heaps[k]...)
	}
}

// differing counts the records and timers at which something differs that is not in allowed.
func (o *Operator) differing(allowed mask) (n int64) {
	for m, count := range o.masks {
		if m&^allowed != 0 {
			n += count
		}
	}
	return n
}
