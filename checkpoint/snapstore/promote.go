package snapstore

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
)

// Promote makes a savepoint of what a restart goes on from: a snapshot with the same contents, which does not
// expire. No job may be running on the store. nowMS is its time of making, since 1970. A crash leaves the
// savepoint or nothing. Errors: ErrNoCheckpoint; those of Latest and WriteManifest.
func (s *Store) Promote(ctx context.Context, nowMS int64) (checkpoint.ID, error) {
	if s.readOnly {
		return 0, ErrReadOnly
	}
	latest, err := s.Latest(ctx)
	if err != nil {
		return 0, err
	}
	id, err := s.Reserve(1)
	if err != nil {
		return 0, err
	}
	m := *latest
	m.Format, m.ID, m.Kind, m.Parent, m.Origin = checkpoint.FormatVersion, id, checkpoint.KindSavepoint, latest.ID, nil
	m.CreatedMS, m.StoredBytes = nowMS, 0
	if err := s.WriteManifest(ctx, &m); err != nil {
		return 0, fmt.Errorf("savepoint of snapshot %d: %w", latest.ID, err)
	}
	return id, nil
}
