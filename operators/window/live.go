package window

import (
	"fmt"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// EachLive implements operators.LiveState.
func (o *Op) EachLive(name string, k state.Key, f func(ukey, value []byte) error) error {
	switch {
	case name == "windows":
		return operators.EachEntry(o.value, nil, k, f)
	case name == "contents" && o.contents != nil:
		return operators.EachEntry(nil, o.contents.m, k, f)
	}
	return fmt.Errorf("%w: %s.%s", operators.ErrNoLive, o.ctx.Operator, name)
}
