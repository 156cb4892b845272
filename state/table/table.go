// Package table has the hash-ordered hot table: the part of a value state that is in memory, outside the
// Go heap. Position order is hash order, so a scan by position gives a run's order without a sort, slots
// are contiguous and growth is a sequential copy.
//
// One goroutine owns a table. Nothing it does takes longer than a bounded step: a freeze (Freeze, Step),
// growth and eviction go on in pieces between batches. All three keep their place as a hash, never as a
// position, and stop only where a position is empty: then every entry below the hash is before the
// position and every other one behind it, and later inserts and removals can't change that for an entry
// that matters. So they may interleave freely.
package table

import (
	"fmt"
	"unsafe"

	"github.com/millrace-io/millrace/state"
)

// StepPositions is how many positions one step of a freeze visits.
const StepPositions = 2048

const (
	firstHomes = 1024
	maxHomes   = 1 << 29
	oldPos     = 1 << 30 // in a state.Pos: the position is in the grid that growth leaves
	copied     = 1 << 31 // in an epoch: the entry is as it was copied for the cut of the rest
)

// Table maps keys to values, tombstones included.
type Table struct {
	cur  grid
	old  grid // while moving: entries with relative hash >= split
	base uint64
	// width of the hash range in slots
	width  uint64
	moving bool
	split  uint64
	oldAt  int // position in old behind which nothing has moved
	freed  int // bytes of old given back
	pace   int // positions moved per insert
	owed   int // positions that inserts have to move, less than 0: moved in advance

	n, tombs int
	arena    arena
	ext      int // entries in the arena
	extBytes int64
	limit    int64 // bytes; 0: none
	full     bool  // grown to the limit
	age      uint8

	epoch     uint32 // of writes now
	installed uint32 // newest cut that is in the runs
	freezing  bool
	cut       uint32
	cursor    uint64 // relative hash below which all is copied
	snap      Records
	side      Records
	dirty     int // written in this epoch

	hand  uint64 // relative hash where the next eviction starts
	touch uint64 // keeps touches from being dropped
}

// New makes an empty table for keys in the slots of r. The limit is in bytes, 0 for none.
func New(r state.Range, limit int64) (*Table, error) {
	if r.Hi <= r.Lo || r.Hi > state.Slots {
		return nil, fmt.Errorf("table: slots [%d, %d) are no range", r.Lo, r.Hi)
	}
	t := &Table{base: uint64(r.Lo) << 48, width: uint64(r.Hi - r.Lo), epoch: 1, limit: limit}
	g, err := newGrid(firstHomes, minStride, t.width, false)
	if err != nil {
		return nil, err
	}
	t.cur = g
	return t, nil
}

// Close frees all memory.
func (t *Table) Close() {
	t.cur.free()
	t.old.free()
	t.arena.close()
	t.snap.Free()
	t.side.Free()
}

// Len is the number of entries, tombstones included; Tombstones of those; Dirty of those written since
// the last freeze.
func (t *Table) Len() int { return t.n }

// Tombstones is the number of entries that say that a key is removed.
func (t *Table) Tombstones() int { return t.tombs }

// Dirty is the number of entries written since the last freeze.
func (t *Table) Dirty() int { return t.dirty }

// Mem is the memory mapped, in bytes, without pages given back.
func (t *Table) Mem() int64 {
	return t.cur.bytes() + t.old.bytes() - int64(t.freed) + t.arena.mapped + t.snap.bytes + t.side.bytes
}

// gridOf is the grid that holds a hash, and the mark of its positions.
func (t *Table) gridOf(h uint64) (*grid, state.Pos) {
	if t.moving && h-t.base >= t.split {
		return &t.old, oldPos
	}
	return &t.cur, 0
}

// entry is the entry at a position that is surely one.
func (t *Table) entry(p state.Pos) unsafe.Pointer {
	if p&oldPos != 0 {
		return t.old.at(int(p &^ oldPos))
	}
	return t.cur.at(int(p))
}

