package snapstore

import (
	"fmt"
	"slices"
)

// TagFree says whether a snapshot that is yet to be made can have a tag. Errors: ErrBadTag; ErrTagTaken.
func (s *Store) TagFree(tag string) error {
	if err := checkTag(tag); err != nil {
		return err
	}
	r, err := s.said()
	if err != nil {
		return err
	}
	for id, e := range r.Snapshots {
		if slices.Contains(e.Tags, tag) {
			return fmt.Errorf("%w: %q is on snapshot %d", ErrTagTaken, tag, id)
		}
	}
	return nil
}
