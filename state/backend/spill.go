package backend

import (
	"github.com/millrace-io/millrace/state/table"
)

// spillBytes is the size from which a spill is closed; it is at its partition's end at the latest.
const spillBytes = 4 << 20

// spill is what left one partition of the table dirty: searchable in memory until it is a file.
type spill struct {
	part int
	recs table.Records
	refs []table.Ref // sorted but for those from sorted on
	sort int
	cut  *cut // in progress when the spill was closed: it is newer than that

	file *file // under background.mu
	held bool  // a cut has, or will have, a reference to file
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
	s.recs.Sort(s.refs[s.sort:])
	s.sort = len(s.refs)
}

func (s *spill) find(hash uint64, key []byte) (value []byte, tombstone, found bool) {
	ref, ok := s.recs.Search(s.refs, hash, key)
	if !ok {
		return nil, false, false
	}
	_, value, tombstone = s.recs.Get(ref)
	return value, tombstone, true
}
