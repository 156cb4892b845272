package table

import (
	"unsafe"
)

// An entry's epoch says where its last version is: 0: in the runs; e: written in epoch e, so it belongs
// to the cut e; copied|c: copied for cut c, in the runs once that is installed.

// isDirty says that the runs do not have the entry as it is.
func (t *Table) isDirty(ep uint32) bool {
	if ep&copied != 0 {
		return ep&^copied > t.installed
	}
	return ep != 0
}

// isFrozen says that the cut in progress still needs the entry as it is.
func (t *Table) isFrozen(ep uint32) bool {
	if !t.freezing || ep == 0 || ep == t.epoch {
		return false
	}
	if ep&copied != 0 { // of an older cut that failed
		return ep&^copied > t.installed && ep&^copied != t.cut
	}
	return true
}

// write makes the entry dirty. The version that the cut in progress needs goes to the side first.
func (t *Table) write(e unsafe.Pointer) error {
	ep := eEpoch(e)
	if *ep == t.epoch {
		return nil
	}
	if t.isFrozen(*ep) {
		if err := t.copyTo(&t.side, e); err != nil {
			return err
		}
	}
	*ep = t.epoch
	t.dirty++
	return nil
}

// copyTo copies an entry for the cut: from then on runs hold its key.
func (t *Table) copyTo(r *Records, e unsafe.Pointer) error {
	_, err := r.Append(*eHash(e), t.entryKey(e), t.entryValue(e), *eFlags(e)&fTomb != 0)
	if err == nil {
		*eFlags(e) &^= fFresh
	}
	return err
}

// Freeze starts the cut of everything dirty now and returns its number. The cut before it is done. Step
// copies.
func (t *Table) Freeze() uint32 {
	t.cut = t.epoch
	t.epoch++
	t.freezing, t.cursor, t.dirty = true, 0, 0
	return t.cut
}

// Freezing says that Step has more to copy.
func (t *Table) Freezing() bool { return t.freezing }

// Take returns what the cut copied, when it is not Freezing any more: in the table's order, and what was
// overwritten before it was copied, in any order. Both are the caller's to free. No key is in both.
func (t *Table) Take() (snap, side Records) {
	snap, side = t.snap, t.side
	t.snap, t.side = Records{}, Records{}
	return snap, side
}

// Installed says that a cut is in the runs: its entries are clean unless written since. A cut for which
// it is never called failed, and the next one holds its entries again.
func (t *Table) Installed(cut uint32) { t.installed = cut }

// Abort ends a freeze whose cut will not be written.
func (t *Table) Abort() {
	t.freezing = false
	t.snap.Free()
	t.side.Free()
}

// Step copies what the cut needs in up to StepPositions positions, and removes tombstones that the runs
// have, too. On error the freeze can only be aborted.
func (t *Table) Step() error {
	for left := StepPositions; t.freezing && left > 0; {
		g := &t.cur
		if t.moving && t.cursor >= t.split {
			g = &t.old
		}
		n, err := t.copySome(g, left)
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// copySome goes on in one grid until an empty position, at least n positions on if there are so many.
func (t *Table) copySome(g *grid, n int) (visited int, err error) {
	first := g.home(t.cursor)
	inCur := g == &t.cur
	last := g.slots // where the grid's part ends at the first empty position
	if t.moving && inCur && t.split > 0 {
		last = g.home(t.split - 1)
	} else if t.moving && inCur {
		last = 0
	}
	i := first
	e := g.at(i)
	for {
		h := *eHash(e)
		if h == 0 {
			if i-first >= n || i >= last {
				break
			}
		} else if gone, err := t.visit(g, i, e); err != nil {
			return i - first, err
		} else if gone {
			continue // another entry may be here now
		}
		if i >= g.slots {
			break
		}
		e = unsafe.Add(e, g.stride)
		i++
	}
	x, end := g.boundary(i + 1)
	switch {
	case inCur && t.moving && (end || i >= last || x > t.split):
		t.cursor = t.split
	case end:
		t.freezing = false
	default:
		t.cursor = x
	}
	return max(i-first, 1), nil
}

// visit copies an entry if the cut needs it. Gone: it was a tombstone that the runs have.
func (t *Table) visit(g *grid, i int, e unsafe.Pointer) (gone bool, err error) {
	ep := eEpoch(e)
	if t.isFrozen(*ep) {
		if err := t.copyTo(&t.snap, e); err != nil {
			return false, err
		}
		*ep = copied | t.cut
		return false, nil
	}
	if *eFlags(e)&fTomb != 0 && !t.isDirty(*ep) {
		t.drop(e)
		t.shift(g, i)
		return true, nil
	}
	return false, nil
}
