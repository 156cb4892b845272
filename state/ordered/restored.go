package ordered

import (
	"bytes"

	"github.com/millrace-io/millrace/state"
)

var _ state.RestoredEntries = (*Store)(nil)

// RestoredEntries implements state.RestoredEntries.
func (s *Store) RestoredEntries(f func(k state.Key, ukey, v []byte) error) error {
	end := bytes.Repeat([]byte{0xFF}, state.HashBytes+1) // above every composite key
	it, err := s.l.scan(nil, end, 0)
	if err != nil {
		return err
	}
	var buf []byte
	for err == nil && it.Next() {
		comp, v := it.Entry()
		var k state.Key
		var ukey []byte
		if k, ukey, err = state.DecodeComposite(comp, buf[:0]); err == nil {
			buf = k.Bytes
			err = f(k, ukey, v)
		}
	}
	if e := it.Close(); err == nil {
		err = e
	}
	return err
}
