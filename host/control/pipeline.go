// Package control lets other processes of the same user talk to a running pipeline: a server on a socket in
// its state folder, and a client. Requests and answers are JSON over HTTP, errors are problem+json. It knows
// nothing of what runs: that is behind Pipeline, which the process that runs it implements.
//
//	pipeline.go          what a pipeline can be asked
//	server.go client.go  the two ends, and how a topic's routes are made
//	socket.go peer_*.go  the socket and who may use it
//	info.go savepoint.go one file per topic: messages, routes, client methods
package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint/storechange"
)

// Pipeline is a running pipeline as other processes see it. Its methods may be called by several goroutines.
// Errors are best an *Error, whose kind the other side can act upon; others are of KindFailed. A topic beyond
// these has an interface of its own, which the Pipeline may implement too.
type Pipeline interface {
	Info(ctx context.Context) (Info, error)
	// Savepoint makes one that starts after the call and returns when it is complete. One that was given up
	// says why.
	Savepoint(ctx context.Context, r SavepointRequest) (Savepoint, error)
	// ChangeSnapshots changes what its snapshot store holds.
	ChangeSnapshots(ctx context.Context, c storechange.Change) (storechange.Changed, error)
	// Stop ends the pipeline and returns when it has ended.
	Stop(ctx context.Context, r StopRequest) (Stopped, error)
}

// topics are the routes of all topics.
var topics = []func(*Server){
	infoRoutes,
	savepointRoutes,
	queryRoutes,
	upgradeRoutes,
	canaryRoutes,
	snapshotRoutes,
}
