package job

import (
	"errors"
	"fmt"
)

// ErrRepeatOnce: a job that repeats a stretch can only start where the stretch begins.
var ErrRepeatOnce = errors.New("a job that repeats what the clock did can't go on from a later checkpoint than it began with")

// repeatable says whether an attempt may use the logs of Options.Clocks.
func (a *attempt) repeatable() error {
	j := a.job
	if j.opts.Clocks == nil {
		return nil
	}
	if from := a.startedAt(); !j.repeats {
		j.repeats, j.repeatsFrom = true, from
	} else if from != j.repeatsFrom {
		return fmt.Errorf("%w: it began with %d, this is %d", ErrRepeatOnce, j.repeatsFrom, from)
	}
	return nil
}
