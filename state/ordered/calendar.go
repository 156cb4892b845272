package ordered

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"unsafe"
)

const (
	slotBits    = 6 // a slot is 64 ms
	levels      = 8
	chunkHead   = 8
	itemHead    = 32
	compactFrom = 64 // items of a bucket that is worth cleaning
)

// calendar holds the timers of one domain by time. Times are slots of 64 ms; a slot lies in one of 8
// levels of 256 buckets each, by the highest byte in which it differs from the position, as in a radix
// heap: so far-off timers share few buckets, and each moves down a level when the position comes to its
// bucket. Buckets are chains of chunks, appended to and unsorted. What the position has passed is in
// near, sorted.
//
// A deleted timer stays as a dead item until its bucket is emptied or has more dead than live ones. As long as
// there are none, nothing asks whether an item lives.
type calendar struct {
	chunks  *pages // of both domains
	pos     uint64 // slots below have been pulled
	used    [levels][4]uint64
	bucket  [levels]*[256]bucket
	fresh   bucket // set for times below pos, not in near yet
	near    []due
	nearAt  int // first of near not taken
	sorted  int // near is in order up to here
	scratch []due
	spent   []uint32 // chunks without use once the slices of the last Due are invalid
	rounds  rounds
	dead    int // items, wherever they are
}

// bucket is a chain of chunks, newest first.
type bucket struct {
	head  uint32
	items int32
	dead  int32
	min   int64 // of the items, dead ones included; MaxInt64 if there are none
}

type chunk struct {
	next uint32
	used uint16 // bytes, head included
	refs uint16 // items in near or in a round; 0 while it is in a bucket
	_    [pageSize - chunkHead]byte
}

// item is a timer in a chunk; key and name follow, padded to 8 bytes.
type item struct {
	at   int64
	hash uint64
	gen  uint32 // the timer is dead unless the identity table has this number for it
	klen uint16
	nlen uint16
	log  uint32 // number of the log that has the record of its setting; 0: none has
	ref  logAt  // the record
}

func (t *item) key() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(t), itemHead)), t.klen)
}

func (t *item) name() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(t), itemHead+int(t.klen))), t.nlen)
}

func (t *item) size() int { return (itemHead + int(t.klen) + int(t.nlen) + 7) &^ 7 }

// due is a timer that is sorted: time, first bytes of the key, and where it is.
type due struct {
	at     int64
	prefix uint64
	ref    uint32 // 8-byte units
	next   int32  // in rounds: the key's next timer
}

// slotOf is the slot of a time; slots are ordered as times are.
func slotOf(at int64) uint64 { return (uint64(at) ^ 1<<63) >> slotBits }

func newCalendar(chunks *pages) *calendar {
	return &calendar{chunks: chunks, fresh: bucket{min: math.MaxInt64}}
}

func (q *calendar) chunk(i uint32) *chunk { return (*chunk)(q.chunks.at(i)) }

func (q *calendar) item(ref uint32) *item {
	return (*item)(unsafe.Add(q.chunks.at(ref/(pageSize/8)), int(ref%(pageSize/8))*8))
}

// place is the bucket for a time, and whether it is one of the levels' (else fresh).
func (q *calendar) place(at int64) (b *bucket, level, i int) {
	s := slotOf(at)
	if s < q.pos {
		return &q.fresh, -1, 0
	}
	if x := s ^ q.pos; x != 0 {
		level = (bits.Len64(x) - 1) / 8
	}
	i = int(s>>(8*level)) & 255
	if q.bucket[level] == nil {
		q.bucket[level] = new([256]bucket)
		for j := range q.bucket[level] {
			q.bucket[level][j].min = math.MaxInt64
		}
	}
	return &q.bucket[level][i], level, i
}

// add appends a timer with a head, but for its lengths; a chunk has been reserved.
func (q *calendar) add(head item, key, name []byte) {
	at := head.at
	q.begin(at)
	b, level, i := q.place(at)
	if level >= 0 {
		q.used[level][i>>6] |= 1 << (i & 63)
	}
	size := (itemHead + len(key) + len(name) + 7) &^ 7
	var c *chunk
	if b.head != 0 {
		c = q.chunk(b.head)
	}
	if c == nil || int(c.used)+size > pageSize {
		id := q.chunks.alloc()
		c = q.chunk(id)
		c.next, c.used, c.refs = b.head, chunkHead, 0
		b.head = id
	}
	t := (*item)(unsafe.Add(unsafe.Pointer(c), c.used))
	c.used += uint16(size)
	*t = head
	t.klen, t.nlen = uint16(len(key)), uint16(len(name))
	copy(t.key(), key)
	copy(t.name(), name)
	b.items++
	b.min = min(b.min, at)
}

// take empties a bucket and returns its chain.
func (q *calendar) take(b *bucket, level, i int) uint32 {
	head := b.head
	*b = bucket{min: math.MaxInt64}
	if level >= 0 {
		q.used[level][i>>6] &^= 1 << (i & 63)
	}
	return head
}

// spill calls f for each item of a chain and then gives its chunk back. f may add to other buckets.
func (q *calendar) spill(head uint32, f func(t *item)) {
	for head != 0 {
		c := q.chunk(head)
		for off := uint16(chunkHead); off < c.used; {
			t := (*item)(unsafe.Add(unsafe.Pointer(c), off))
			off += uint16(t.size())
			f(t)
		}
		next := c.next
		q.chunks.release(head)
		head = next
	}
}

