package ordered

import (
	"bytes"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

const copyChunk = 16 << 10

// iterator walks the entries between two composite keys as they were at its creation: the tree's pages
// are not changed while it is open, and the cold iterator is a snapshot. Entries of the tree are handed
// out where they lie; those of the cold space are copied, as they must stay valid until Close.
type iterator struct {
	l      *layered
	tree   cursor
	cold   *coldpebble.Iter
	end    []byte
	skip   int // bytes of the composite keys that are not the user's
	key    []byte
	value  []byte
	onTree bool // current entry is the tree's: the cursor stands on it
	onCold bool // and, or, the cold iterator does
	chunk  []byte
	err    error
	closed bool
}

// scan opens an iterator over [lo, hi) whose entries' keys come without their first skip bytes.
func (l *layered) scan(lo, hi []byte, skip int) (*iterator, error) {
	it := &iterator{l: l, end: append([]byte(nil), hi...), skip: skip}
	if l.space != nil && !l.cleared(lo) {
		c, err := l.space.Iter(lo, hi)
		if err != nil {
			return nil, err
		}
		l.coldReads++
		it.cold = c
	}
	l.tree.opened()
	l.openIters++
	it.tree.seek(l.tree, lo)
	return it, nil
}

// Next implements state.Iterator.
func (it *iterator) Next() bool {
	for !it.closed && it.err == nil {
		if it.onTree {
			it.tree.next()
		}
		if it.onCold {
			it.cold.Next()
		}
		it.onTree, it.onCold = it.tree.valid(), it.cold != nil && it.cold.Valid()
		if !it.onTree && !it.onCold {
			break
		}
		if it.choose() {
			return true
		}
	}
	it.onTree, it.onCold = false, false
	return false
}

// choose takes the lower of the two entries, the tree's if both have the key; false: it is none, because
// it was deleted or is behind the end.
func (it *iterator) choose() bool {
	var ck, cv []byte
	if it.onCold {
		if ck, cv, it.err = it.cold.Entry(); it.err != nil {
			return false
		}
	}
	if it.onTree {
		c := it.tree.cell()
		k := c.key()
		if bytes.Compare(k, it.end) >= 0 {
			it.tree.leaf, it.onTree = nil, false
			it.onCold = false // it stays where it is
			return false
		}
		if it.onCold {
			switch order := bytes.Compare(k, ck); {
			case order < 0:
				it.onCold = false
			case order > 0:
				it.onTree = false
			}
		}
		if it.onTree {
			if c.kind != kindValue {
				return false
			}
			it.key, it.value = k[it.skip:], c.value()
			return true
		}
	}
	it.key = it.keep(ck[it.skip:])
	it.value = it.keep(cv)
	return true
}

// keep copies b to where it stays valid until Close.
func (it *iterator) keep(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	if cap(it.chunk)-len(it.chunk) < len(b) {
		it.chunk = make([]byte, 0, max(copyChunk, len(b)))
	}
	n := len(it.chunk)
	it.chunk = append(it.chunk, b...)
	return it.chunk[n:len(it.chunk):len(it.chunk)]
}

// Entry implements state.Iterator.
func (it *iterator) Entry() (ukey, v []byte) { return it.key, it.value }

// Close implements state.Iterator. Closing again does nothing.
func (it *iterator) Close() error {
	if it.closed {
		return it.err
	}
	it.closed = true
	err := it.err
	if it.cold != nil {
		if e := it.cold.Close(); err == nil {
			err = e
		}
	}
	it.err = err
	it.l.openIters--
	it.l.tree.closed()
	return err
}

var _ state.Iterator = (*iterator)(nil)
