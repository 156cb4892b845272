// Package ordered has the ordered side of the state engine: map and list state in a B+tree (Store) and
// timers in a calendar queue (Timers). Both live outside the Go heap, log their changes and cut by taking
// the log away; the background makes runs of it, which are the snapshot and what a restore reads. Beyond
// its budget a part on the disk backend moves entries to coldpebble.
//
// In runs an entry's key is its composite key (state/keycodec.go) without the hash, a removed entry is a
// tombstone, and a cleared key is one tombstone under its clear marker, which hides all of the key's
// entries in older runs.
package ordered

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/coldpebble"
)

const (
	largestLog  = 16 << 20
	smallestLog = 256 << 10
)

// Store is map or list state of one task. It implements state.Ordered and state.Part.
type Store struct {
	l        layered
	log      opLog
	h        *history
	env      *coldpebble.Env // to close, if it is the store's own
	maxValue int
	logLimit int64
	comp     []byte
	end      []byte
	cut      *cut
	closed   bool
}

var (
	_ state.Ordered = (*Store)(nil)
	_ state.Part    = (*Store)(nil)
)

// Open makes the state and fills it from cfg.Restore. With cfg.Cold it spills to env; env may be nil:
// then it has a database of its own in cfg.Dir.
//
// Errors: ErrCorrupt with the file's name; the disk's.
func Open(cfg state.PartConfig, env *coldpebble.Env) (*Store, error) {
	s := &Store{h: newHistory(cfg), maxValue: cfg.Descriptor.MaxBytes}
	if s.maxValue == 0 {
		s.maxValue = abi.MaxStateValueBytes
	}
	s.l.tree = newTree()
	s.l.env, s.env = coldEnv(cfg, env)
	s.Limit(cfg.Limit)
	err := s.h.restore(func(comp, value []byte) error {
		if err := s.l.room(0); err != nil {
			return err
		}
		return s.l.put(comp, value)
	})
	if err != nil {
		_ = s.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// Limit implements state.Part. A quarter of it at most is for the log of changes.
func (s *Store) Limit(bytes int64) {
	s.l.limit = bytes
	s.logLimit = logShare(bytes)
}

func logShare(limit int64) int64 {
	if limit <= 0 {
		return largestLog
	}
	return min(max(limit/4, smallestLog), largestLog)
}

// begin checks and reserves everything that a change of comp with a value of n bytes needs.
func (s *Store) begin(k state.Key, ukey []byte, n int) error {
	if len(k.Bytes) > abi.MaxKeyBytes || len(ukey) > abi.MaxKeyBytes {
		return fmt.Errorf("%w: key of %d and user key of %d bytes in state %s, limit %d each",
			state.ErrTooLarge, len(k.Bytes), len(ukey), s.h.cfg.Descriptor.Name, abi.MaxKeyBytes)
	}
	if n > s.maxValue {
		return fmt.Errorf("%w: value of %d bytes in state %s, limit %d", state.ErrTooLarge, n, s.h.cfg.Descriptor.Name, s.maxValue)
	}
	s.comp = state.AppendComposite(s.comp[:0], k, ukey)
	if s.log.bytes >= s.logLimit {
		if err := s.handOver(); err != nil {
			return err
		}
	}
	return s.log.reserve(len(s.comp), n)
}

// handOver gives the log to the background as a run of the next cut. It waits if two are waiting.
func (s *Store) handOver() error {
	s.h.reclaim(&s.log, s.logLimit)
	if err := s.h.room(); err != nil {
		return err
	}
	s.h.add(s.log.seal(), nil)
	return nil
}

// Get implements state.Ordered.
func (s *Store) Get(k state.Key, ukey []byte) (v []byte, ok bool, err error) {
	s.comp = state.AppendComposite(s.comp[:0], k, ukey)
	return s.l.get(s.comp)
}

// Put implements state.Ordered.
func (s *Store) Put(k state.Key, ukey, v []byte) error {
	if err := s.begin(k, ukey, len(v)); err != nil {
		return err
	}
	v = s.log.append(s.comp, v, kindValue) // first: v may be a borrowed entry, which moves now
	err := s.l.room(s.log.bytes)
	if err == nil {
		err = s.l.put(s.comp, v)
	}
	if err != nil {
		s.log.undo(s.comp, v)
	}
	return err
}

// Delete implements state.Ordered.
func (s *Store) Delete(k state.Key, ukey []byte) error {
	if err := s.begin(k, ukey, 0); err != nil {
		return err
	}
	if err := s.l.room(s.log.bytes); err != nil {
		return err
	}
	changed, err := s.l.del(s.comp)
	if changed && err == nil {
		s.log.append(s.comp, nil, kindTomb)
	}
	return err
}

// Clear implements state.Ordered.
func (s *Store) Clear(k state.Key) error {
	if err := s.begin(k, nil, 0); err != nil {
		return err
	}
	if err := s.l.room(s.log.bytes); err != nil {
		return err
	}
	changed, err := s.l.clear(s.comp) // comp is the marker now
	if changed {
		s.log.append(s.comp, nil, kindClear)
	}
	return err
}

// Scan implements state.Ordered.
func (s *Store) Scan(k state.Key, from []byte) (state.Iterator, error) {
	s.comp = state.AppendPrefix(s.comp[:0], k)
	skip := len(s.comp)
	s.end = state.PrefixEnd(append(s.end[:0], s.comp...))
	s.comp = append(s.comp, from...)
	return s.l.scan(s.comp, s.end, skip)
}

// Freeze implements state.Part: the log of changes since the last cut goes to the background.
func (s *Store) Freeze() (state.Cut, error) {
	if err := cutDone(s.cut); err != nil {
		return nil, err
	}
	s.h.reclaim(&s.log, s.logLimit)
	s.cut = &cut{done: make(chan struct{})}
	s.h.add(s.log.seal(), s.cut)
	return s.cut, nil
}

func cutDone(c *cut) error {
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return nil
	default:
		return fmt.Errorf("state: freeze before the previous cut is done")
	}
}

// Step implements state.Part. A cut leaves nothing to the task; a lowered limit does.
func (s *Store) Step() (busy bool, err error) {
	if s.l.env == nil || s.l.tree.count == 0 || s.l.tree.open > 0 || s.l.tree.bytes()+s.log.bytes <= s.l.limit {
		return false, nil
	}
	return true, s.l.evict()
}

// Committed implements state.Part. Nothing waits for it: runs that are no longer live were given back
// when they were merged.
func (s *Store) Committed(state.StateSnapshot) {}

// Stats implements state.Part.
func (s *Store) Stats() state.Stats {
	cold, logs, merged := s.h.sizes()
	if s.l.space != nil {
		cold += s.l.space.Bytes()
	}
	return state.Stats{
		Entries:    s.l.tree.count,
		MemBytes:   s.l.tree.bytes() + s.log.bytes + logs,
		ColdBytes:  cold,
		Evictions:  s.l.evictions,
		ColdReads:  s.l.coldReads,
		OpenIters:  s.l.openIters,
		MergeBytes: merged,
	}
}

// Close implements state.Part.
func (s *Store) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.h.close()
	s.log.close()
	err := s.l.close()
	if s.env != nil {
		if e := s.env.Close(); err == nil {
			err = e
		}
	}
	return err
}
