package table

import (
	"unsafe"

	"github.com/millrace-io/millrace/state"
)

// What a batch does for keys it has just found: their positions are right but for those that an insert,
// a removal or growth has moved since, so only what is there is compared.

// hinted is the entry at p if it is the key's, or nil.
func (t *Table) hinted(p state.Pos, h uint64, key []byte) unsafe.Pointer {
	g := &t.cur
	if t.moving { // what has moved is still to be read where it was
		var mark state.Pos
		if g, mark = t.gridOf(h); p&oldPos != mark {
			return nil
		}
		p &^= oldPos
	}
	return t.at(g, p, h, key)
}

// at is the entry at p of a grid if it is the key's, or nil.
func (t *Table) at(g *grid, p state.Pos, h uint64, key []byte) unsafe.Pointer {
	if uint(p) >= uint(g.slots) {
		return nil
	}
	if e := g.at(int(p)); *eHash(e) == h && t.hasKey(e, key) {
		return e
	}
	return nil
}

// ValueAt is Value if the key's entry is at p; hit says so. The use does not count, as FindAll counted it.
func (t *Table) ValueAt(p state.Pos, h uint64, key []byte) (v []byte, ok, hit bool) {
	e := t.hinted(p, h, key)
	if e == nil {
		return nil, false, false
	}
	if *eFlags(e)&fTomb != 0 {
		return nil, false, true
	}
	return t.entryValue(e), true, true
}

// Overwrite is Put in the most usual case, and false if it is another one: the key's entry is at p, has a
// value of the same length and was already written since the last freeze.
func (t *Table) Overwrite(p state.Pos, h uint64, key, v []byte) bool {
	e := t.hinted(p, h, key)
	if e == nil || int(*eVlen(e)) != len(v) || *eEpoch(e) != t.epoch || *eFlags(e)&fTomb != 0 {
		return false
	}
	copy(t.entryValue(e), v)
	return true
}
