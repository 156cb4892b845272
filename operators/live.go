package operators

import (
	"errors"

	"github.com/millrace-io/millrace/state"
)

// ErrNoLive: an operator has no state of that name that could be read while it runs.
var ErrNoLive = errors.New("no such state to read while it runs")

// LiveState is an operator whose keyed state can be read between two of its calls, by its task's goroutine.
type LiveState interface {
	// EachLive calls f for what a key has now in a state: one entry without user key for a value. The slices are
	// good for the call. Nothing is changed, no entry renewed. Errors: ErrNoLive; f's.
	EachLive(name string, k state.Key, f func(ukey, value []byte) error) error
}

// EachEntry is EachLive over a state that is at hand; exactly one of the two is set.
func EachEntry(v state.Value, o state.Ordered, k state.Key, f func(ukey, value []byte) error) error {
	if v != nil {
		b, ok, err := v.Load(state.NoPos, k)
		if err != nil || !ok {
			return err
		}
		return f(nil, b)
	}
	it, err := o.Scan(k, nil)
	if err != nil {
		return err
	}
	for it.Next() && err == nil {
		u, b := it.Entry()
		err = f(u, b)
	}
	return errors.Join(err, it.Close())
}