// Find returns where a key's entry is, or NoPos. The hint is a position where it was before, or NoPos.
func (t *Table) Find(hint state.Pos, h uint64, key []byte) state.Pos {
	g, mark := t.gridOf(h)
	if hint >= 0 && hint&oldPos == mark && int(hint&^oldPos) < g.slots {
		if e := g.at(int(hint &^ oldPos)); *eHash(e) == h && t.hasKey(e, key) {
			return hint
		}
	}
	if i, ok := t.find(g, h, key); ok {
		return state.Pos(i) | mark
	}
	return state.NoPos
}

// FindAll is Find for a batch, in passes so that cache misses overlap. Entries found count as used.
func (t *Table) FindAll(keys []state.Key, pos []state.Pos) {
	var sum uint64
	for i := range keys {
		g, _ := t.gridOf(keys[i].Hash)
		sum += *eHash(g.at(g.home(keys[i].Hash - t.base)))
	}
	if t.ext > 0 {
		for i := range keys {
			g, _ := t.gridOf(keys[i].Hash)
			e := g.at(g.home(keys[i].Hash - t.base))
			if *eHash(e) == keys[i].Hash && *eFlags(e)&fExt != 0 {
				sum += uint64(*(*byte)(t.arena.at(*eExt(e))))
			}
		}
	}
	t.touch += sum
	for i := range keys {
		g, mark := t.gridOf(keys[i].Hash)
		p := state.NoPos
		if j, ok := t.find(g, keys[i].Hash, keys[i].Bytes); ok {
			p = state.Pos(j) | mark
			*eAge(g.at(j)) = t.age
		}
		pos[i] = p
	}
}

// Value is what the entry at p, a position just found, holds: a value, or false for a tombstone. The
// slice is valid until the table changes.
func (t *Table) Value(p state.Pos) ([]byte, bool) {
	e := t.entry(p)
	*eAge(e) = t.age
	if *eFlags(e)&fTomb != 0 {
		return nil, false
	}
	return t.entryValue(e), true
}

// Put sets the value of the entry at p, a position just found, and returns where it is now.
func (t *Table) Put(p state.Pos, v []byte) error {
	e := t.entry(p)
	if int(*eVlen(e)) != len(v) {
		return t.resize(e, v)
	}
	if err := t.write(e); err != nil {
		return err
	}
	copy(t.entryValue(e), v)
	if *eFlags(e)&fTomb != 0 { // a tombstone became an empty value
		t.revive(e)
	}
	return nil
}

func (t *Table) revive(e unsafe.Pointer) {
	*eFlags(e) &^= fTomb
	t.tombs--
}

// resize is Put where the length changes: nothing changes on error.
func (t *Table) resize(e unsafe.Pointer, v []byte) error {
	before, klen := payloadSize(e), int(*eKlen(e))
	after := klen + len(v)
	ext := *eFlags(e)&fExt != 0
	inline := entryHeader+after <= int(t.strideOf(e))
	switch {
	case !ext && inline || ext && !inline && sameClass(before, after):
		if err := t.write(e); err != nil {
			return err
		}
	case inline: // out of the arena
		if err := t.write(e); err != nil {
			return err
		}
		ref := *eExt(e)
		copy(unsafe.Slice((*byte)(unsafe.Add(e, entryHeader)), klen), unsafe.Slice((*byte)(t.arena.at(ref)), klen))
		t.release(ref, before)
		*eFlags(e) &^= fExt
	default: // into the arena, or to another place there
		ref, err := t.arena.alloc(after)
		if err != nil {
			return err
		}
		if err := t.write(e); err != nil {
			t.arena.release(ref, after)
			return err
		}
		copy(unsafe.Slice((*byte)(t.arena.at(ref)), klen), t.entryKey(e))
		if ext {
			t.release(*eExt(e), before)
		}
		*eExt(e) = ref
		*eFlags(e) |= fExt
		t.ext++
		t.extBytes += int64(after)
		before = after
	}
	if *eFlags(e)&fExt != 0 {
		t.extBytes += int64(after - before)
	}
	*eVlen(e) = uint32(len(v))
	copy(t.entryValue(e), v)
	if *eFlags(e)&fTomb != 0 {
		t.revive(e)
	}
	return nil
}

