package state

import "github.com/zeebo/xxh3"

// Slots is the number of slots of every job, always. A key's slot is the top 16 bits of its hash.
const Slots = 1 << 16

// Slot is the unit of state movement.
type Slot uint16

// Hasher hashes keys with the job's secret seed, which lives in its snapshots: chosen keys must not
// build clusters in a hash-ordered table.
type Hasher struct{ Seed uint64 }

// Hash is xxh3-64 of the key; 0, which marks an empty table entry, becomes 1.
func (h Hasher) Hash(key []byte) uint64 {
	x := xxh3.HashSeed(key, h.Seed)
	if x == 0 {
		x = 1
	}
	return x
}

// SlotOf is the slot of a hash.
func SlotOf(hash uint64) Slot { return Slot(hash >> 48) }

// Range is a half-open range of slots.
type Range struct{ Lo, Hi uint32 } // Hi <= Slots

// TaskRange is what task t of p owns: [ceil(Slots*t/p), ceil(Slots*(t+1)/p)).
func TaskRange(t, p int) Range {
	return Range{uint32((Slots*t + p - 1) / p), uint32((Slots*(t+1) + p - 1) / p)}
}

// TaskOf is the task of p that owns a hash.
func TaskOf(hash uint64, p int) int {
	s := int(SlotOf(hash))
	t := s * p / Slots
	if s < int(TaskRange(t, p).Lo) {
		t--
	}
	return t
}

// Contains says whether the range owns the hash.
func (r Range) Contains(hash uint64) bool {
	s := uint32(SlotOf(hash))
	return s >= r.Lo && s < r.Hi
}
