package ordered

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

// Timers is the timer service of one task. It implements state.Timers and state.Part.
//
// Which timers are live is known exactly, by a table of 96-bit fingerprints of their identities: setting
// one twice, Len and Delete need no look into the calendar. The number of timers per key is exact, too.
// An entry of either table takes 16 bytes, at a load of 3/8 to 3/4.
type Timers struct {
	cal      [2]*calendar
	live     [2]func(*item) bool
	chunks   *pages
	ids      table16 // c: generation of the item that is live
	counts   table16 // by key; c: live timers
	gen      uint32
	far      *far
	seed     uint64
	log      opLog
	logLimit int64
	limit    int64
	h        *history
	comp     []byte
	cut      *cut
	closed   bool
}

var (
	_ state.Timers = (*Timers)(nil)
	_ state.Part   = (*Timers)(nil)
)

// id is the fingerprint of a timer's identity and of its key.
type id struct {
	a    uint64
	b    uint32
	keyB uint32
}

// OpenTimers makes the timer service and fills it from cfg.Restore. With cfg.Cold timers far ahead go to
// env beyond the limit; env may be nil: then there is a database of its own in cfg.Dir.
//
// Errors: ErrCorrupt with the file's name; the disk's.
func OpenTimers(cfg state.PartConfig, env *coldpebble.Env) (*Timers, error) {
	t := &Timers{chunks: newPages(pageSize), h: newHistory(cfg), seed: cfg.Hasher.Seed}
	for d := range t.cal {
		t.cal[d] = newCalendar(t.chunks)
		t.live[d] = func(i *item) bool {
			id := t.id(Domain(d), state.Key{Hash: i.hash, Bytes: i.key()}, i.name(), i.at)
			e := t.ids.find(id.a, id.b)
			return e != nil && e.c == i.gen
		}
	}
	t.log.seq = 1
	t.far = newFar(cfg, env)
	t.Limit(cfg.Limit)
	if err := t.h.restore(t.restore); err != nil {
		_ = t.Close() // the first error says more
		return nil, err
	}
	return t, nil
}

// Domain is short for state.Domain.
type Domain = state.Domain

func (t *Timers) restore(comp, _ []byte) error {
	d, k, name, at, err := decodeTimer(comp)
	if err != nil {
		return err
	}
	if err := t.room(); err != nil {
		return err
	}
	_, err = t.insert(d, k, name, item{at: at})
	return err
}

// Timers' composite key: that of an entry of the key whose user key is domain (1) | time (8, order
// preserving) | name.
func appendTimer(dst []byte, d Domain, k state.Key, name []byte, at int64) []byte {
	dst = append(state.AppendPrefix(dst, k), byte(d))
	dst = binary.BigEndian.AppendUint64(dst, uint64(at)^1<<63)
	return append(dst, name...)
}

func decodeTimer(comp []byte) (d Domain, k state.Key, name []byte, at int64, err error) {
	k, u, err := state.DecodeComposite(comp, nil)
	if err != nil {
		return 0, k, nil, 0, err
	}
	if len(u) < 9 || u[0] > 1 {
		return 0, k, nil, 0, fmt.Errorf("%w: timer of key hash %016x: %d bytes behind the key, domain and time expected", state.ErrCorrupt, k.Hash, len(u))
	}
	return Domain(u[0]), k, u[9:], int64(binary.BigEndian.Uint64(u[1:]) ^ 1<<63), nil
}

func (t *Timers) id(d Domain, k state.Key, name []byte, at int64) id {
	var b [40]byte
	h := xxh3.HashSeed(k.Bytes, ^t.seed)
	binary.LittleEndian.PutUint64(b[:], k.Hash)
	binary.LittleEndian.PutUint64(b[8:], h)
	binary.LittleEndian.PutUint64(b[16:], uint64(at))
	binary.LittleEndian.PutUint64(b[24:], xxh3.HashSeed(name, t.seed))
	binary.LittleEndian.PutUint64(b[32:], uint64(d))
	x := xxh3.Hash128Seed(b[:], t.seed)
	return id{x.Hi, uint32(x.Lo), uint32(h)}
}

func domain(d Domain) error {
	if d < 0 || d > 1 {
		return fmt.Errorf("state: timer of domain %d, expected event (%d) or processing (%d)", d, abi.DomainEvent, abi.DomainProcessing)
	}
	return nil
}

