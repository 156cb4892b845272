package control

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint/storechange"
)

func snapshotRoutes(s *Server) {
	route(s, "POST /v0/snapshots", func(ctx context.Context, c storechange.Change) (storechange.Changed, error) {
		return s.pipeline.ChangeSnapshots(ctx, c)
	})
}

// ChangeSnapshots changes what the pipeline's snapshot store holds: its process has the lock.
func (c *Client) ChangeSnapshots(ctx context.Context, ch storechange.Change) (storechange.Changed, error) {
	return call[storechange.Change, storechange.Changed](ctx, c, "POST /v0/snapshots", ch)
}
