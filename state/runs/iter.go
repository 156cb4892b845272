package runs

import (
	"bytes"
)

const (
	readAhead     = 512 << 10
	readAheadStep = readAhead / blockSize / 2
)

// Iter walks entries of a run in (hash, key bytes) order. Next must be called before the first one. It
// reads through the run's mapping: the caller's reference must outlive it. Nothing needs closing.
type Iter struct {
	r     *Run
	hi    uint64
	block int
	rec   int // next record in the block
	n     int // records in it
	b     []byte
	ahead int // blocks that the system was asked for
	e     entry
	err   error
}

// Iter iterates the entries with lo <= hash <= hi.
func (r *Run) Iter(lo, hi uint64) *Iter {
	it := &Iter{r: r, hi: hi}
	it.Seek(lo, nil)
	return it
}

// Seek moves to before the first entry >= (hash, key), forward or back. A key prefix works as a key.
func (it *Iter) Seek(hash uint64, key []byte) {
	it.block, it.rec, it.n, it.b, it.err = len(it.r.first), 0, 0, nil, nil
	if len(it.r.first) == 0 || hash > it.r.foot.hi {
		return
	}
	block, rec, err := it.r.seek(hash, key)
	if err != nil {
		it.err = err
		return
	}
	it.block = block
	it.load()
	it.rec = rec
}

// load reads the current block.
func (it *Iter) load() bool {
	if it.block >= len(it.r.first) || it.err != nil {
		it.n = 0
		return false
	}
	if it.block >= it.ahead && it.block > 0 {
		it.ahead = it.block + readAheadStep
		it.r.readAhead(it.block)
	}
	it.b, it.err = it.r.block(it.block)
	it.rec = 0
	it.n = 0
	if it.err != nil {
		return false
	}
	it.n = blockEntries(it.b)
	return true
}

func (r *Run) readAhead(block int) {
	off := block * blockSize
	if r.place != nil {
		off = int(r.place[block]) * blockSize
	}
	r.m.WillNeed(off, readAhead)
}

// Next moves to the next entry; false at the end or on error.
func (it *Iter) Next() bool {
	for it.rec >= it.n {
		it.block++
		if it.b == nil || !it.load() {
			return false
		}
	}
	it.e = record(it.b, it.rec)
	it.rec++
	return it.e.hash <= it.hi
}

// Hash of the current entry.
func (it *Iter) Hash() uint64 { return it.e.hash }

// Key of the current entry; it points into the file.
func (it *Iter) Key() []byte { return it.e.key }

// Value of the current entry; it points into the file. Empty for a tombstone.
func (it *Iter) Value() []byte { return it.e.value }

// Tombstone says that the entry removes its key.
func (it *Iter) Tombstone() bool { return it.e.tomb }

// Err is the first error met: ErrCorrupt with file and block.
func (it *Iter) Err() error { return it.err }

// Merged walks several runs as one: of entries with the same hash and key the newest run's is taken.
type Merged struct {
	its  []*Iter // newest first
	live []bool  // has a current entry
	cur  int
	err  error
}

// NewMerged iterates the layers, newest first, each within its own hashes and lo..hi.
func NewMerged(layers []Layer, lo, hi uint64) *Merged {
	m := &Merged{cur: -1}
	for _, l := range layers {
		a, b := max(lo, l.Lo), min(hi, l.Hi)
		if l.Run == nil || a > b {
			continue
		}
		it := l.Run.Iter(a, b)
		m.its = append(m.its, it)
		m.live = append(m.live, m.advance(it))
	}
	return m
}

func (m *Merged) advance(it *Iter) bool {
	ok := it.Next()
	if !ok && it.err != nil && m.err == nil {
		m.err = it.err
	}
	return ok
}

// Next moves to the next entry; false at the end or on error.
func (m *Merged) Next() bool {
	if m.cur >= 0 {
		m.live[m.cur] = m.advance(m.its[m.cur])
	}
	m.cur = -1
	for i, it := range m.its {
		if !m.live[i] {
			continue
		}
		if m.cur < 0 {
			m.cur = i
			continue
		}
		c := &m.its[m.cur].e
		if it.e.hash > c.hash {
			continue
		}
		less := it.e.hash < c.hash
		if !less {
			switch x := bytes.Compare(it.e.key, c.key); {
			case x == 0: // an older version
				m.live[i] = m.advance(it)
				continue
			default:
				less = x < 0
			}
		}
		if less {
			m.cur = i
		}
	}
	return m.cur >= 0 && m.err == nil
}

// Hash of the current entry.
func (m *Merged) Hash() uint64 { return m.its[m.cur].e.hash }

// Key of the current entry; it points into a file.
func (m *Merged) Key() []byte { return m.its[m.cur].e.key }

// Value of the current entry; it points into a file.
func (m *Merged) Value() []byte { return m.its[m.cur].e.value }

// Tombstone says that the entry removes its key.
func (m *Merged) Tombstone() bool { return m.its[m.cur].e.tomb }

// Err is the first error met.
func (m *Merged) Err() error { return m.err }