// first is the bucket with the lowest slots at or above the position, and its first slot.
func (q *calendar) first() (level, i int, slot uint64, ok bool) {
	for level = range levels {
		from := int(q.pos>>(8*level)) & 255
		for w := from >> 6; w < 4; w++ {
			m := q.used[level][w]
			if w == from>>6 {
				m &= ^uint64(0) << (from & 63)
			}
			if m == 0 {
				continue
			}
			i = w<<6 + bits.TrailingZeros64(m)
			return level, i, (q.pos>>(8*level)&^255 | uint64(i)) << (8 * level), true
		}
	}
	return 0, 0, 0, false
}

// moveTo sets the position and moves the items of the buckets that it comes into down.
func (q *calendar) moveTo(pos uint64, live func(*item) bool) error {
	q.pos = pos
	for level := levels - 1; level > 0; level-- {
		if q.bucket[level] == nil {
			continue
		}
		i := int(pos>>(8*level)) & 255
		b := &q.bucket[level][i]
		if b.head == 0 {
			continue
		}
		check := b.dead > 0
		// a bucket's chunks come back one by one, but its items may open a chunk in each of 256 buckets
		if err := q.chunks.reserve(256 + 8); err != nil {
			return err
		}
		head := q.take(b, level, i)
		var err error
		q.spill(head, func(t *item) {
			if err == nil && (!check || q.lives(t, live)) {
				if err = q.chunks.reserve(1); err == nil {
					q.add(*t, t.key(), t.name())
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lives says whether an item's timer is live. If not, the caller drops the item.
func (q *calendar) lives(t *item, live func(*item) bool) bool {
	if q.dead == 0 || live(t) {
		return true
	}
	q.dead--
	return false
}

// died counts a dead item at a time, and cleans its bucket when it has more dead ones than live ones.
func (q *calendar) died(at int64, live func(*item) bool) error {
	q.dead++
	b, level, i := q.place(at)
	if b.items == 0 {
		return nil // it is in near
	}
	if b.dead = min(b.dead+1, b.items); b.dead*2 <= b.items || b.items < compactFrom {
		return nil
	}
	head := q.take(b, level, i)
	var err error
	q.spill(head, func(t *item) {
		if err == nil && q.lives(t, live) {
			if err = q.chunks.reserve(1); err == nil {
				q.add(*t, t.key(), t.name())
			}
		}
	})
	return err
}

// pull moves everything up to a time from buckets to fresh, or further into near if it may be due.
func (q *calendar) pull(upTo int64, live func(*item) bool) error {
	target := slotOf(upTo)
	for target >= q.pos {
		level, i, slot, ok := q.first()
		if !ok || slot > target {
			break
		}
		// A bucket that is due as a whole need not be dealt out: near is sorted, and each of the many
		// buckets that it would go to takes a chunk.
		if last := slot | (1<<(8*level) - 1); last <= target {
			q.join(q.take(&q.bucket[level][i], level, i))
			continue
		}
		if err := q.moveTo(slot, live); err != nil {
			return err
		}
	}
	if target >= q.pos {
		if err := q.moveTo(target+1, live); err != nil {
			return err
		}
	}
	if q.fresh.min <= upTo {
		q.join(q.take(&q.fresh, -1, 0))
	}
	q.sortNear()
	return nil
}

// join appends a chain's items to near, unsorted. Their chunks stay until each item is consumed.
func (q *calendar) join(head uint32) {
	for head != 0 {
		c := q.chunk(head)
		for off := int(chunkHead); off < int(c.used); {
			t := (*item)(unsafe.Add(unsafe.Pointer(c), off))
			q.near = append(q.near, due{t.at, keyPrefix(t.key()), head*(pageSize/8) + uint32(off/8), -1})
			c.refs++
			off += t.size()
		}
		head = c.next
	}
}

func keyPrefix(k []byte) uint64 {
	if len(k) >= 8 {
		return binary.BigEndian.Uint64(k)
	}
	var b [8]byte
	copy(b[:], k)
	return binary.BigEndian.Uint64(b[:])
}

// compare orders two timers by (time, key, name).
func (q *calendar) compare(a, b due) int {
	switch {
	case a.at != b.at:
		if a.at < b.at {
			return -1
		}
		return 1
	case a.prefix != b.prefix:
		if a.prefix < b.prefix {
			return -1
		}
		return 1
	}
	x, y := q.item(a.ref), q.item(b.ref)
	if c := bytes.Compare(x.key(), y.key()); c != 0 {
		return c
	}
	return bytes.Compare(x.name(), y.name())
}

// consume says that an item is not needed any more. What was handed out stays readable until next.
func (q *calendar) consume(ref uint32) {
	id := ref / (pageSize / 8)
	c := q.chunk(id)
	if c.refs--; c.refs == 0 {
		q.spent = append(q.spent, id)
	}
}

// next is the earliest time, dead timers included.
func (q *calendar) next() (int64, bool) {
	at := min(q.fresh.min, q.rounds.min(q))
	if q.nearAt < len(q.near) {
		at = min(at, q.near[q.nearAt].at)
	}
	if level, i, _, ok := q.first(); ok {
		at = min(at, q.bucket[level][i].min)
	}
	return at, at != math.MaxInt64 || q.any()
}

// any says whether there is an item; only asked for a timer at the very end of time.
func (q *calendar) any() bool {
	_, _, _, ok := q.first()
	return ok || q.fresh.items > 0 || q.nearAt < len(q.near) || q.rounds.pending()
}
