package snapstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
)

// ErrIDTaken: the id of a snapshot that comes from elsewhere is another snapshot's here, or may become one.
var ErrIDTaken = errors.New("the snapshot's id is taken here")

// Insert adds a snapshot that comes from elsewhere by its manifest file; its objects have to be in the store.
// It is kept like a savepoint. In a store that has a line to go on with it stays beside that; in an empty one
// it is what a start begins from. One that is there with the same bytes is no error. renumber gives it a new
// id, and a new manifest that names the old one as its origin, instead of ErrIDTaken. The id it has is
// returned. Errors also: those of checkpoint.Decode; a missing object, by name.
func (s *Store) Insert(ctx context.Context, file []byte, renumber bool) (checkpoint.ID, error) {
	if s.readOnly {
		return 0, ErrReadOnly
	}
	m, err := checkpoint.Decode(file)
	if err != nil {
		return 0, err
	}
	if s.verifier != nil {
		if err := checkpoint.VerifySignature(file, s.verifier); err != nil {
			return 0, err
		}
	}
	if s.digestOf(m.ID) == sha256Hex(file) {
		return m.ID, nil
	}
	if err := s.free(m.ID); err != nil {
		if !renumber {
			return 0, err
		}
		if m, file, err = s.renumber(m, file); err != nil {
			return 0, err
		}
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return m.ID, s.insert(m, file)
}

// free says whether an id may be given to a snapshot that comes from elsewhere.
func (s *Store) free(id checkpoint.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manifests[id] != nil || s.registry.Snapshots[id].Savepoint {
		return fmt.Errorf("%w: there is a snapshot %d", ErrIDTaken, id)
	}
	if s.reservedHere && id <= s.head.reserved {
		return fmt.Errorf("%w: the running job may use %d", ErrIDTaken, id)
	}
	return nil
}

// renumber gives a snapshot a new id.
func (s *Store) renumber(m *checkpoint.Manifest, file []byte) (*checkpoint.Manifest, []byte, error) {
	s.mu.Lock()
	used := s.reservedHere
	s.mu.Unlock()
	id, err := s.Reserve(1)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	s.reservedHere = used
	s.mu.Unlock()
	derived := m.Derive(file)
	derived.ID, derived.Kind = id, m.Kind
	data, err := checkpoint.EncodeSigned(derived, s.signer)
	return derived, data, err
}

// insert publishes a manifest as it is.
func (s *Store) insert(m *checkpoint.Manifest, file []byte) error {
	fresh := false
	if _, err := s.newest(); errors.Is(err, ErrNoCheckpoint) {
		fresh = true
	} else if err != nil {
		return err
	}
	enter := func(complete bool) error {
		return s.changeRegistry(func(r registry) error {
			e := r.Snapshots[m.ID]
			e.Savepoint, e.Complete, e.Withdrawn = true, complete, !fresh
			r.Snapshots[m.ID] = e
			return nil
		})
	}
	if err := enter(false); err != nil {
		return err
	}
	s.names.Lock()
	defer s.names.Unlock()
	s.mu.Lock()
	err := s.present(m)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.crash("K11")
	if _, err := s.publish(fmt.Sprintf("manifest-%d", m.ID), s.manifestPath(m.ID), file); err != nil {
		return err
	}
	s.mu.Lock()
	s.noteManifest(m, file)
	if fresh {
		s.head.latest = m.ID
	}
	s.mu.Unlock()
	// A head and an entry that lag are caught up at the next start.
	_ = s.writeHead()
	_ = enter(true)
	return nil
}
