package ttl

import "github.com/millrace-io/millrace/state"

// ordered is map or list state with a TTL, of each entry. It goes by the moment of Keyed.At.
type ordered struct {
	state.Ordered
	policy
	k    *Keyed
	list bool
	buf  []byte
}

// outlives says that an entry must not expire before others of its key that are as old: the number of a
// list's next element, the only one-byte user key a list has. Its stamp never goes back.
func (o *ordered) outlives(ukey []byte) bool { return o.list && len(ukey) == 1 }

// Get implements state.Ordered.
func (o *ordered) Get(key state.Key, ukey []byte) ([]byte, bool, error) {
	now, _ := o.k.moment(&o.policy)
	_, v, ok, err := o.live(key, ukey, now)
	return v, ok, err
}

func (o *ordered) live(key state.Key, ukey []byte, now int64) (stamp int64, v []byte, ok bool, err error) {
	raw, ok, err := o.Ordered.Get(key, ukey)
	if err != nil || !ok {
		return 0, nil, false, err
	}
	if stamp, v, err = split(raw); err != nil {
		return 0, nil, false, err
	}
	if o.k.expired(&o.policy, stamp, now) {
		return 0, nil, false, nil
	}
	return stamp, v, true, nil
}

// Put implements state.Ordered.
func (o *ordered) Put(key state.Key, ukey, v []byte) error {
	now, stamp := o.k.moment(&o.policy)
	o.buf = appendStamped(o.buf[:0], stamp, v) // first: v may be a borrowed entry
	old, _, was, err := o.live(key, ukey, now)
	if err != nil {
		return err
	}
	switch {
	case !was:
		if err := o.k.arm(&o.policy, key, stamp); err != nil {
			return err
		}
	case old > stamp && o.outlives(ukey):
		_ = appendStamped(o.buf[:0], old, nil) // in place
	}
	return o.Ordered.Put(key, ukey, o.buf)
}

func (o *ordered) renew(key state.Key, ukey []byte) (was []byte, renewed bool, err error) {
	now, stamp := o.k.moment(&o.policy)
	old, v, ok, err := o.live(key, ukey, now)
	if err != nil || !ok || old == stamp || old > stamp && o.outlives(ukey) {
		return nil, false, err
	}
	n := StampBytes + len(v)
	o.buf = appendStamped(appendStamped(o.buf[:0], old, v), stamp, v)
	return o.buf[:n:n], true, o.Ordered.Put(key, ukey, o.buf[n:])
}

// Scan implements state.Ordered: the entries that have not expired now.
func (o *ordered) Scan(key state.Key, from []byte) (state.Iterator, error) {
	it, err := o.Ordered.Scan(key, from)
	if err != nil {
		return nil, err
	}
	now, _ := o.k.moment(&o.policy)
	return &iterator{Iterator: it, o: o, now: now}, nil
}

// iterator hides stamps and expired entries.
type iterator struct {
	state.Iterator
	o     *ordered
	now   int64
	value []byte
	err   error
}

// Next implements state.Iterator.
func (it *iterator) Next() bool {
	for it.err == nil && it.Iterator.Next() {
		_, raw := it.Iterator.Entry()
		stamp, v, err := split(raw)
		if it.err = err; err == nil && !it.o.k.expired(&it.o.policy, stamp, it.now) {
			it.value = v
			return true
		}
	}
	return false
}

// Entry implements state.Iterator.
func (it *iterator) Entry() (ukey, v []byte) {
	ukey, _ = it.Iterator.Entry()
	return ukey, it.value
}

// Close implements state.Iterator.
func (it *iterator) Close() error {
	err := it.Iterator.Close()
	if it.err != nil {
		return it.err
	}
	return err
}
