package backend

import (
	"slices"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// Restored implements state.Restored. f may store values of the keys it gets.
func (s *valueStore) Restored(f func(k state.Key, v []byte) error) error {
	var held []*file // what f stores may make files unneeded that are being read
	for p := range s.layers {
		for _, x := range s.layers[p].files {
			held = append(held, x.ref())
		}
	}
	defer func() {
		for _, x := range held {
			x.release()
		}
	}()
	var below [partitions][]runs.Layer
	for p := range s.layers {
		below[p] = slices.Clone(s.layers[p].runs)
	}
	for p := range below {
		lo, hi := s.part.bounds(p)
		m := runs.NewMerged(below[p], lo, hi)
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
