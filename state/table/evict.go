package table

import (
	"unsafe"
)

// evictQuota: a visit evicts one in so many entries of what it passes, those longest unused.
const evictQuota = 4

// Evicted takes entries that leave the table dirty: nearly in hash order within one call of EvictSome, and
// until one says wrapped all above those of the call before.
type Evicted func(hash uint64, key, value []byte, tombstone bool) error

// EvictSome visits StepPositions positions where the last call stopped and evicts the quarter of their
// entries that was not used for the longest time; tombstones that the runs have go as well. The dirty
// ones are given to out: the runs must have them from then on. Wrapped says that this call came to the
// table's end, so the next one starts anew. On error of out the entry stays.
//
// Growth under way is finished first, in one step per call.
func (t *Table) EvictSome(out Evicted) (wrapped bool, err error) {
	if t.moving {
		t.move(2 * StepPositions)
		return false, nil
	}
	g := &t.cur
	first := g.home(t.hand)
	for first > 0 && *eHash(g.at(first - 1)) != 0 {
		first--
	}
	end := t.clusterEnd(first + StepPositions)
	threshold, part := t.ageThreshold(first, end)
	acc := 255   // so that each visit evicts something
	gap := false // a position of this cluster became empty
	for i := first; i < end; i++ {
		e := g.at(i)
		h := *eHash(e)
		if h == 0 {
			gap = false
			continue
		}
		age := t.age - *eAge(e)
		leave := age > threshold
		if age == threshold { // part of the threshold's entries, evenly spread
			if acc += part; acc >= 256 {
				acc -= 256
				leave = true
			}
		}
		if *eFlags(e)&fTomb != 0 && !t.isDirty(*eEpoch(e)) && !t.isFrozen(*eEpoch(e)) {
			leave = true
		}
		if h-t.base < t.hand { // of the cluster's start: the last call passed it, and out takes no key twice
			leave = false
		}
		if leave {
			if err := t.evict(e, out); err != nil {
				t.settle(g, i, end, gap)
				return false, err
			}
			*eHash(e) = 0
			gap = true
		} else if gap {
			t.replace(g, i, h)
		}
	}
	if t.hand, wrapped = g.boundary(end + 1); wrapped {
		t.hand = 0
		t.age++
	}
	return wrapped, nil
}

// Hand is the hash where the next call of EvictSome starts.
func (t *Table) Hand() uint64 { return t.base + t.hand }

// clusterEnd is the first empty position at i or behind it, at most the end of the pad.
func (t *Table) clusterEnd(i int) int {
	i = min(i, t.cur.slots)
	for *eHash(t.cur.at(i)) != 0 {
		i++
	}
	return i
}

// ageThreshold: entries older than the threshold leave, and part/256 of those just as old.
func (t *Table) ageThreshold(first, end int) (threshold uint8, part int) {
	var ages [256]int
	n := 0
	e := t.cur.at(first)
	for i := first; i < end; i++ {
		if *eHash(e) != 0 {
			ages[t.age-*eAge(e)]++
			n++
		}
		e = unsafe.Add(e, t.cur.stride)
	}
	left, x := max(n/evictQuota, 1), 255
	for x > 0 && ages[x] <= left {
		left -= ages[x]
		x--
	}
	if ages[x] == 0 {
		return uint8(x), 0
	}
	return uint8(x), max(left*256/ages[x], 1)
}

// evict lets an entry go; what the cut in progress needs of it goes to the side first.
func (t *Table) evict(e unsafe.Pointer, out Evicted) error {
	ep := *eEpoch(e)
	if t.isDirty(ep) {
		if t.isFrozen(ep) {
			if err := t.copyTo(&t.side, e); err != nil {
				return err
			}
			*eEpoch(e) = copied | t.cut
		}
		if err := out(*eHash(e), t.entryKey(e), t.entryValue(e), *eFlags(e)&fTomb != 0); err != nil {
			return err
		}
		if ep == t.epoch {
			t.dirty--
		}
	}
	t.drop(e)
	return nil
}

// replace puts the entry at i to the first empty position from its home on, which is at or before i.
func (t *Table) replace(g *grid, i int, h uint64) {
	from := g.at(i)
	*eHash(from) = 0
	to := g.at(g.home(h - t.base))
	for *eHash(to) != 0 {
		to = unsafe.Add(to, g.stride)
	}
	if to != from {
		copyEntry(to, from, g.stride)
	}
	*eHash(to) = h
}

// settle closes the gaps of the cluster around i when an eviction breaks off.
func (t *Table) settle(g *grid, i, end int, gap bool) {
	if !gap {
		return
	}
	for ; i < end; i++ {
		h := *eHash(g.at(i))
		if h == 0 {
			return
		}
		t.replace(g, i, h)
	}
}