// begin checks a timer, and reserves everything that logging a change of it needs.
func (t *Timers) begin(d Domain, k state.Key, name []byte, at int64) error {
	if err := domain(d); err != nil {
		return err
	}
	if len(k.Bytes) > abi.MaxKeyBytes || len(name) > abi.MaxTimerNameBytes {
		return fmt.Errorf("%w: timer with a key of %d and a name of %d bytes, limits %d and %d",
			state.ErrTooLarge, len(k.Bytes), len(name), abi.MaxKeyBytes, abi.MaxTimerNameBytes)
	}
	if t.log.bytes >= t.logLimit {
		if err := t.handOver(); err != nil {
			return err
		}
	}
	t.comp = appendTimer(t.comp[:0], d, k, name, at)
	return t.log.reserve(len(t.comp), 0)
}

func (t *Timers) handOver() error {
	t.h.reclaim(&t.log, t.logLimit)
	if err := t.h.room(); err != nil {
		return err
	}
	t.h.add(t.log.seal(), nil)
	return nil
}

// Set implements state.Timers.
func (t *Timers) Set(d Domain, k state.Key, name []byte, at int64) error {
	if err := t.begin(d, k, name, at); err != nil {
		return err
	}
	if err := t.room(); err != nil {
		return err
	}
	isNew, err := t.insert(d, k, name, item{at: at, log: t.log.seq, ref: t.log.next()})
	if isNew && err == nil {
		t.log.append(t.comp, nil, kindValue)
	}
	return err
}

// insert registers a timer and says whether it was not there. The head has its time and its place in the log.
func (t *Timers) insert(d Domain, k state.Key, name []byte, head item) (bool, error) {
	at := head.at
	id := t.id(d, k, name, at)
	n := t.counts.find(k.Hash, id.keyB)
	if t.ids.find(id.a, id.b) != nil {
		return false, nil
	}
	live := 0
	if n != nil {
		live = int(n.c)
	}
	if t.far.used() {
		is, more, err := t.far.look(d, k, name, at)
		if is || err != nil {
			return false, err
		}
		live += more
	}
	if live >= abi.MaxTimersPerKey {
		return false, fmt.Errorf("%w: timer number %d of a key (hash %016x), limit %d", state.ErrTooLarge, live+1, k.Hash, abi.MaxTimersPerKey)
	}
	if t.far.owns(d, at) {
		return true, t.far.put(d, k, name, at)
	}
	if err := t.reserve(id, k, n == nil); err != nil {
		return false, err
	}
	t.enter(d, id, n, k, name, head)
	return true, nil
}

// reserve makes sure that enter finds room, with or without a new key.
func (t *Timers) reserve(id id, k state.Key, isNew bool) error {
	if err := t.chunks.reserve(1); err != nil {
		return err
	}
	if err := t.ids.reserve(id.a); err != nil || !isNew {
		return err
	}
	return t.counts.reserve(k.Hash)
}

// enter puts a timer that is not there into tables and calendar; n is the key's entry in counts, if any.
func (t *Timers) enter(d Domain, id id, n *entry16, k state.Key, name []byte, head item) {
	if t.gen++; t.gen == 0 {
		t.gen = 1
	}
	t.ids.insert(id.a, id.b, t.gen)
	if n != nil {
		n.c++
	} else {
		t.counts.insert(k.Hash, id.keyB, 1)
	}
	head.hash, head.gen = k.Hash, t.gen
	t.cal[d].add(head, k.Bytes, name)
}

// leave takes a timer out of the tables.
func (t *Timers) leave(e *entry16, hash uint64, keyB uint32) {
	t.ids.remove(e)
	if n := t.counts.find(hash, keyB); n.c > 1 {
		n.c--
	} else {
		t.counts.remove(n)
	}
}

// Delete implements state.Timers.
func (t *Timers) Delete(d Domain, k state.Key, name []byte, at int64) error {
	if err := t.begin(d, k, name, at); err != nil {
		return err
	}
	id := t.id(d, k, name, at)
	if e := t.ids.find(id.a, id.b); e != nil {
		t.leave(e, k.Hash, id.keyB)
		t.log.append(t.comp, nil, kindTomb)
		return t.cal[d].died(at, t.live[d])
	}
	if !t.far.owns(d, at) {
		return nil
	}
	was, err := t.far.del(d, k, name, at)
	if was && err == nil {
		t.log.append(t.comp, nil, kindTomb)
	}
	return err
}

// Next implements state.Timers.
func (t *Timers) Next(d Domain) (at int64, ok bool) {
	at, ok = t.cal[d].next()
	if f, has := t.far.next(d); has && (!ok || f < at) {
		return f, true
	}
	return at, ok
}

