package checkpoint

import (
	"slices"

	"github.com/millrace-io/millrace/abi"
)

// StateRef is a state as an operator declared it when the snapshot was made: what people need to read it, and
// what a change of it is judged by.
type StateRef struct {
	Operator string `json:"operator"`
	// Key is the columns that the operator's records are keyed by, with a type where it is known; none: the
	// key is bytes of their own.
	Key   []abi.Field         `json:"key,omitempty"`
	State abi.StateDescriptor `json:"state"`
}

// State is the declaration of a state, nil if the snapshot has none (one of an older build).
func (m *Manifest) State(operator, name string) *StateRef {
	i := slices.IndexFunc(m.States, func(r StateRef) bool { return r.Operator == operator && r.State.Name == name })
	if i < 0 {
		return nil
	}
	return &m.States[i]
}
