package guestop

import (
	"encoding/binary"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// undo is how to take back one write: put the old entry back, or delete the new one.
type undo struct {
	record, st int
	key        state.Key // bytes alias the batch, which outlives the call
	ukey, old  span
	had        bool
}

// List state is kept as ordered entries: listItem|sequence (8 bytes big endian) holds an element, listNext
// the next sequence number.
const (
	listNext = 0x00
	listItem = 0x01
)

// scan is one open iterator.
type scan struct {
	it     state.Iterator
	st     int
	strip  int // bytes of the user key that the guest does not see
	loaded bool
	done   bool
}

const maxIterators = 64

// target resolves a state by number for a record; s != 0 says why not.
func (e *env) target(record, st int) (r *stateRef, k state.Key, s abi.Status) {
	k, ok := e.key(record)
	switch {
	case !ok:
		return nil, k, abi.StatusNoKey
	case st < 0 || st >= len(e.op.states):
		return nil, k, abi.StatusBadArg
	}
	r = &e.op.states[st]
	if r.value == nil && r.ordered == nil { // prefetched: it is in the block
		return nil, k, abi.StatusBadArg
	}
	e.op.expiry.at(e.op, record)
	return r, k, abi.StatusOK
}

// Get implements Env.
func (e *env) Get(record, st int, ukey []byte) ([]byte, abi.Status) {
	r, k, s := e.target(record, st)
	if s != abi.StatusOK {
		return nil, s
	}
	if r.renews {
		if err := e.renew(r, record, st, k, ukey); err != nil {
			return nil, e.hostFault(err)
		}
	}
	v, ok, err := r.get(k, ukey)
	if err != nil {
		return nil, e.hostFault(err)
	}
	if !ok {
		return nil, abi.StatusAbsent
	}
	return v, abi.StatusOK
}

func (r *store) get(k state.Key, ukey []byte) ([]byte, bool, error) {
	if r.value != nil {
		return r.value.Load(state.NoPos, k)
	}
	return r.ordered.Get(k, ukey)
}

func (r *store) put(k state.Key, ukey, v []byte) error {
	if r.value != nil {
		return r.value.Store(state.NoPos, k, v)
	}
	return r.ordered.Put(k, ukey, v)
}

func (r *store) remove(k state.Key, ukey []byte) error {
	if r.value != nil {
		return r.value.Remove(state.NoPos, k)
	}
	return r.ordered.Delete(k, ukey)
}

// Put implements Env.
func (e *env) Put(record, st int, ukey, v []byte) abi.Status {
	r, k, s := e.target(record, st)
	if s != abi.StatusOK {
		return s
	}
	limit := r.desc.MaxBytes
	if limit <= 0 {
		limit = abi.MaxStateValueBytes
	}
	if len(v) > limit || len(ukey) > abi.MaxKeyBytes {
		return abi.StatusLimit
	}
	if r.desc.Kind == abi.StateList {
		return abi.StatusBadArg
	}
	return e.put(r, record, st, k, ukey, v)
}

func (e *env) put(r *stateRef, record, st int, k state.Key, ukey, v []byte) abi.Status {
	if err := e.remember(r, record, st, k, ukey); err != nil {
		return e.hostFault(err)
	}
	if err := r.put(k, ukey, v); err != nil {
		return e.hostFault(err)
	}
	return abi.StatusOK
}

func (e *env) remember(r *stateRef, record, st int, k state.Key, ukey []byte) error {
	old, had, err := r.raw.get(k, ukey)
	if err != nil {
		return err
	}
	u := undo{record: record, st: st, key: k, had: had}
	u.old = e.keep(old)
	u.ukey = e.keep(ukey)
	e.journal = append(e.journal, u)
	return nil
}

// undoFrom takes back the journal's entries from i on, last first.
func (e *env) undoFrom(i int) error {
	for n := len(e.journal) - 1; n >= i; n-- {
		u := &e.journal[n]
		r := &e.op.states[u.st].raw
		var err error
		if u.had {
			err = r.put(u.key, e.bytes(u.ukey), e.bytes(u.old))
		} else {
			err = r.remove(u.key, e.bytes(u.ukey))
		}
		if err != nil {
			return err
		}
	}
	e.journal = e.journal[:i]
	return nil
}

// Delete implements Env.
func (e *env) Delete(record, st int, ukey []byte) abi.Status {
	r, k, s := e.target(record, st)
	if s != abi.StatusOK {
		return s
	}
	if err := e.remember(r, record, st, k, ukey); err != nil {
		return e.hostFault(err)
	}
	if err := r.remove(k, ukey); err != nil {
		return e.hostFault(err)
	}
	return abi.StatusOK
}

// Clear implements Env.
func (e *env) Clear(record, st int) abi.Status {
	r, k, s := e.target(record, st)
	if s != abi.StatusOK {
		return s
	}
	if r.value != nil {
		return e.Delete(record, st, nil)
	}
	it, err := r.raw.ordered.Scan(k, nil)
	if err != nil {
		return e.hostFault(err)
	}
	for it.Next() {
		ukey, v := it.Entry()
		u := undo{record: record, st: st, key: k, had: true}
		u.old, u.ukey = e.keep(v), e.keep(ukey)
		e.journal = append(e.journal, u)
	}
	if err := it.Close(); err != nil {
		return e.hostFault(err)
	}
	if err := r.ordered.Clear(k); err != nil {
		return e.hostFault(err)
	}
	return abi.StatusOK
}

// Append implements Env.
func (e *env) Append(record, st int, v []byte) abi.Status {
	r, k, s := e.target(record, st)
	if s != abi.StatusOK {
		return s
	}
	if r.desc.Kind != abi.StateList {
		return abi.StatusBadArg
	}
	if len(v) > abi.MaxStateValueBytes {
		return abi.StatusLimit
	}
	next := []byte{listNext}
	var seq uint64
	b, ok, err := r.ordered.Get(k, next)
	if err != nil {
		return e.hostFault(err)
	}
	if ok && len(b) == 8 {
		seq = binary.BigEndian.Uint64(b)
	}
	var item [9]byte
	item[0] = listItem
	binary.BigEndian.PutUint64(item[1:], seq)
	if s := e.put(r, record, st, k, item[:], v); s != abi.StatusOK {
		return s
	}
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], seq+1)
	return e.put(r, record, st, k, next, n[:])
}

