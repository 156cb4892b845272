package coldpebble

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

const prefixBytes = 4

// Space is a range of the database with one owner, empty at first. Keys are any bytes.
//
// Concurrency: one goroutine. Reads see all committed batches.
type Space struct {
	e      *Env
	db     *pebble.DB
	prefix [prefixBytes]byte
	key    []byte
}

func newSpace(e *Env, n uint32) *Space {
	s := &Space{e: e, db: e.db}
	binary.BigEndian.PutUint32(s.prefix[:], n)
	s.key = append(s.key, s.prefix[:]...)
	return s
}

// full is the database's key, valid until the next call.
func (s *Space) full(k []byte) []byte {
	s.key = append(s.key[:prefixBytes], k...)
	return s.key
}

func (s *Space) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if f := s.e.Err(); f != nil {
		return f
	}
	return fmt.Errorf("state: cold store %s: %s: %w", s.e.dir, what, err)
}

// Get appends the value of k to dst.
func (s *Space) Get(dst, k []byte) (v []byte, ok bool, err error) {
	if err := s.e.Err(); err != nil {
		return dst, false, err
	}
	got, closer, err := s.db.Get(s.full(k))
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, s.wrap("get", err)
	}
	dst = append(dst, got...)
	return dst, true, s.wrap("get", closer.Close())
}

// Batch collects writes.
type Batch struct {
	s *Space
	b *pebble.Batch
}

// Batch starts a batch. Either Commit or Drop must follow.
func (s *Space) Batch() Batch { return Batch{s, s.db.NewBatch()} }

// Set puts an entry, copying both.
func (b Batch) Set(k, v []byte) error { return b.s.wrap("set", b.b.Set(b.s.full(k), v, nil)) }

// Delete removes an entry.
func (b Batch) Delete(k []byte) error { return b.s.wrap("delete", b.b.Delete(b.s.full(k), nil)) }

// DeleteRange removes all entries in [lo, hi) that are there before the batch's later writes.
func (b Batch) DeleteRange(lo, hi []byte) error {
	end := append(append([]byte(nil), b.s.prefix[:]...), hi...)
	return b.s.wrap("delete range", b.b.DeleteRange(b.s.full(lo), end, nil))
}

// Drop forgets the batch.
func (b Batch) Drop() { _ = b.b.Close() } // an uncommitted batch has nothing to fail with

// Commit applies the batch. It returns with the Env's error, if that comes first, for a database that
// can't flush makes writers wait for ever.
func (b Batch) Commit() error {
	e := b.s.e
	if err := e.Err(); err != nil {
		b.Drop()
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil { // a writer that hung until the database was closed
				done <- fmt.Errorf("commit: %v", r)
			}
		}()
		err := b.b.Commit(pebble.NoSync) // without a log any other option is an error
		done <- errors.Join(err, b.b.Close())
	}()
	select {
	case err := <-done:
		return b.s.wrap("commit", err)
	case <-e.failed:
		return e.err
	}
}

// Iter walks a range of a Space as it was when the iterator was made.
type Iter struct {
	s     *Space
	it    *pebble.Iterator
	valid bool
}

// Iter opens an iterator over [lo, hi) at its first entry. Both bounds are always set, so that the
// iterator never looks into a neighbour's tombstones (C019).
func (s *Space) Iter(lo, hi []byte) (*Iter, error) {
	if err := s.e.Err(); err != nil {
		return nil, err
	}
	o := &pebble.IterOptions{
		LowerBound: append(append([]byte(nil), s.prefix[:]...), lo...),
		UpperBound: append(append([]byte(nil), s.prefix[:]...), hi...),
	}
	it, err := s.db.NewIter(o)
	if err != nil {
		return nil, s.wrap("iterate", err)
	}
	s.e.iters.Add(1)
	i := &Iter{s: s, it: it}
	i.valid = it.First()
	return i, nil
}

// Valid says whether there is an entry. If not, Close tells the error, if any.
func (i *Iter) Valid() bool { return i.valid }

// Next moves on.
func (i *Iter) Next() { i.valid = i.it.Next() }

// Entry is the current entry, valid until Next.
func (i *Iter) Entry() (k, v []byte, err error) {
	v, err = i.it.ValueAndErr()
	return i.it.Key()[prefixBytes:], v, i.s.wrap("iterate", err)
}

// PointsRead is how many entries below, tombstones included, the iterator has stepped over so far.
func (i *Iter) PointsRead() int {
	st := i.it.Stats()
	return int(st.InternalStats.PointCount)
}

// Err is the first error met.
func (i *Iter) Err() error { return i.s.wrap("iterate", i.it.Error()) }

// Close frees the iterator and returns the first error met.
func (i *Iter) Close() error {
	i.s.e.iters.Add(-1)
	return i.s.wrap("iterate", i.it.Close())
}

// Bytes estimates what the space takes on disk; what is in memtables does not count.
func (s *Space) Bytes() int64 {
	end := s.prefix
	binary.BigEndian.PutUint32(end[:], binary.BigEndian.Uint32(end[:])+1)
	n, err := s.db.EstimateDiskUsage(s.prefix[:], end[:])
	if err != nil {
		return 0 // an estimate for people
	}
	return int64(n)
}

// Flush writes memtables to disk, for tests and measurements.
func (s *Space) Flush() error { return s.wrap("flush", s.db.Flush()) }

// Close gives the space up; its entries are deleted.
func (s *Space) Close() error {
	if s.e.Err() != nil {
		return nil // the Env says so to everybody; nothing can be deleted
	}
	end := make([]byte, prefixBytes)
	binary.BigEndian.PutUint32(end, binary.BigEndian.Uint32(s.prefix[:])+1)
	b := s.Batch()
	if err := b.b.DeleteRange(s.prefix[:], end, nil); err != nil {
		b.Drop()
		return s.wrap("close", err)
	}
	return b.Commit()
}
