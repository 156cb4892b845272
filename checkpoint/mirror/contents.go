package mirror

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// Content is a snapshot of the mirror and what it takes there.
type Content struct {
	Snapshot
	File    *checkpoint.Manifest
	Objects int
	Bytes   int64 // as stored, each object once
	Added   int64 // of them, stored for this snapshot
}

// Contents describes the snapshots of the mirror, oldest first. Each one's index is read. Errors: as Catalog.
func (m *Mirror) Contents(ctx context.Context) ([]Content, error) {
	c, err := m.Catalog(ctx)
	if err != nil {
		return nil, err
	}
	m.forget(c)
	out := make([]Content, 0, len(c.Snapshots))
	for _, s := range c.Snapshots {
		x, man, err := m.index(ctx, s)
		if err != nil {
			return nil, err
		}
		e := Content{Snapshot: s, File: man, Objects: len(x.Objects), Bytes: s.Size, Added: s.Size}
		for _, at := range x.Objects {
			e.Bytes += at.Size
			if at.Sequence == s.ID {
				e.Added += at.Size
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// Newest is the id of the newest snapshot of the mirror; 0: there is none. Errors: as Catalog.
func (m *Mirror) Newest(ctx context.Context) (checkpoint.ID, error) {
	c, err := m.Catalog(ctx)
	if err != nil {
		return 0, err
	}
	return c.newest(), nil
}
