package ordered

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

const (
	fetchAhead = 1024 // timers that a fetch takes at least, beyond those that are due
	timerBytes = 160  // of a timer in calendar and tables, about
)

// far keeps the timers at or after a horizon when memory is short: by time, over a cold space, outside of
// the tables and the calendar. What is due comes back, if it is much in pieces, the earliest first, each of which
// fires before the next one comes: memory is bounded but for what is due at one instant. A key's timers
// fire in their order, as they would all at once; only which keys go first differs.
//
//	timer   domain (1) | time (8, order preserving) | hash (8) | escaped key | name -> nothing
//	count   2 (1) | hash (8) | escaped key -> u32, far timers of the key
type far struct {
	l      layered
	own    *coldpebble.Env
	active [2]bool // there is a horizon
	from   [2]int64
	n      [2]int64
	least  [2]int64 // no far timer is earlier
	key    []byte
	count  []byte
}

func newFar(cfg state.PartConfig, env *coldpebble.Env) *far {
	f := &far{}
	f.l.tree = newTree()
	f.l.env, f.own = coldEnv(cfg, env)
	return f
}

func (f *far) setLimit(bytes int64) { f.l.limit = bytes }

func (f *far) used() bool { return f.n[0]+f.n[1] > 0 }
func (f *far) len() int   { return int(f.n[0] + f.n[1]) }

// owns says whether a timer at that time is far.
func (f *far) owns(d Domain, at int64) bool { return f.active[d] && at >= f.from[d] }

func (f *far) next(d Domain) (int64, bool) { return f.least[d], f.n[d] > 0 }

func farTime(dst []byte, d Domain, at int64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(d)), uint64(at)^1<<63)
}

func (f *far) timerKey(d Domain, k state.Key, name []byte, at int64) []byte {
	f.key = append(state.AppendPrefix(farTime(f.key[:0], d, at), k), name...)
	return f.key
}

// of is the number of far timers of a key; f.count is its key then.
func (f *far) of(k state.Key) (int, error) {
	f.count = state.AppendPrefix(append(f.count[:0], 2), k)
	v, ok, err := f.l.get(f.count)
	if err != nil || !ok {
		return 0, err
	}
	return int(binary.LittleEndian.Uint32(v)), nil
}

// add changes the number of far timers of a key.
func (f *far) add(k state.Key, delta int) error {
	n, err := f.of(k)
	if err != nil {
		return err
	}
	if n += delta; n == 0 {
		_, err = f.l.del(f.count)
		return err
	}
	var v [4]byte
	binary.LittleEndian.PutUint32(v[:], uint32(n))
	return f.l.put(f.count, v[:])
}

// look says whether a timer is far, and how many far ones its key has.
func (f *far) look(d Domain, k state.Key, name []byte, at int64) (is bool, n int, err error) {
	if f.owns(d, at) {
		if _, is, err = f.l.get(f.timerKey(d, k, name, at)); is || err != nil {
			return is, 0, err
		}
	}
	n, err = f.of(k)
	return false, n, err
}

// put adds a timer that is not there.
func (f *far) put(d Domain, k state.Key, name []byte, at int64) error {
	if err := f.l.room(0); err != nil {
		return err
	}
	if err := f.l.put(f.timerKey(d, k, name, at), nil); err != nil {
		return err
	}
	if f.n[d] == 0 {
		f.least[d] = at
	}
	f.least[d] = min(f.least[d], at)
	f.n[d]++
	return f.add(k, 1)
}

func (f *far) del(d Domain, k state.Key, name []byte, at int64) (was bool, err error) {
	if f.n[d] == 0 {
		return false, nil
	}
	if err := f.l.room(0); err != nil {
		return false, err
	}
	key := f.timerKey(d, k, name, at)
	if _, was, err = f.l.get(key); !was || err != nil {
		return was, err
	}
	if _, err := f.l.del(key); err != nil {
		return true, err
	}
	f.n[d]--
	return true, f.add(k, -1)
}

// atOnce is how many timers the calendar may hold before far ones that are due have to wait.
func (t *Timers) atOnce() int { return max(4*fetchAhead, int(t.limit/4/timerBytes)) }

// due says whether far timers are due.
func (f *far) due(d Domain, upTo int64) bool { return f.n[d] > 0 && f.least[d] <= upTo }

// nearest is up to when timers can fire before the next fetch.
func (f *far) nearest(d Domain, upTo int64) int64 {
	if f.due(d, upTo) {
		return f.from[d] - 1
	}
	return upTo
}

