// Package ci compares two versions of a pipeline's code over a recorded slice of a job, and judges what differs by a
// policy. What it says is the same for the same slice, modules and policy, byte by byte.
package ci

import (
	"cmp"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/replay"
)

// Report is what a comparison found. It is serialisable.
type Report struct {
	Slice Slice `json:"slice"`
	// Change is what the new version is to the old one, as millrace diff says it.
	Change    []job.Difference `json:"change"`
	Findings  []Finding        `json:"findings,omitempty"` // of checks of the new modules alone
	Operators []*Operator      `json:"operators"`          // compared, in the order of the pipeline
	Notes     []string         `json:"notes,omitempty"`    // what of the slice may not repeat, and why
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

// Operator is an operator whose two versions were compared.
type Operator struct {
	ID       string `json:"operator"`
	Function string `json:"function,omitempty"`
	Old      string `json:"old"` // SHA-256 of the modules
	New      string `json:"new"`
	Records  int64  `json:"records"`          // compared
	Timers   int64  `json:"timers,omitempty"` // that fired
	// Differ counts records and timers by what differs; one may count in several.
	Differ  map[string]int64 `json:"differ,omitempty"`
	Follow  int64            `json:"follow,omitempty"` // that may follow from an earlier one of their key
	OldFuel int64            `json:"old_fuel"`
	NewFuel int64            `json:"new_fuel"`
	// Stopped is why the new version could not go on, after which NotCompared records came.
	Stopped     string   `json:"stopped,omitempty"`
	NotCompared int64    `json:"not_compared,omitempty"`
	Samples     []Sample `json:"samples,omitempty"` // the first ones of each kind, in the order of the input
	masks       map[replay.Kind]int64
	first       map[replay.Kind][]Sample
}

// Sample is one difference.
type Sample struct {
	Kind     string `json:"kind"`
	Position string `json:"position"` // for people
	Key      string `json:"key,omitempty"`
	Of       string `json:"of,omitempty"` // name of the output, state or timer
	Before   string `json:"before"`       // empty: nothing
	After    string `json:"after"`
	Follow   bool   `json:"follow,omitempty"` // it may follow from an earlier one of its key
	pos      abi.Position
	at       int64 // time
	seq      int   // among those of one record
}

// Ratio is how much more fuel the new module takes: 1.1 is a tenth more. 1: the old one took none.
func (o *Operator) Ratio() float64 {
	if o.OldFuel == 0 {
		return 1
	}
	return float64(o.NewFuel) / float64(o.OldFuel)
}

// mostSamples is how many of each kind an operator has.
const mostSamples = 5

// add counts a difference.
func (o *Operator) add(d *replay.Difference) {
	if o.masks == nil {
		o.masks, o.first, o.Differ = map[replay.Kind]int64{}, map[replay.Kind][]Sample{}, map[string]int64{}
	}
	n := int64(max(1, d.Records))
	o.masks[d.Kinds] += n
	if d.Follow {
		o.Follow += n
	}
	for _, k := range replay.Kinds {
		if d.Kinds&k.Kind != 0 {
			o.Differ[k.Name] += n
			o.sample(d, k.Kind)
		}
	}
}

// sample keeps what a difference says of a kind, if it is one of the first.
func (o *Operator) sample(d *replay.Difference, k replay.Kind) {
	s := Sample{Kind: k.String(), Position: d.Position, Key: d.KeyRow, Follow: d.Follow, pos: d.Pos}
	if d.Time != nil {
		s.at = *d.Time
	}
	if d.Timer && d.Time != nil {
		s.Position = strings.TrimSpace("timer "+d.Name) + " of " + timeText(s.at)
	}
	if all := o.first[k]; len(all) == mostSamples && order(s, all[mostSamples-1]) > 0 {
		return
	}
	told := false
	for i, x := range d.Details {
		if x.Kind == k {
			s.Of, s.Before, s.After, s.seq, told = x.Of, x.Before, x.After, i, true
			o.keep(k, s)
		}
	}
	if !told && k == replay.KindFuel {
		s.Before, s.After = thousands(d.OldFuel), thousands(d.NewFuel)
		o.keep(k, s)
	}
}

// keep holds on to a sample if it is one of the first of its kind, whenever it comes.
func (o *Operator) keep(k replay.Kind, s Sample) {
	all := o.first[k]
	i, _ := slices.BinarySearchFunc(all, s, order)
	if i < mostSamples {
		all = slices.Insert(all, i, s)
		o.first[k] = all[:min(len(all), mostSamples)]
	}
}

// order is that of the input, what has no place in it behind it; then of times, keys and names.
func order(a, b Sample) int {
	return cmp.Or(cmp.Compare(a.pos.Split, b.pos.Split), cmp.Compare(a.pos.Offset, b.pos.Offset), cmp.Compare(a.at, b.at),
		cmp.Compare(a.Key, b.Key), cmp.Compare(a.seq, b.seq), cmp.Compare(a.Of, b.Of))
}

// name gives the samples whose places have no name yet one.
func (o *Operator) name(describe func(abi.Position) string) {
	for _, all := range o.first {
		for i := range all {
			if s := &all[i]; s.Position == "" {
				s.Position = describe(s.pos)
			}
		}
	}
}

// settle puts the samples in order.
func (o *Operator) settle() {
	o.Samples = nil
	for _, k := range replay.Kinds {
		o.Samples = append(o.Samples, o.first[k.Kind]...)
	}
}

// differing counts the records and timers at which something differs that is not allowed.
func (o *Operator) differing(allowed replay.Kind) (n int64) {
	for m, count := range o.masks {
		if m&^allowed != 0 {
			n += count
		}
	}
	return n
}

// kindNamed is the kind of a name, 0: there is none.
func kindNamed(name string) replay.Kind {
	for _, k := range replay.Kinds {
		if k.Name == name {
			return k.Kind
		}
	}
	return 0
}
