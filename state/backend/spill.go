package backend

import (
	"github.com/millrace-io/millrace/state/table"
)

const (
	spillMin   = 256 << 10 // a spill is closed where a partition ends if it has so much,
	spillBytes = 4 << 20   // and in any place if it has so much, or at the end of a sweep
	wideBytes  = 1 << 20   // a smaller file is put under all partitions, so that it can be merged as a whole
)

// spill is what left the table dirty in part of a sweep: searchable in memory until it is a file.
type spill struct {
	recs   table.Records
	refs   []table.Ref // sorted but for those from sorted on
	sorted int
	lo, hi uint64 // hashes of the first and the last; of a closed spill
	from   int    // partition of the first
	cut    *cut   // in progress when the spill was closed: it is newer than that

	file *file // under background.mu
	held bool  // a cut has, or will have, a reference to file
}

// under says that the spill, and its file, belong under a partition.
func (s *spill) under(lo, hi uint64) bool {
	return s.recs.Bytes() < wideBytes || s.lo <= hi && s.hi >= lo
}

func (s *spill) add(hash uint64, key, value []byte, tombstone bool) error {
	ref, err := s.recs.Append(hash, key, value, tombstone)
	if err == nil {
		s.refs = append(s.refs, ref)
	}
	return err
}

// settle sorts what the last call of Table.EvictSome added: it is above all before it.
func (s *spill) settle() {
	s.recs.Sort(s.refs[s.sorted:])
	s.sorted = len(s.refs)
}

func (s *spill) find(hash uint64, key []byte) (value []byte, tombstone, found bool) {
	ref, ok := s.recs.Search(s.refs, hash, key)
	if !ok {
		return nil, false, false
	}
	_, value, tombstone = s.recs.Get(ref)
	return value, tombstone, true
}
