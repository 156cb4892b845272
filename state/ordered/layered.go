package ordered

import (
	"bytes"
	"encoding/binary"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

const evictBytes = 64 << 10 // of tree that one eviction takes, about a millisecond's worth

// layered is a tree that holds everything, or, once it was over its limit, the newest writes over a cold
// space: then the tree has tombstones and clear markers, too.
type layered struct {
	tree  *tree
	env   *coldpebble.Env   // nil: everything stays in memory
	space *coldpebble.Space // nil until the first eviction
	limit int64
	hand  []byte // where the next eviction starts: sorted batches make cheap compactions
	vbuf  []byte // value that get returned
	key   []byte

	markers   int64 // clear markers in the tree
	evictions int64 // entries moved down
	coldReads int64
	openIters int64
}

// room moves entries down while the tree with extra other bytes is over the limit.
func (l *layered) room(extra int64) error {
	if l.env == nil {
		return nil
	}
	for l.tree.bytes()+extra > l.limit && l.tree.count > 0 {
		// pages that iterators hold come back later: evicting more would not help
		before := l.tree.bytes()
		if err := l.evict(); err != nil {
			return err
		}
		if l.tree.open > 0 && l.tree.bytes() >= before {
			return nil
		}
	}
	return nil
}

// evict writes the next piece of the tree in key order to the cold space.
func (l *layered) evict() error {
	if l.space == nil {
		s, err := l.env.Space()
		if err != nil {
			return err
		}
		l.space = s
	}
	b := l.space.Batch()
	var c cursor
	c.seek(l.tree, l.hand)
	if !c.valid() {
		l.hand = l.hand[:0]
		c.seek(l.tree, nil)
	}
	size, n, markers := 0, int64(0), int64(0)
	for ; c.valid() && size < evictBytes; c.next() {
		e := c.cell()
		if err := l.moveDown(b, e); err != nil {
			b.Drop()
			return err
		}
		if e.kind == kindClear {
			markers++
		}
		size += int(e.klen) + int(e.x) + cellHead + 2
		n++
	}
	var end []byte
	if c.valid() {
		end = append(end, c.cell().key()...)
	} else {
		end = bytes.Repeat([]byte{0xFF}, state.HashBytes+1) // above every composite key
	}
	if err := b.Commit(); err != nil {
		return err
	}
	if _, _, err := l.tree.removeRange(l.hand, end); err != nil {
		return err
	}
	l.evictions += n
	l.markers -= markers
	l.hand = append(l.hand[:0], end...)
	return nil
}

func (l *layered) moveDown(b coldpebble.Batch, e *cell) error {
	switch e.kind {
	case kindTomb:
		return b.Delete(e.key())
	case kindClear:
		prefix := append(l.key[:0], e.key()...)
		l.key = prefix
		return b.DeleteRange(e.key(), state.PrefixEnd(prefix))
	}
	return b.Set(e.key(), e.value())
}

// get is the entry of a composite key; v is valid until the next call.
func (l *layered) get(comp []byte) (v []byte, ok bool, err error) {
	v, kd, ok := l.tree.get(comp)
	if ok {
		return v, kd == kindValue, nil
	}
	if l.space == nil || l.cleared(comp) {
		return nil, false, nil
	}
	l.coldReads++
	l.vbuf, ok, err = l.space.Get(l.vbuf[:0], comp)
	return l.vbuf, ok, err
}

// cleared says whether the key of comp has a clear marker in the tree.
func (l *layered) cleared(comp []byte) bool {
	if l.markers == 0 {
		return false
	}
	n := state.PrefixLen(comp)
	l.key = append(l.key[:0], comp[:n]...)
	_, _, ok := l.tree.get(state.ClearMarker(l.key))
	return ok
}

func (l *layered) put(comp, v []byte) error { return l.tree.put(comp, v, kindValue) }

// del removes an entry. Changed is false if it is sure that there was none.
func (l *layered) del(comp []byte) (changed bool, err error) {
	if l.space == nil {
		return l.tree.del(comp)
	}
	return true, l.tree.put(comp, nil, kindTomb)
}

// clear removes all entries with the prefix of a key; prefix is changed.
func (l *layered) clear(prefix []byte) (changed bool, err error) {
	end := state.PrefixEnd(append([]byte(nil), prefix...))
	marker := state.ClearMarker(prefix)
	had := false
	if l.markers > 0 {
		_, _, had = l.tree.get(marker)
	}
	n, _, err := l.tree.removeRange(marker, end)
	if had && err == nil {
		l.markers--
	}
	if l.space == nil || err != nil {
		return n > 0, err
	}
	if err := l.tree.put(marker, nil, kindClear); err != nil {
		return true, err
	}
	l.markers++
	return true, nil
}

// dropRange removes all entries in [lo, hi), wherever they are.
func (l *layered) dropRange(lo, hi []byte) error {
	if _, _, err := l.tree.removeRange(lo, hi); err != nil || l.space == nil {
		return err
	}
	b := l.space.Batch()
	if err := b.DeleteRange(lo, hi); err != nil {
		b.Drop()
		return err
	}
	return b.Commit()
}

func (l *layered) close() error {
	l.tree.close()
	if l.space == nil {
		return nil
	}
	s := l.space
	l.space = nil
	return s.Close()
}

func appendHash(b []byte, h uint64) []byte { return binary.BigEndian.AppendUint64(b, h) }
