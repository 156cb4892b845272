package window

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/millrace-io/millrace/state"
)

// index has the event timers of keys in memory: what a timer service gives, without its cost, as it need
// not be saved. A block holds the time its key waits for, so the index is built anew from restored blocks.
// It has no deletion: an entry whose key waits for another time is passed over when it comes up. Beyond its
// limit, and for long keys, the operator takes the timer service.
type index struct {
	items   []item
	free    int32 // head of a list of unused items, 0: none; item 0 is not used
	n       int
	limit   int
	at      map[int64]list // by time
	heap    []int64        // of the times
	sorted  []ref          // of the instant that is fired
	scratch []ref
}

const (
	itemKey     = 50
	itemBytes   = 64
	radixFrom   = 128 // fewer are sorted by comparing
	prefixBytes = 8
)

type item struct {
	hash uint64
	next int32
	n    uint16
	key  [itemKey]byte
}

type list struct{ head int32 }

// ref is an item with the part of its key that tells it from the others of the instant.
type ref struct {
	prefix uint64
	item   int32
}

func newIndex(budget int64) *index {
	return &index{items: make([]item, 1, 1024), limit: int(max(budget/4/itemBytes, 1024)), at: map[int64]list{}}
}

// add notes that a key waits for a time; false: there is no room for it.
func (x *index) add(at int64, k state.Key) bool {
	if len(k.Bytes) > itemKey || x.n >= x.limit {
		return false
	}
	i := x.free
	if i != 0 {
		x.free = x.items[i].next
	} else {
		i = int32(len(x.items))
		x.items = append(x.items, item{})
	}
	l, ok := x.at[at]
	if !ok {
		x.push(at)
	}
	it := &x.items[i]
	it.hash, it.next, it.n = k.Hash, l.head, uint16(len(k.Bytes))
	copy(it.key[:], k.Bytes)
	x.at[at] = list{i}
	x.n++
	return true
}

// next is the earliest time a key waits for.
func (x *index) next() (int64, bool) {
	if len(x.heap) == 0 {
		return 0, false
	}
	return x.heap[0], true
}

// take sorts the keys of the earliest time, which is not next any more. They stay until done.
func (x *index) take() []ref {
	at := x.pop()
	x.sorted = x.sorted[:0]
	for i := x.at[at].head; i != 0; i = x.items[i].next {
		x.sorted = append(x.sorted, ref{item: i})
	}
	delete(x.at, at)
	x.sort()
	return x.sorted
}

// done gives back what take returned.
func (x *index) done() {
	for _, r := range x.sorted {
		x.items[r.item].next = x.free
		x.free = r.item
	}
	x.n -= len(x.sorted)
	x.sorted = x.sorted[:0]
}

// key is an item's; its bytes are good until done, whatever is added.
func (x *index) key(i int32) state.Key {
	it := &x.items[i]
	return state.Key{Hash: it.hash, Bytes: it.key[:it.n:it.n]}
}

// sort orders the items by their keys: by 8 bytes behind the prefix that all have in common, then, where
// those are equal, by comparing.
func (x *index) sort() {
	s := x.sorted
	if len(s) < 2 {
		return
	}
	common := len(x.key(s[0].item).Bytes)
	first := x.key(s[0].item).Bytes
	for _, r := range s[1:] {
		k := x.key(r.item).Bytes
		common = min(common, len(k))
		for !bytes.Equal(k[:common], first[:common]) {
			common--
		}
	}
	var or, and uint64 = 0, ^uint64(0)
	for i := range s {
		var b [prefixBytes]byte
		copy(b[:], x.key(s[i].item).Bytes[common:])
		p := binary.BigEndian.Uint64(b[:])
		s[i].prefix = p
		or, and = or|p, and&p
	}
	if len(s) < radixFrom {
		slices.SortFunc(s, x.compare)
		return
	}
	x.radix(or ^ and)
	s = x.sorted
	for lo := 0; lo < len(s); {
		hi := lo + 1
		for hi < len(s) && s[hi].prefix == s[lo].prefix {
			hi++
		}
		if hi-lo > 1 {
			slices.SortFunc(s[lo:hi], x.compare)
		}
		lo = hi
	}
}

func (x *index) compare(a, b ref) int {
	switch {
	case a.prefix < b.prefix:
		return -1
	case a.prefix > b.prefix:
		return 1
	}
	return bytes.Compare(x.key(a.item).Bytes, x.key(b.item).Bytes)
}

// radix sorts by the bytes of the prefix in which any two differ.
func (x *index) radix(differ uint64) {
	if cap(x.scratch) < len(x.sorted) {
		x.scratch = make([]ref, len(x.sorted))
	}
	from, to := x.sorted, x.scratch[:len(x.sorted)]
	for shift := 0; shift < 64; shift += 8 {
		if differ>>shift&0xff == 0 {
			continue
		}
		var at [257]int
		for _, r := range from {
			at[r.prefix>>shift&0xff+1]++
		}
		for i := 1; i < 256; i++ {
			at[i] += at[i-1]
		}
		for _, r := range from {
			d := r.prefix >> shift & 0xff
			to[at[d]] = r
			at[d]++
		}
		from, to = to, from
	}
	x.sorted, x.scratch = from, to
}

// push and pop keep heap a heap.
func (x *index) push(at int64) {
	h := append(x.heap, at)
	i := len(h) - 1
	for i > 0 && h[(i-1)/2] > at {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = at
	x.heap = h
}

func (x *index) pop() int64 {
	h := x.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	i := 0
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1] < h[c] {
			c++
		}
		if h[c] >= last {
			break
		}
		h[i] = h[c]
		i = c
	}
	if len(h) > 0 {
		h[i] = last
	}
	x.heap = h
	return top
}