// Due implements state.Timers.
func (t *Timers) Due(d Domain, upTo int64, max int, into []state.Timer) ([]state.Timer, error) {
	into = into[:0]
	if err := domain(d); err != nil {
		return into, err
	}
	q := t.cal[d]
	for _, c := range q.spent {
		t.chunks.release(c)
	}
	q.spent = q.spent[:0]
	if t.log.bytes >= t.logLimit {
		if err := t.handOver(); err != nil {
			return into, err
		}
	}
	r := &q.rounds
	for len(into) == 0 && max > 0 {
		if r.at == len(r.round) {
			for t.far.due(d, upTo) && t.ids.n < t.atOnce() {
				if err := t.far.fetch(t, d, upTo); err != nil {
					return into, err
				}
			}
			near := t.far.nearest(d, upTo)
			if err := q.pull(near, t.live[d]); err != nil {
				return into, err
			}
			if r.start(q, near, t.live[d]); len(r.round) == 0 {
				if near == upTo {
					return into, nil
				}
				if err := t.far.fetch(t, d, upTo); err != nil {
					return into, err
				}
				continue
			}
		}
		var err error
		if into, err = t.handOut(d, q, max, into); err != nil {
			return into, err
		}
	}
	return into, nil
}

// handOut removes timers of the present round, skipping those that were deleted since it was made.
func (t *Timers) handOut(d Domain, q *calendar, max int, into []state.Timer) ([]state.Timer, error) {
	r := &q.rounds
	for r.at < len(r.round) && len(into) < max {
		i := q.item(r.round[r.at].ref)
		k := state.Key{Hash: i.hash, Bytes: i.key()}
		id := t.id(d, k, i.name(), i.at)
		e := t.ids.find(id.a, id.b)
		if e != nil && e.c == i.gen {
			if err := t.logFired(d, i); err != nil {
				return into, err
			}
			t.leave(e, k.Hash, id.keyB)
			into = append(into, state.Timer{Key: k, Name: i.name(), At: i.at})
		} else {
			q.dead--
		}
		q.consume(r.round[r.at].ref)
		r.at++
	}
	return into, nil
}

// logFired logs that a timer is no more. One that was set since the last cut is in no snapshot, and leaves
// none of it in the log.
func (t *Timers) logFired(d Domain, i *item) error {
	if i.log == t.log.seq {
		t.log.void(i.ref, t.logLimit)
		return nil
	}
	t.comp = appendTimer(t.comp[:0], d, state.Key{Hash: i.hash, Bytes: i.key()}, i.name(), i.at)
	if err := t.log.reserve(len(t.comp), 0); err != nil {
		return err
	}
	t.log.append(t.comp, nil, kindTomb)
	return nil
}

// Len implements state.Timers.
func (t *Timers) Len() int { return t.ids.n + t.far.len() }

// Limit implements state.Part. A quarter of it at most is for the log of changes.
func (t *Timers) Limit(bytes int64) {
	t.limit, t.logLimit = bytes, logShare(bytes)
	t.far.setLimit(bytes / 4)
}

// bytes is what the calendar, its tables and the log take.
func (t *Timers) bytes() int64 {
	n := t.chunks.bytes() + t.ids.bytes() + t.counts.bytes() + t.log.bytes
	for _, q := range t.cal {
		n += int64(cap(q.near)+cap(q.scratch)+cap(q.rounds.nodes)+cap(q.rounds.round))*24 + int64(cap(q.rounds.seen)+cap(q.rounds.chains))*16
	}
	return n
}

// Freeze implements state.Part: the log of changes since the last cut goes to the background.
func (t *Timers) Freeze() (state.Cut, error) {
	if err := cutDone(t.cut); err != nil {
		return nil, err
	}
	t.h.reclaim(&t.log, t.logLimit)
	t.cut = &cut{done: make(chan struct{})}
	t.h.add(t.log.seal(), t.cut)
	return t.cut, nil
}

// Step implements state.Part; a cut leaves nothing to the task.
func (t *Timers) Step() (busy bool, err error) { return false, nil }

// Committed implements state.Part. Nothing waits for it.
func (t *Timers) Committed(state.StateSnapshot) {}

// Stats implements state.Part.
func (t *Timers) Stats() state.Stats {
	cold, logs, merged := t.h.sizes()
	s := state.Stats{
		Entries:    int64(t.ids.n),
		Timers:     int64(t.Len()),
		MemBytes:   t.bytes() + logs,
		ColdBytes:  cold,
		MergeBytes: merged,
	}
	t.far.stats(&s)
	return s
}

// Close implements state.Part.
func (t *Timers) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	t.h.close()
	t.log.close()
	t.chunks.close()
	t.ids.close()
	t.counts.close()
	return t.far.close()
}
