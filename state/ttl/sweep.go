package ttl

import (
	"bytes"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

const (
	sweepKeys    = 256  // keys that one look at the calendar gives
	sweepEntries = 1024 // looked at in one step
)

// sweeper removes what has expired. The calendar has, for each key and state with entries, an alarm at or
// soon after the earliest expiry, or earlier: renewing an entry does not touch it, the alarm finds the entry
// young and is set anew.
type sweeper struct {
	k      *Keyed
	byName map[string]int // states with a TTL
	due    []state.Timer
	keys   []state.Key
	pos    []state.Pos
	left   int // entries this step may still look at

	// a key with many entries is left in the middle
	inKey   []byte
	inState int
	inAfter []byte // last user key looked at
	inLeast int64  // earliest stamp so far
	inside  bool
}

func (s *sweeper) init(k *Keyed) {
	s.k, s.byName = k, map[string]int{}
	s.pos = make([]state.Pos, sweepKeys)
}

// step removes some of what has expired; busy: there is more.
func (s *sweeper) step() (busy bool, err error) {
	s.left = sweepEntries
	for d := state.Domain(abi.DomainEvent); d <= abi.DomainProcessing; d++ {
		for {
			upTo := s.k.passed[d]
			if at, ok := s.k.cal.Next(d); !ok || at > upTo || upTo == abi.MinWatermark {
				break
			}
			if s.left <= 0 {
				return true, nil
			}
			if s.due, err = s.k.cal.Due(d, upTo, sweepKeys, s.due[:0]); err != nil {
				return false, err
			}
			if len(s.due) == 0 {
				break
			}
			if err := s.look(d); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// look treats the alarms that are due: those of value states together, so that look-ups overlap.
func (s *sweeper) look(d state.Domain) error {
	for i, w := range s.k.wraps {
		if w == (wrap{}) || w.policy().Domain != d {
			continue // no such state any more: the alarm is of no use
		}
		s.keys = s.keys[:0]
		for j := range s.due {
			t := &s.due[j]
			if !bytes.Equal(t.Name, w.policy().name) {
				continue
			}
			if w.value != nil {
				s.keys = append(s.keys, t.Key)
				continue
			}
			if err := s.entries(i, w.ordered, t); err != nil {
				return err
			}
		}
		if len(s.keys) > 0 {
			if err := s.values(w.value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sweeper) values(v *value) error {
	s.left -= len(s.keys)
	now := s.k.passed[v.Domain]
	pos := s.pos[:len(s.keys)]
	if err := v.Prefetch(s.keys, pos); err != nil {
		return err
	}
	for i, key := range s.keys {
		raw, ok, err := v.Value.Load(pos[i], key)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		stamp, _, err := split(raw)
		switch {
		case err != nil:
		case s.k.expired(&v.policy, stamp, now):
			err = v.Remove(pos[i], key)
		default:
			err = s.k.arm(&v.policy, key, stamp)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries treats the alarm of a key of map or list state. What is too much for this step comes with the same
// alarm again.
func (s *sweeper) entries(i int, o *ordered, t *state.Timer) error {
	if s.left <= 0 {
		return s.k.cal.Set(o.Domain, t.Key, t.Name, t.At)
	}
	var from []byte
	least := int64(math.MaxInt64)
	if s.inside && s.inState == i && bytes.Equal(s.inKey, t.Key.Bytes) {
		from, least = append(s.inAfter, 0), s.inLeast
	}
	s.inside = false
	it, err := o.Ordered.Scan(t.Key, from)
	if err != nil {
		return err
	}
	least, more, err := s.scan(o, t, it, least)
	if e := it.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if more {
		s.inside, s.inState, s.inLeast = true, i, least
		s.inKey = append(s.inKey[:0], t.Key.Bytes...)
		return s.k.cal.Set(o.Domain, t.Key, t.Name, t.At)
	}
	if least == math.MaxInt64 {
		return nil
	}
	return s.k.arm(&o.policy, t.Key, least)
}

func (s *sweeper) scan(o *ordered, t *state.Timer, it state.Iterator, least int64) (int64, bool, error) {
	now := s.k.passed[o.Domain]
	for it.Next() {
		ukey, raw := it.Entry()
		stamp, _, err := split(raw)
		if err != nil {
			return least, false, err
		}
		if !s.k.expired(&o.policy, stamp, now) {
			least = min(least, s.k.since(stamp))
		} else if err := o.Delete(t.Key, ukey); err != nil {
			return least, false, err
		}
		if s.left--; s.left <= 0 {
			s.inAfter = append(s.inAfter[:0], ukey...)
			return least, true, nil
		}
	}
	return least, false, nil
}
