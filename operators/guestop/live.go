package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// EachLive implements operators.LiveState.
func (o *Op) EachLive(name string, k state.Key, f func(ukey, value []byte) error) error {
	for i, d := range o.fn.States {
		if d.Name != name || o.keyed == nil {
			continue
		}
		n := o.numbers[i]
		if d.Kind == abi.StateValue {
			return operators.EachEntry(o.keyed.Value(n), nil, k, f)
		}
		return operators.EachEntry(nil, o.keyed.Ordered(n), k, f)
	}
	return fmt.Errorf("%w: %s.%s", operators.ErrNoLive, o.id, name)
}
