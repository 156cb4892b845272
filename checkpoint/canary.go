package checkpoint

import (
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/state"
)

// Canary is other code that has the keys of some slots, over the same state: the operators of Modules run them
// there, and what is in force everywhere else.
type Canary struct {
	Pipeline string      `json:"pipeline"` // digest object of the pipeline file it came with
	Modules  []ModuleRef `json:"modules"`  // of the operators that differ, not empty
	Lo       uint32      `json:"lo"`       // slots [Lo, Hi)
	Hi       uint32      `json:"hi"`
	Errors   float64     `json:"errors,omitempty"` // share of its records that may fail; 0: the default
}

// Slots is the range whose keys it has.
func (c *Canary) Slots() state.Range { return state.Range{Lo: c.Lo, Hi: c.Hi} }

// Share is the part of all slots, 0 to 1.
func (c *Canary) Share() float64 { return float64(c.Hi-c.Lo) / state.Slots }

// Module is what an operator runs in the canary; false: it is not part of it.
func (c *Canary) Module(operator string) (ModuleRef, bool) {
	if c == nil {
		return ModuleRef{}, false
	}
	i := slices.IndexFunc(c.Modules, func(m ModuleRef) bool { return m.Operator == operator })
	if i < 0 {
		return ModuleRef{}, false
	}
	return c.Modules[i], true
}

// String is "slots 0-3276 (5 %)".
func (c *Canary) String() string { return SlotsText(c.Lo, c.Hi) }

// AllSlots is how many slots there are.
const AllSlots = state.Slots

// SlotsText names slots [lo, hi), both ends included, with their share of all.
func SlotsText(lo, hi uint32) string {
	return fmt.Sprintf("slots %d-%d (%.3g %%)", lo, hi-1, 100*float64(hi-lo)/AllSlots)
}

func (c *Canary) validate() error {
	switch {
	case c == nil:
		return nil
	case c.Lo >= c.Hi || c.Hi > state.Slots:
		return fmt.Errorf("a canary of slots [%d, %d), expected some of 0 to %d", c.Lo, c.Hi, state.Slots)
	case len(c.Modules) == 0:
		return fmt.Errorf("a canary of no operator")
	}
	return nil
}

func (c *Canary) objects(yield func(ObjectRef) bool) bool {
	if c == nil {
		return true
	}
	if c.Pipeline != "" && !yield(ObjectRef{c.Pipeline, SizeUnknown, "the canary's pipeline file"}) {
		return false
	}
	for _, mod := range c.Modules {
		if mod.Size > 0 && !yield(ObjectRef{mod.Digest, mod.Size, "the canary's module of operator " + mod.Operator}) {
			return false
		}
	}
	return true
}
