package ordered

import (
	"bytes"
	"math"
	"slices"
)

// rounds makes rounds of due timers: in each, the earliest of every key. What is due beyond that waits
// in chains, one per key, so that a round costs what is in it.
type rounds struct {
	nodes  []due
	chains []chain
	least  int64 // earliest time in chains
	round  []due // the present round, sorted
	at     int   // first of it not handed out
	seen   []seenKey
	stamp  uint32
}

type chain struct {
	hash       uint64
	head, tail int32
}

// seenKey maps a key to its chain while a round is made.
type seenKey struct {
	hash  uint64
	stamp uint32
	chain int32
}

func (r *rounds) pending() bool { return r.at < len(r.round) || len(r.chains) > 0 }

func (r *rounds) min(q *calendar) int64 {
	at := int64(math.MaxInt64)
	if r.at < len(r.round) {
		at = r.round[r.at].at
	}
	if len(r.chains) > 0 {
		at = min(at, r.least)
	}
	return at
}

// sortNear brings near into order after join has appended to it.
func (q *calendar) sortNear() {
	if q.nearAt == len(q.near) {
		q.near, q.nearAt, q.sorted = q.near[:0], 0, 0
		return
	}
	if q.sorted == len(q.near) {
		return
	}
	if q.nearAt > len(q.near)/2 { // forget what is consumed
		n := copy(q.near, q.near[q.nearAt:])
		q.near, q.sorted, q.nearAt = q.near[:n], max(0, q.sorted-q.nearAt), 0
	}
	tail := q.near[max(q.sorted, q.nearAt):]
	slices.SortFunc(tail, q.compare)
	if head := q.near[q.nearAt:max(q.sorted, q.nearAt)]; len(head) > 0 && q.compare(tail[0], head[len(head)-1]) < 0 {
		q.mergeTail(len(head))
	}
	q.sorted = len(q.near)
}

// mergeTail merges the sorted rest of near, n timers long, with the sorted ones behind it.
func (q *calendar) mergeTail(n int) {
	a, b := q.near[q.nearAt:q.nearAt+n], q.near[q.nearAt+n:]
	out := q.scratch[:0]
	for len(a) > 0 && len(b) > 0 {
		if q.compare(b[0], a[0]) < 0 {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	out = append(append(out, a...), b...)
	q.near, q.scratch, q.nearAt = out, q.near[:0], 0
}

// start makes the next round of what is due at upTo, near included.
func (r *rounds) start(q *calendar, upTo int64, live func(*item) bool) {
	end := q.nearAt
	for end < len(q.near) && q.near[end].at <= upTo {
		end++
	}
	fresh := q.near[q.nearAt:end]
	q.nearAt = end
	if len(r.chains) == 0 {
		r.nodes = r.nodes[:0]
	}
	r.index(q, len(fresh))
	for _, d := range fresh {
		if t := q.item(d.ref); q.lives(t, live) {
			r.enqueue(q, d, t)
		} else {
			q.consume(d.ref)
		}
	}
	r.collect(q, live)
}

// index prepares seen for the chains and n more keys.
func (r *rounds) index(q *calendar, n int) {
	if want := 2 * (len(r.chains) + n); len(r.seen) < want {
		size := 64
		for size < want {
			size *= 2
		}
		r.seen, r.stamp = make([]seenKey, size), 0
	}
	r.stamp++
	if r.stamp == 0 {
		clear(r.seen)
		r.stamp = 1
	}
	for i := range r.chains {
		c := &r.chains[i]
		*r.look(q, c.hash, q.item(r.nodes[c.head].ref).key()) = seenKey{c.hash, r.stamp, int32(i)}
	}
}

// look is the place of a key in seen; its stamp says whether it is there.
func (r *rounds) look(q *calendar, hash uint64, key []byte) *seenKey {
	mask := len(r.seen) - 1
	for i := int(mix(hash)>>32) & mask; ; i = (i + 1) & mask {
		s := &r.seen[i]
		if s.stamp != r.stamp {
			return s
		}
		if s.hash == hash && bytes.Equal(q.item(r.nodes[r.chains[s.chain].head].ref).key(), key) {
			return s
		}
	}
}

// enqueue puts a due timer into its key's chain.
func (r *rounds) enqueue(q *calendar, d due, t *item) {
	n := int32(len(r.nodes))
	d.next = -1
	r.nodes = append(r.nodes, d)
	s := r.look(q, t.hash, t.key())
	if s.stamp != r.stamp {
		*s = seenKey{t.hash, r.stamp, int32(len(r.chains))}
		r.chains = append(r.chains, chain{t.hash, n, n})
		return
	}
	c := &r.chains[s.chain]
	if q.compare(r.nodes[c.tail], d) <= 0 {
		r.nodes[c.tail].next = n
		c.tail = n
		return
	}
	p := &c.head
	for q.compare(r.nodes[*p], d) <= 0 {
		p = &r.nodes[*p].next
	}
	r.nodes[n].next = *p
	*p = n
}

// collect takes the first live timer of each chain as the round.
func (r *rounds) collect(q *calendar, live func(*item) bool) {
	r.round, r.at, r.least = r.round[:0], 0, math.MaxInt64
	keep := r.chains[:0]
	for _, c := range r.chains {
		for c.head >= 0 && !q.lives(q.item(r.nodes[c.head].ref), live) {
			q.consume(r.nodes[c.head].ref)
			c.head = r.nodes[c.head].next
		}
		if c.head < 0 {
			continue
		}
		d := r.nodes[c.head]
		r.round = append(r.round, d)
		if c.head = d.next; c.head >= 0 {
			r.least = min(r.least, r.nodes[c.head].at)
			keep = append(keep, c)
		}
	}
	r.chains = keep
	if !slices.IsSortedFunc(r.round, q.compare) {
		slices.SortFunc(r.round, q.compare)
	}
}
