package snapstore

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
)

// WriteBeside adds a snapshot that was made from others, under an id from Reserve. It is kept like a savepoint,
// beside the line that a restart goes on with; in a store without one it is what a start begins from. All
// objects have to be in the store. After an error the snapshot does not exist, or is as complete as one is.
func (s *Store) WriteBeside(ctx context.Context, m *checkpoint.Manifest) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	chained := *m
	chained.ParentSHA = s.digestOf(m.Parent)
	data, err := checkpoint.EncodeSigned(&chained, s.signer)
	if err != nil {
		return fmt.Errorf("write snapshot %d: %w", m.ID, err)
	}
	return s.insert(&chained, data)
}
