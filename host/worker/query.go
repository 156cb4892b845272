package worker

import (
	"context"
	"errors"

	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/stateview"
)

const callQuery = "query"

// Query implements Worker.
func (l *Local) Query(ctx context.Context, r stateview.Request) (stateview.Page, error) {
	j, err := l.running()
	if err != nil {
		return stateview.Page{}, err
	}
	return j.Query(ctx, r)
}

// Query implements Worker.
func (r *Remote) Query(ctx context.Context, q stateview.Request) (p stateview.Page, err error) {
	err = r.call(ctx, callQuery, q, &p)
	return p, err
}

// Kinds of errors of queries.
const (
	KindBadQuery ErrorKind = "bad_query" // it makes no sense
	KindNoState  ErrorKind = "no_state"  // there is no such operator or state
	KindNotYet   ErrorKind = "not_yet"   // there is no state to ask for yet
)

// queryKind is the kind of a query's error, "" if it is not one.
func queryKind(err error) ErrorKind {
	switch {
	case errors.Is(err, stateview.ErrQuery):
		return KindBadQuery
	case errors.Is(err, snapread.ErrNoState), errors.Is(err, operators.ErrNoLive):
		return KindNoState
	case errors.Is(err, job.ErrNotYet):
		return KindNotYet
	case errors.Is(err, snapstore.ErrDamaged):
		return KindDamaged
	}
	return ""
}
