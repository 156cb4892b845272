package table

import (
	"unsafe"
)

// Growth moves entries to a larger grid in hash order, in steps that inserts pay for. Entries below the
// hash split are in the new grid, the others in the old one, whose passed pages are given back.

// Positions moved per insert at least, and per GrowStep: few, since the pages of the larger grid are
// touched for the first time, which may cost more than the move.
const (
	growPerInsert = 5
	growPerStep   = 512
	growPiece     = 64 // moved at once: a piece ends at an empty position, so small ones would be twice as long
)

// maxLoad is how many entries a grid takes before it grows (3/4), fullLoad if it must not (4/5).
func maxLoad(homes uint64) int  { return int(homes / 4 * 3) }
func fullLoad(homes uint64) int { return int(homes / 5 * 4) }

// SetLimit sets the limit in bytes; 0: none. A table above it does not shrink but asks for evictions.
func (t *Table) SetLimit(bytes int64) {
	t.limit = bytes
	t.full = false
}

// Room says whether n more entries may be inserted without exceeding the limit. If not, EvictSome makes
// room. Without a limit there is always room.
func (t *Table) Room(n int) bool {
	if t.limit == 0 {
		return true
	}
	if t.arena.mapped > 0 && t.arena.mapped+t.cur.bytes() > t.limit && t.ext > 0 {
		return false
	}
	if t.moving || t.n+n <= maxLoad(t.cur.cap) {
		return t.n+n <= fullLoad(t.cur.cap)
	}
	return t.canGrow() || t.n+n <= fullLoad(t.cur.cap)
}

// nextSize is the grid to grow to: stride by what the entries need, homes twice as many or what the
// limit allows. Entries that would be in the arena for the most part get a longer stride.
func (t *Table) nextSize() (homes uint64, stride uintptr) {
	stride = t.cur.stride
	if t.ext*2 > t.n && t.n > 0 {
		mean := entryHeader + int(t.extBytes)/t.ext
		for stride < maxStride && int(stride) < mean {
			stride *= 2
		}
		if int(stride) < mean {
			stride = t.cur.stride // large ones: leave them all in the arena
		}
	}
	homes = t.cur.cap * 2
	if t.limit > 0 {
		most := max(t.limit-t.arena.mapped, 0) / int64(stride)
		homes = min(homes, uint64(max(most-4096, firstHomes)))
	}
	return min(homes, maxHomes), stride
}

func (t *Table) canGrow() bool {
	if t.moving || t.full {
		return false
	}
	homes, _ := t.nextSize()
	if homes < t.cur.cap+t.cur.cap/8 {
		t.full = true
	}
	return !t.full
}

// growStep starts growth when it is time and moves a piece of what is under way.
func (t *Table) growStep() error {
	if t.moving {
		if t.owed += t.pace; t.owed >= growPiece {
			t.owed -= t.move(growPiece)
		}
		return nil
	}
	if t.n < maxLoad(t.cur.cap) || !t.canGrow() && t.n < int(t.cur.cap/10*9) {
		return nil
	}
	return t.startGrow()
}

func (t *Table) startGrow() error {
	homes, stride := t.nextSize()
	if homes <= t.cur.cap { // over the limit rather than overflow
		homes = min(t.cur.cap*2, maxHomes)
	}
	g, err := newGrid(homes, stride, t.width, true)
	if err != nil {
		return err
	}
	if t.cur.warm != nil {
		t.cur.warm.stop.Store(true)
	}
	t.old, t.cur = t.cur, g
	t.moving, t.split, t.oldAt, t.freed, t.owed = true, 0, 0, 0, 0
	// Done when half of the new places are taken, be the new grid only a little larger.
	t.pace = max(growPerInsert, 2*t.old.slots/max(fullLoad(homes)-t.n, 1)+1)
	return nil
}

// growNow grows at once: only for a cluster that reaches the end of the pad.
func (t *Table) growNow() error {
	if !t.moving {
		if err := t.startGrow(); err != nil {
			return err
		}
	}
	for t.moving {
		t.move(StepPositions)
	}
	return nil
}

// Growing says that GrowStep has more to move.
func (t *Table) Growing() bool { return t.moving }

// GrowStep moves a piece of what is under way.
func (t *Table) GrowStep() {
	if t.moving {
		t.move(growPerStep)
	}
}

// move moves the entries of at least n positions, up to an empty one, and returns of how many.
func (t *Table) move(n int) int {
	g := &t.old
	first := t.oldAt
	i := first
	end := i + n
	e := g.at(i)
	for ; i < g.slots; i++ {
		h := *eHash(e)
		if h == 0 && i >= end {
			break
		}
		if h != 0 {
			t.moveEntry(e, h)
		}
		e = unsafe.Add(e, g.stride)
	}
	x, last := g.boundary(i + 1)
	if last {
		for ; i < g.slots; i++ { // what is in the pad
			if e := g.at(i); *eHash(e) != 0 {
				t.moveEntry(e, *eHash(e))
			}
		}
		g.free()
		t.moving, t.freed = false, 0
		if t.cur.warm != nil {
			t.cur.warm.finish(t.cur.mem)
		}
		return i - first
	}
	t.oldAt = i + 1
	t.split = x
	if w := t.cur.warm; w != nil {
		w.filled.Store(int64(t.cur.home(x)) * int64(t.cur.stride))
	}
	if passed := t.oldAt * int(g.stride) / hugePage * hugePage; passed > t.freed {
		dropPages(g.mem[t.freed:passed])
		t.freed = passed
	}
	return t.oldAt - first
}

// moveEntry copies an entry to the new grid. Tombstones that the runs have are left behind.
func (t *Table) moveEntry(e unsafe.Pointer, h uint64) {
	if *eFlags(e)&fTomb != 0 && !t.isDirty(*eEpoch(e)) && !t.isFrozen(*eEpoch(e)) {
		t.drop(e)
		return
	}
	g := &t.cur
	i := g.home(h - t.base)
	to := g.at(i)
	for *eHash(to) != 0 {
		to = unsafe.Add(to, g.stride)
		i++
	}
	if i >= g.slots {
		// twice as many homes as before, and still a cluster of the pad's length: keys are chosen
		// against a known seed, which is secret; nothing sensible is left to do
		panic("table: a cluster fills the pad of a grown table")
	}
	if *eFlags(e)&fExt == 0 || g.stride == t.old.stride {
		copyEntry(to, e, min(g.stride, t.old.stride))
		return
	}
	copyEntry(to, e, minStride)
	if size := payloadSize(e); entryHeader+size <= int(g.stride) {
		ref := *eExt(e)
		copy(unsafe.Slice((*byte)(unsafe.Add(to, entryHeader)), size), unsafe.Slice((*byte)(t.arena.at(ref)), size))
		*eFlags(to) &^= fExt
		t.release(ref, size)
	}
}

// Reserve sizes an empty table for so many entries, so that loading them does not grow it.
func (t *Table) Reserve(entries int) error {
	if t.n > 0 || t.moving || uint64(entries) < firstHomes/2 {
		return nil
	}
	homes := min(uint64(entries)*3/2+firstHomes, maxHomes)
	g, err := newGrid(homes, t.cur.stride, t.width, false)
	if err != nil {
		return err
	}
	t.cur.free()
	t.cur = g
	return nil
}
