// Package evolve judges whether the state of a snapshot can be taken over by operators that declare their
// states otherwise than those that left it.
package evolve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/state/schema"
)

// Verdict is what becomes of a state.
type Verdict int

// Verdicts, mildest first.
const (
	Same     Verdict = iota // nothing changes
	Additive                // old values are good as they are
	New                     // there is nothing to take over
	Convert                 // the host rewrites each value: schema.NewConverter
	Migrate                 // the new module rewrites each value
	Refused                 // it can't be taken over
)

func (v Verdict) String() string {
	return [...]string{"same", "additive", "new", "convert", "migrate", "refused"}[v]
}

// MarshalText writes the name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Finding is the verdict on one state, or on an operator's key.
type Finding struct {
	Operator string  `json:"operator"`
	State    string  `json:"state,omitempty"` // empty: it is about the key of all states
	Verdict  Verdict `json:"verdict"`
	Reason   string  `json:"reason,omitempty"`
}

// String is "operator count, state total: refused: its kind was value, is map".
func (f Finding) String() string {
	s := "operator " + f.Operator
	if f.State != "" {
		s += ", state " + f.State
	}
	s += ": " + f.Verdict.String()
	if f.Reason != "" {
		s += ": " + f.Reason
	}
	return s
}

// Judge holds the states that a snapshot has against those that operators now declare: one finding per state
// of either, and one per operator whose key changed, in the order of now, then what is gone. Operators are
// compared under their present ids.
func Judge(old, now []checkpoint.StateRef) []Finding {
	var out []Finding
	keyed := map[string]bool{}
	for i := range now {
		n := &now[i]
		j := slices.IndexFunc(old, func(o checkpoint.StateRef) bool { return o.Operator == n.Operator })
		if j >= 0 && !keyed[n.Operator] {
			keyed[n.Operator] = true
			if v, why := Key(old[j].Key, n.Key); v != Same {
				out = append(out, Finding{n.Operator, "", v, why})
			}
		}
		o := find(old, n.Operator, n.State.Name)
		if o == nil {
			out = append(out, Finding{n.Operator, n.State.Name, New, ""})
			continue
		}
		v, why := State(&o.State, &n.State)
		out = append(out, Finding{n.Operator, n.State.Name, v, why})
	}
	for i := range old {
		if o := &old[i]; find(now, o.Operator, o.State.Name) == nil && declares(now, o.Operator) {
			out = append(out, Finding{o.Operator, o.State.Name, Refused, "nothing declares it any more"})
		}
	}
	return out
}

func find(refs []checkpoint.StateRef, operator, name string) *checkpoint.StateRef {
	i := slices.IndexFunc(refs, func(r checkpoint.StateRef) bool { return r.Operator == operator && r.State.Name == name })
	if i < 0 {
		return nil
	}
	return &refs[i]
}

func declares(refs []checkpoint.StateRef, operator string) bool {
	return slices.ContainsFunc(refs, func(r checkpoint.StateRef) bool { return r.Operator == operator })
}

// Worst is the hardest verdict of all; Same if there is none.
func Worst(fs []Finding) Verdict {
	v := Same
	for _, f := range fs {
		v = max(v, f.Verdict)
	}
	return v
}

// Key compares the columns that records are keyed by. Types count where both are known: the same text may be
// the key of a number and of a string, but a float's is not an integer's.
func Key(old, now []abi.Field) (Verdict, string) {
	if len(old) == 0 {
		return Same, "" // not known to have been columns
	}
	if names(old) != names(now) {
		return Refused, fmt.Sprintf("its records were keyed by %s, are by %s: the same entry would not be found again", names(old), names(now))
	}
	for i, o := range old {
		if n := now[i]; o.Type != n.Type && o.Type != "" && n.Type != "" {
			return Refused, fmt.Sprintf("column %s of its key was %s, is %s: the same entry would not be found again", o.Name, o.Type, n.Type)
		}
	}
	return Same, ""
}

// SameColumns says whether two keys are of the same columns, whatever their types.
func SameColumns(a, b []abi.Field) bool { return names(a) == names(b) }

func names(fs []abi.Field) string {
	if len(fs) == 0 {
		return "bytes of their own"
	}
	var out []string
	for _, f := range fs {
		out = append(out, f.Name)
	}
	return strings.Join(out, "+")
}

// State judges one state against its declaration of before.
func State(old, now *abi.StateDescriptor) (Verdict, string) {
	switch {
	case old.Kind != now.Kind:
		return Refused, fmt.Sprintf("its kind was %s, is %s: another name is needed", old.Kind, now.Kind)
	case windows(old) && windows(now):
		if old.Version != now.Version {
			return Refused, "its windows are defined otherwise than those it holds"
		}
		return Same, ""
	case now.Version < old.Version:
		return Refused, fmt.Sprintf("its schema version goes back from %d to %d", old.Version, now.Version)
	}
	if c, why := schema.Compare(old.KeySchema, now.KeySchema); c > schema.Additive || c == schema.Additive && now.Version == old.Version {
		return Refused, "its map keys: " + why + ": entries would not be found again"
	}
	if now.Version > old.Version {
		return Migrate, fmt.Sprintf("from schema version %d to %d", old.Version, now.Version)
	}
	c, why := schema.Compare(old.Schema, now.Schema)
	switch c {
	case schema.Incompatible:
		return Refused, fmt.Sprintf("%s: raise its version above %d and supply migrate", why, old.Version)
	case schema.Convertible:
		return Convert, why
	case schema.Additive:
		return Additive, why
	}
	if was, is := bound(old), bound(now); is < was {
		return Refused, fmt.Sprintf("values may have %d bytes, it now takes at most %d", was, is)
	} else if is > was {
		return Additive, fmt.Sprintf("values may grow from %d to %d bytes", was, is)
	}
	return Same, why
}

// windows says that a state is a window operator's, whose version stands for its definition.
func windows(d *abi.StateDescriptor) bool {
	return d.Schema != nil && (d.Schema.Type == abi.SchemaWindow || d.Schema.Type == abi.SchemaContents)
}

func bound(d *abi.StateDescriptor) int {
	if d.MaxBytes == 0 {
		return abi.MaxStateValueBytes
	}
	return d.MaxBytes
}
