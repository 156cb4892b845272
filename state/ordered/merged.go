package ordered

import (
	"bytes"

	"github.com/millrace-io/millrace/state/runs"
)

// merged walks several runs, newest first, as one. Of entries with the same key the newest run's counts;
// a clear marker hides the key's entries in older runs (not in its own: those came after it).
type merged struct {
	its    []*runs.Iter
	ok     []bool
	cur    int
	err    error
	marker []byte // of the key that is being walked, without hash; empty: none
	hash   uint64 // of that key
	rank   int    // run of the marker
	buf    []byte
	read   int // entries read from the runs
}

func newMerged(live []*liveRun) *merged {
	m := &merged{cur: -1}
	for _, l := range live {
		it := l.run.Iter(l.lo, l.hi)
		m.its = append(m.its, it)
		m.ok = append(m.ok, m.advance(it))
	}
	return m
}

func (m *merged) advance(it *runs.Iter) bool {
	if it.Next() {
		m.read++
		return true
	}
	if err := it.Err(); err != nil && m.err == nil {
		m.err = err
	}
	return false
}

// next moves to the next entry, tombstones and markers included.
func (m *merged) next() bool {
	for m.step() {
		it := m.its[m.cur]
		if it.Tombstone() {
			var is bool
			if m.buf, is = isMarker(it.Key(), m.buf); is {
				m.marker = append(m.marker[:0], it.Key()...)
				m.hash, m.rank = it.Hash(), m.cur
				return true
			}
		}
		if m.cur > m.rank && len(m.marker) > 0 && m.hash == it.Hash() && behindMarker(m.marker, it.Key()) {
			continue
		}
		return true
	}
	return false
}

// step moves to the next entry, hidden or not.
func (m *merged) step() bool {
	if m.cur >= 0 {
		m.ok[m.cur] = m.advance(m.its[m.cur])
	}
	m.cur = -1
	for i, it := range m.its {
		if !m.ok[i] {
			continue
		}
		if m.cur < 0 {
			m.cur = i
			continue
		}
		best := m.its[m.cur]
		switch {
		case it.Hash() > best.Hash():
		case it.Hash() < best.Hash():
			m.cur = i
		default:
			switch bytes.Compare(it.Key(), best.Key()) {
			case -1:
				m.cur = i
			case 0: // older
				m.ok[i] = m.advance(it)
			}
		}
	}
	return m.cur >= 0 && m.err == nil
}

func (m *merged) entry() *runs.Iter { return m.its[m.cur] }
