package main

import (
	"context"

	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/worker"
	"github.com/millrace-io/millrace/operators/stateview"
)

// queryKinds translates a worker's errors about queries.
var queryKinds = map[worker.ErrorKind]control.Kind{
	worker.KindBadQuery: control.KindBadRequest, worker.KindNoState: control.KindNotFound, worker.KindNotYet: control.KindBusy,
	worker.KindDamaged: control.KindDamaged,
}

// State implements control.Stateful.
func (p *served) State(ctx context.Context, r stateview.Request) (stateview.Page, error) {
	page, err := p.w.Query(ctx, r)
	if err == nil {
		return page, nil
	}
	if kind, ok := queryKinds[worker.Classify(err)]; ok {
		return page, &control.Error{Kind: kind, Message: err.Error()}
	}
	return page, controlError(err)
}

// serveQueries answers queries on a loopback address too; "" is nothing to do. The returned function ends it.
func (p *served) serveQueries(address string, t *talk) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	q, err := control.ServeQueries(address, p)
	if err != nil {
		return nil, refused(err)
	}
	t.line("state can be asked for at http://%s/v1/state/{operator}/{state}?key=...", q.Addr())
	return func() {
		if err := q.Close(); err != nil {
			t.line("note: queries: %v", err)
		}
	}, nil
}

var _ control.Stateful = (*served)(nil)
