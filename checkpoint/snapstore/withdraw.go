package snapstore

import (
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// Withdraw makes id the snapshot to start from. The checkpoints after it are removed, newest first; savepoints
// and tagged snapshots after it stay, beside the line that a restart goes on with. It returns all that were
// withdrawn; what they published has to be withdrawn by the caller. It takes effect at once or, after a crash,
// not at all. Errors: ErrNoCheckpoint if id is not there.
func (s *Store) Withdraw(id checkpoint.ID) ([]checkpoint.ID, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	if _, err := s.Load(id); err != nil {
		return nil, err
	}
	said, err := s.said()
	if err != nil {
		return nil, err
	}
	if said.Snapshots[id].Withdrawn { // it comes back into the line
		err := s.changeRegistry(func(r registry) error {
			e := r.Snapshots[id]
			e.Withdrawn = false
			r.Snapshots[id] = e
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	old := s.head
	s.head.latest, s.head.void = id, max(s.head.reserved, s.head.latest)
	s.mu.Unlock()
	if err := s.writeHead(); err != nil {
		s.mu.Lock()
		s.head.latest, s.head.void = old.latest, old.void
		s.mu.Unlock()
		return nil, err
	}
	return s.dropWithdrawn()
}

// dropWithdrawn removes the checkpoints that the head calls withdrawn, and marks what stays.
func (s *Store) dropWithdrawn() (all []checkpoint.ID, err error) {
	s.mu.Lock()
	h := s.head
	s.mu.Unlock()
	var gone, stay []checkpoint.ID
	for _, id := range slices.Backward(s.known()) {
		switch {
		case !h.withdrawn(id):
		case s.kept(id):
			stay = append(stay, id)
			all = append(all, id)
		default:
			gone = append(gone, id)
			all = append(all, id)
		}
	}
	if len(stay) > 0 {
		err := s.changeRegistry(func(r registry) error {
			for _, id := range stay {
				e := r.Snapshots[id]
				e.Withdrawn = true
				r.Snapshots[id] = e
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, s.dropManifests(gone)
}

// finishWithdrawal does at a start what a crash kept Withdraw from doing.
func (s *Store) finishWithdrawal() error {
	s.mu.Lock()
	ok := s.registryErr == nil && s.head.void > s.head.latest
	s.mu.Unlock()
	if !ok {
		return nil
	}
	_, err := s.dropWithdrawn()
	return err
}
