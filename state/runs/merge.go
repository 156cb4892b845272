package runs

import "context"

// Merge appends to w what the layers, newest first, hold within lo..hi together. Tombstones may be
// dropped if nothing older than the layers exists for these hashes. On error w is not finished: the caller
// aborts it.
func Merge(ctx context.Context, w *Writer, layers []Layer, lo, hi uint64, dropTombstones bool) error {
	m := NewMerged(layers, lo, hi)
	for n := 0; m.Next(); n++ {
		if n&4095 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if m.Tombstone() && dropTombstones {
			continue
		}
		if err := w.Add(m.Hash(), m.Key(), m.Value(), m.Tombstone()); err != nil {
			return err
		}
	}
	return m.Err()
}
