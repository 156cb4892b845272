package job

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// skip notes a record that spoilt an instance whose memory is state, so that the next attempt hands it to the
// error policy; false: err is something else, or the record was to be skipped already.
func (j *Job) skip(ctx context.Context, err error) bool {
	var lost *guestop.LostMemory
	if ctx.Err() != nil || j.readsStdin() || !errors.As(err, &lost) {
		return false
	}
	s := lost.Skip
	if slices.ContainsFunc(j.skips, func(o operators.Skip) bool {
		return o.Operator == s.Operator && o.Pos == s.Pos && o.Hash == s.Hash
	}) {
		return false
	}
	j.skips = append(j.skips, s)
	j.event(Event{Kind: EventRestarting, Message: err.Error()})
	return true
}

// skipsOf are the records of an operator that the error policy gets.
func (j *Job) skipsOf(operator string) []operators.Skip {
	var of []operators.Skip
	for _, s := range j.skips {
		if s.Operator == operator {
			of = append(of, s)
		}
	}
	return of
}
