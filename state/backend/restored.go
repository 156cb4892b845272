package backend

import (
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// Restored implements state.Restored.
func (s *valueStore) Restored(f func(k state.Key, v []byte) error) error {
	for p := range s.layers {
		lo, hi := s.part.bounds(p)
		m := runs.NewMerged(s.layers[p].runs, lo, hi)
		for m.Next() {
			if m.Tombstone() {
				continue
			}
			if err := f(state.Key{Hash: m.Hash(), Bytes: m.Key()}, m.Value()); err != nil {
				return err
			}
		}
		if err := s.fail(m.Err()); err != nil {
			return err
		}
	}
	return nil
}