// Scan implements Env.
func (e *env) Scan(record, st int, from []byte) (int, abi.Status) {
	r, k, s := e.target(record, st)
	switch {
	case s != abi.StatusOK:
		return 0, s
	case r.ordered == nil:
		return 0, abi.StatusBadArg
	case len(e.iters) >= maxIterators:
		return 0, abi.StatusLimit
	}
	sc := &scan{st: st}
	if r.desc.Kind == abi.StateList {
		sc.strip = 1
		from = append([]byte{listItem}, from...)
		if r.renews { // the number of the next element lives as long as the elements
			if err := e.renew(r, record, st, k, []byte{listNext}); err != nil {
				return 0, e.hostFault(err)
			}
		}
	}
	it, err := r.ordered.Scan(k, from)
	if err != nil {
		return 0, e.hostFault(err)
	}
	sc.it = it
	for i, old := range e.iters {
		if old == nil {
			e.iters[i] = sc
			return i, abi.StatusOK
		}
	}
	e.iters = append(e.iters, sc)
	return len(e.iters) - 1, abi.StatusOK
}

// ScanNext implements Env.
func (e *env) ScanNext(record, iter int, advance bool) (ukey, v []byte, ok bool, s abi.Status) {
	if iter < 0 || iter >= len(e.iters) || e.iters[iter] == nil {
		return nil, nil, false, abi.StatusBadArg
	}
	sc := e.iters[iter]
	if !sc.loaded && !sc.done {
		sc.loaded = sc.it.Next()
		sc.done = !sc.loaded
		if r := &e.op.states[sc.st]; r.renews && sc.loaded {
			if s := e.renewScanned(r, record, sc); s != abi.StatusOK {
				return nil, nil, false, s
			}
		}
	}
	if sc.done {
		return nil, nil, false, abi.StatusOK
	}
	ukey, v = sc.it.Entry()
	if advance {
		sc.loaded = false
	}
	return ukey[sc.strip:], v, true, abi.StatusOK
}

// renewScanned renews the entry that a scan has come to.
func (e *env) renewScanned(r *stateRef, record int, sc *scan) abi.Status {
	k, ok := e.key(record)
	if !ok {
		return abi.StatusNoKey
	}
	e.op.expiry.at(e.op, record)
	ukey, _ := sc.it.Entry()
	if err := e.renew(r, record, sc.st, k, ukey); err != nil {
		return e.hostFault(err)
	}
	return abi.StatusOK
}

// ScanClose implements Env.
func (e *env) ScanClose(_, iter int) abi.Status {
	if iter < 0 || iter >= len(e.iters) || e.iters[iter] == nil {
		return abi.StatusBadArg
	}
	err := e.iters[iter].it.Close()
	e.iters[iter] = nil
	if err != nil {
		return e.hostFault(err)
	}
	return abi.StatusOK
}
