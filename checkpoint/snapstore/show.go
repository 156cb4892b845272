package snapstore

import (
	"context"

	"github.com/millrace-io/millrace/checkpoint"
)

// Shown is one snapshot in detail.
type Shown struct {
	Info
	Manifest  *checkpoint.Manifest
	Operators []checkpoint.OperatorInfo
}

// Show describes one snapshot. Errors: as Load.
func (s *Store) Show(_ context.Context, id checkpoint.ID) (Shown, error) {
	m, err := s.Load(id)
	if err != nil {
		return Shown{}, err
	}
	infos, err := s.List()
	if err != nil {
		return Shown{}, err
	}
	for _, i := range infos {
		if i.ID == id && i.Err == nil {
			return Shown{i, m, checkpoint.Describe(m)}, nil
		}
	}
	return Shown{}, ErrNoCheckpoint // its retention came between
}

// Diff says what changed from snapshot a to snapshot b. Errors: as Load.
func (s *Store) Diff(_ context.Context, a, b checkpoint.ID) (checkpoint.Diff, error) {
	from, err := s.Load(a)
	if err != nil {
		return checkpoint.Diff{}, err
	}
	to, err := s.Load(b)
	if err != nil {
		return checkpoint.Diff{}, err
	}
	return checkpoint.Compare(from, to), nil
}
