package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// SavepointRequest asks for a savepoint.
type SavepointRequest struct {
	Tag  string `json:"tag,omitempty"`  // a name for it; empty: none
	Note string `json:"note,omitempty"` // for people
	Stop bool   `json:"stop,omitempty"` // the pipeline ends with it, without a last watermark
}

// Savepoint is a complete one.
type Savepoint struct {
	ID          checkpoint.ID `json:"id"`
	Tag         string        `json:"tag,omitempty"`
	CreatedMS   int64         `json:"created_ms"`   // since 1970
	Millis      int64         `json:"ms"`           // from the request to the end
	Bytes       int64         `json:"bytes"`        // of its objects, each once
	StoredBytes int64         `json:"stored_bytes"` // that it added to the store
	Stopped     bool          `json:"stopped,omitempty"`
}

// StopRequest ends the pipeline.
type StopRequest struct {
	Now bool `json:"now,omitempty"` // without a checkpoint
}

// Stopped says how the pipeline ended.
type Stopped struct {
	Checkpoint checkpoint.ID `json:"checkpoint"`         // to go on from, 0: none
	Complete   bool          `json:"complete,omitempty"` // its input had ended before
}

func savepointRoutes(s *Server) {
	route(s, "POST /v0/savepoints", func(ctx context.Context, r SavepointRequest) (Savepoint, error) { return s.pipeline.Savepoint(ctx, r) })
	route(s, "POST /v0/stop", func(ctx context.Context, r StopRequest) (Stopped, error) { return s.pipeline.Stop(ctx, r) })
}

// Savepoint asks for a savepoint and waits until it is complete.
func (c *Client) Savepoint(ctx context.Context, r SavepointRequest) (Savepoint, error) {
	return call[SavepointRequest, Savepoint](ctx, c, "POST /v0/savepoints", r)
}

// Stop ends the pipeline and waits until it has ended.
func (c *Client) Stop(ctx context.Context, r StopRequest) (Stopped, error) {
	return call[StopRequest, Stopped](ctx, c, "POST /v0/stop", r)
}
