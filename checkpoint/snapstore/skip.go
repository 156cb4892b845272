package snapstore

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
)

// SkipTo makes ids up to one count as used: a mirror has snapshots of them that are not here.
func (s *Store) SkipTo(id checkpoint.ID) error {
	if s.readOnly {
		return ErrReadOnly
	}
	s.mu.Lock()
	done := s.head.reserved >= id
	s.head.reserved = max(s.head.reserved, id)
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.writeHead(); err != nil {
		return fmt.Errorf("skip checkpoint ids: %w", err)
	}
	return nil
}