// fetch brings the next far timers up to a time into the calendar, as many as the limit has room for or all of
// them and some more.
func (f *far) fetch(t *Timers, d Domain, upTo int64) error {
	most := t.atOnce()
	lo := farTime(nil, d, math.MinInt64)
	it, err := f.l.scan(lo, []byte{byte(d) + 1}, 0)
	if err != nil {
		return err
	}
	last, rest := int64(math.MinInt64), false
	taken := 0
	for it.Next() {
		key, _ := it.Entry()
		at := int64(binary.BigEndian.Uint64(key[1:]) ^ 1<<63)
		if at != last && (taken >= most || at > upTo && taken >= fetchAhead) {
			rest = true
			f.least[d], f.from[d] = at, at
			break
		}
		last = at
		taken++
		if err := f.enter(t, d, key[9:], at); err != nil {
			return fmt.Errorf("%w (closing: %v)", err, it.Close())
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	hi := []byte{byte(d) + 1}
	if rest {
		hi = farTime(nil, d, f.from[d])
	} else {
		f.active[d] = false
	}
	return f.l.dropRange(lo, hi)
}

// enter moves one far timer, its key without domain and time, into the calendar.
func (f *far) enter(t *Timers, d Domain, key []byte, at int64) error {
	k, name, err := state.DecodeComposite(key, nil)
	if err != nil {
		return err
	}
	id := t.id(d, k, name, at)
	n := t.counts.find(k.Hash, id.keyB)
	if err := t.reserve(id, k, n == nil); err != nil {
		return err
	}
	if err := f.add(k, -1); err != nil {
		return err
	}
	f.n[d]--
	t.enter(d, id, n, k, name, item{at: at})
	return nil
}

func (f *far) stats(s *state.Stats) {
	s.MemBytes += f.l.tree.bytes()
	if f.l.space != nil {
		s.ColdBytes += f.l.space.Bytes()
	}
	s.Evictions, s.ColdReads, s.OpenIters = f.l.evictions, f.l.coldReads, f.l.openIters
}

func (f *far) close() error {
	err := f.l.close()
	if f.own != nil {
		if e := f.own.Close(); err == nil {
			err = e
		}
	}
	return err
}

// room moves the farthest bucket of timers to far while the calendar takes more than three quarters of
// the limit. What is due soon stays, however much it is.
func (t *Timers) room() error {
	if t.far.l.env == nil {
		return nil
	}
	for t.bytes() > t.limit-t.limit/4 {
		d, level, i, ok := t.farthest()
		if !ok {
			return t.sendFresh()
		}
		q := t.cal[d]
		slot := (q.pos>>(8*level)&^255 | uint64(i)) << (8 * level)
		if err := t.sendFar(d, timeOf(slot), q.take(&q.bucket[level][i], level, i)); err != nil {
			return err
		}
	}
	return nil
}

// sendFresh moves what was set behind the position: after a restore that may be much, as the position was
// a guess then.
func (t *Timers) sendFresh() error {
	for d, q := range t.cal {
		if q.fresh.items < fetchAhead {
			continue
		}
		from := q.fresh.min
		if err := t.sendFar(Domain(d), from, q.take(&q.fresh, -1, 0)); err != nil {
			return err
		}
	}
	return nil
}

// farthest is the bucket with the latest timers.
func (t *Timers) farthest() (d Domain, level, i int, ok bool) {
	best := uint64(0)
	for n, q := range t.cal {
		if l, x, slot, has := q.last(); has && (!ok || slot > best) {
			d, level, i, best, ok = Domain(n), l, x, slot, true
		}
	}
	return d, level, i, ok
}

// sendFar moves the live timers of a chain, none before from, to far, where all timers of the domain from
// there on belong then.
func (t *Timers) sendFar(d Domain, from int64, head uint32) error {
	q := t.cal[d]
	if t.far.active[d] {
		from = min(from, t.far.from[d])
	}
	t.far.active[d], t.far.from[d] = true, from
	var err error
	q.spill(head, func(it *item) {
		if err != nil {
			return
		}
		k := state.Key{Hash: it.hash, Bytes: it.key()}
		id := t.id(d, k, it.name(), it.at)
		e := t.ids.find(id.a, id.b)
		if e == nil || e.c != it.gen {
			q.dead--
			return
		}
		t.leave(e, k.Hash, id.keyB)
		t.far.l.evictions++
		err = t.far.put(d, k, it.name(), it.at)
	})
	return err
}

// timeOf is the first time of a slot.
func timeOf(slot uint64) int64 { return int64(slot<<slotBits ^ 1<<63) }

// last is the bucket with the highest slots.
func (q *calendar) last() (level, i int, slot uint64, ok bool) {
	for level = levels - 1; level >= 0; level-- {
		for w := 3; w >= 0; w-- {
			if m := q.used[level][w]; m != 0 {
				i = w<<6 + 63 - bits.LeadingZeros64(m)
				return level, i, (q.pos>>(8*level)&^255 | uint64(i)) << (8 * level), true
			}
		}
	}
	return 0, 0, 0, false
}

// begin puts the position of an unused calendar near the first timer, so that its timers spread over the
// levels from the first one on.
func (q *calendar) begin(at int64) {
	const before = 1 << 14 // slots; a quarter of an hour
	if s := slotOf(at); q.pos == 0 && s > before {
		q.pos = s - before
	}
}