func (t *Table) release(ref uint64, size int) {
	t.arena.release(ref, size)
	t.ext--
	t.extBytes -= int64(size)
}

func sameClass(a, b int) bool {
	if a > arenaMax || b > arenaMax {
		return a == b
	}
	x, _ := arenaClass(a)
	y, _ := arenaClass(b)
	return x == y
}

// strideOf is the stride of the grid an entry is in.
func (t *Table) strideOf(e unsafe.Pointer) uintptr {
	if t.moving {
		if d := uintptr(e) - uintptr(t.old.p); d < uintptr(len(t.old.mem)) {
			return t.old.stride
		}
	}
	return t.cur.stride
}

// Origin says what is known of a key's older versions when it is inserted.
type Origin int

// Origins.
const (
	Clean   Origin = iota // the entry is as the runs have it
	Fresh                 // a new value; the runs say that the key is absent
	Unknown               // a new value; runs may have older versions
)

// Insert adds an entry for a key that has none and returns where it is. Growth happens by and by.
func (t *Table) Insert(h uint64, key, v []byte, tombstone bool, o Origin) (state.Pos, error) {
	if err := t.growStep(); err != nil {
		return state.NoPos, err
	}
	var g *grid
	var mark state.Pos
	var i int
	for range 4 {
		g, mark = t.gridOf(h)
		if i, _ = t.find(g, h, key); i < g.slots {
			break
		}
		if err := t.growNow(); err != nil {
			return state.NoPos, err
		}
	}
	if i >= g.slots {
		return state.NoPos, fmt.Errorf("table: no room for hash %016x among %d entries: its neighbours fill the pad", h, t.n)
	}
	e := g.at(i)
	*eFlags(e) = 0
	if entryHeader+len(key)+len(v) > int(g.stride) {
		ref, err := t.arena.alloc(len(key) + len(v))
		if err != nil {
			return state.NoPos, err
		}
		*eExt(e) = ref
		*eFlags(e) = fExt
		t.ext++
		t.extBytes += int64(len(key) + len(v))
	}
	*eHash(e) = h
	*eKlen(e) = uint16(len(key))
	*eVlen(e) = uint32(len(v))
	*eAge(e) = t.age
	*eEpoch(e) = 0
	if o != Clean {
		*eEpoch(e) = t.epoch
		t.dirty++
	}
	if o == Fresh {
		*eFlags(e) |= fFresh
	}
	if tombstone {
		*eFlags(e) |= fTomb
		t.tombs++
	}
	copy(t.entryKey(e), key)
	copy(t.entryValue(e), v)
	t.n++
	return state.Pos(i) | mark, nil
}

// Remove clears the value of the entry at p, a position just found: the entry goes, or becomes a
// tombstone where the runs may hold the key.
func (t *Table) Remove(p state.Pos) error {
	e := t.entry(p)
	if *eFlags(e)&fTomb != 0 {
		return nil
	}
	if err := t.write(e); err != nil { // may clear fFresh
		return err
	}
	if *eFlags(e)&fFresh != 0 {
		t.dirty--
		t.drop(e)
		g := &t.cur
		if p&oldPos != 0 {
			g = &t.old
		}
		t.shift(g, int(p&^oldPos))
		return nil
	}
	if *eFlags(e)&fExt != 0 {
		// the key alone may be small enough to come out of the arena
		if err := t.resize(e, nil); err != nil {
			return err
		}
	}
	*eVlen(e) = 0
	*eFlags(e) |= fTomb
	t.tombs++
	return nil
}

// drop forgets an entry and its payload; its position is the caller's to close.
func (t *Table) drop(e unsafe.Pointer) {
	if *eFlags(e)&fExt != 0 {
		t.release(*eExt(e), payloadSize(e))
	}
	if *eFlags(e)&fTomb != 0 {
		t.tombs--
	}
	t.n--
}
