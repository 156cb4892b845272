package backend

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
	"github.com/millrace-io/millrace/state/table"
)

// absentPos is a Pos that a Prefetch gives for a key that has no value anywhere. It counts the evictions
// so far: after the next one it is only a Pos that is no hint.
func (s *valueStore) absentPos() state.Pos { return state.NoPos - 1 - state.Pos(s.sweeps&(1<<30-1)) }

// valueStore is a value state: a hot table over run files. Without cold all live entries are in the
// table, and the files are only what the next snapshot names.
//
// The task's goroutine owns everything but the worker and the merger, which get jobs and hand back
// results that the owner applies in its next call (poll).
type valueStore struct {
	cfg    state.PartConfig
	max    int // bytes of a value
	tab    *table.Table
	part   partitioning
	layers [partitions]layers
	open   *spill   // being filled by evictions
	spills []*spill // on their way to disk, newest first; all newer than all files

	looks  []runs.Lookup
	lookAt []int32 // index in the batch
	sweeps uint64  // calls of EvictSome

	cut    *cut // in progress
	bg     *background
	err    error // fatal
	nextID atomic.Uint64
	ctx    context.Context
	stop   context.CancelFunc

	merging    bool
	mergeAfter int // cuts and spills to wait for after a failed merge
	failures   int // merges failed in a row

	evictions, coldReads, mergeBytes int64
}

// newValueStore opens a value state, empty or from a snapshot.
func newValueStore(cfg state.PartConfig) (*valueStore, error) {
	s := &valueStore{cfg: cfg, max: cfg.Descriptor.MaxBytes, part: newPartitioning(cfg.Range)}
	if s.max == 0 {
		s.max = abi.MaxStateValueBytes
	}
	tab, err := table.New(cfg.Range, 0)
	if err != nil {
		return nil, err
	}
	s.tab = tab
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.bg = newBackground(s)
	s.Limit(cfg.Limit)
	if err := s.restore(); err != nil {
		_ = s.Close() // the other error says more
		return nil, err
	}
	return s, nil
}

// Limit implements state.Part: of the limit the table gets 3/4, spills on their way to disk and the
// copies of a cut the rest.
func (s *valueStore) Limit(bytes int64) {
	if s.cfg.Cold {
		s.tab.SetLimit(max(bytes/4*3, 1))
		s.bg.setLimit(max(bytes/8, spillBytes/4))
	}
}

// path of a new local file.
func (s *valueStore) path(kind string) string {
	return filepath.Join(s.cfg.Dir, fmt.Sprintf("%s-%06d.run", kind, s.nextID.Add(1)))
}

// Prefetch implements state.Value.
func (s *valueStore) Prefetch(keys []state.Key, pos []state.Pos) error {
	if err := s.poll(); err != nil {
		return err
	}
	if err := s.room(len(keys)); err != nil {
		return err
	}
	s.tab.FindAll(keys, pos)
	s.looks, s.lookAt = s.looks[:0], s.lookAt[:0]
	for i, p := range pos[:len(keys)] {
		if p != state.NoPos {
			continue
		}
		if !s.cfg.Cold {
			pos[i] = s.absentPos()
			continue
		}
		if l := len(keys[i].Bytes); l > abi.MaxKeyBytes {
			return fmt.Errorf("%w: key of %d bytes in state %q, limit %d", state.ErrTooLarge, l, s.cfg.Descriptor.Name, abi.MaxKeyBytes)
		}
		s.look(keys[i])
		s.lookAt = append(s.lookAt, int32(i))
	}
	if len(s.looks) == 0 {
		return nil
	}
	if err := s.resolve(); err != nil {
		return err
	}
	for j := range s.looks {
		p, err := s.adopt(&s.looks[j])
		if err != nil {
			return err
		}
		pos[s.lookAt[j]] = p
	}
	return nil
}

// look adds a key to the look-ups of the batch.
func (s *valueStore) look(k state.Key) {
	n := len(s.looks)
	if n < cap(s.looks) {
		s.looks = s.looks[:n+1]
	} else {
		s.looks = append(s.looks, runs.Lookup{})
	}
	l := &s.looks[n]
	*l = runs.Lookup{Hash: k.Hash, Key: k.Bytes, Runs: s.layers[s.part.of(k.Hash)].runs}
}

// resolve looks the keys up below the table: spills in memory, then files.
func (s *valueStore) resolve() error {
	s.coldReads += int64(len(s.looks))
	if s.open != nil || len(s.spills) > 0 {
		for i := range s.looks {
			s.findSpilled(&s.looks[i])
		}
	}
	return s.fail(runs.GetAll(s.looks))
}

func (s *valueStore) findSpilled(l *runs.Lookup) {
	if s.open != nil {
		if l.Value, l.Tombstone, l.Found = s.open.find(l.Hash, l.Key); l.Found {
			return
		}
	}
	for _, sp := range s.spills {
		if l.Hash < sp.lo || l.Hash > sp.hi {
			continue
		}
		if l.Value, l.Tombstone, l.Found = sp.find(l.Hash, l.Key); l.Found {
			return
		}
	}
}

// adopt puts what a look-up found into the table.
func (s *valueStore) adopt(l *runs.Lookup) (state.Pos, error) {
	if !l.Found || l.Tombstone {
		return s.absentPos(), nil
	}
	return s.tab.Insert(l.Hash, l.Key, l.Value, false, table.Clean)
}

// fetch returns where the key's entry is in the table, NoPos if the key has none anywhere.
func (s *valueStore) fetch(p state.Pos, k state.Key) (state.Pos, error) {
	known := p == s.absentPos()
	if p = s.tab.Find(p, k.Hash, k.Bytes); p != state.NoPos || known || !s.cfg.Cold {
		return p, nil
	}
	if err := s.room(1); err != nil {
		return state.NoPos, err
	}
	s.looks = s.looks[:0]
	s.look(k)
	if err := s.resolve(); err != nil {
		return state.NoPos, err
	}
	p, err := s.adopt(&s.looks[0])
	if p < 0 {
		p = state.NoPos
	}
	return p, err
}

// Load implements state.Value.
func (s *valueStore) Load(p state.Pos, k state.Key) ([]byte, bool, error) {
	if s.err != nil {
		return nil, false, s.err
	}
	p, err := s.fetch(p, k)
	if err != nil || p == state.NoPos {
		return nil, false, err
	}
	v, ok := s.tab.Value(p)
	return v, ok, nil
}

// Store implements state.Value.
func (s *valueStore) Store(p state.Pos, k state.Key, v []byte) error {
	if s.err != nil {
		return s.err
	}
	if len(v) > s.max {
		return fmt.Errorf("%w: value of %d bytes in state %q, limit %d", state.ErrTooLarge, len(v), s.cfg.Descriptor.Name, s.max)
	}
	if len(k.Bytes) > abi.MaxKeyBytes {
		return fmt.Errorf("%w: key of %d bytes in state %q, limit %d", state.ErrTooLarge, len(k.Bytes), s.cfg.Descriptor.Name, abi.MaxKeyBytes)
	}
	if err := s.room(1); err != nil {
		return err
	}
	at := s.tab.Find(p, k.Hash, k.Bytes)
	if at != state.NoPos {
		return s.tab.Put(at, v)
	}
	origin := table.Fresh
	if s.cfg.Cold && p != s.absentPos() {
		origin = table.Unknown
	}
	_, err := s.tab.Insert(k.Hash, k.Bytes, v, false, origin)
	return err
}

// Remove implements state.Value.
func (s *valueStore) Remove(p state.Pos, k state.Key) error {
	if s.err != nil {
		return s.err
	}
	at := s.tab.Find(p, k.Hash, k.Bytes)
	if at != state.NoPos {
		return s.tab.Remove(at)
	}
	if !s.cfg.Cold || p == s.absentPos() {
		return nil
	}
	if err := s.room(1); err != nil {
		return err
	}
	_, err := s.tab.Insert(k.Hash, k.Bytes, nil, true, table.Unknown)
	return err
}

// room evicts until n more entries fit into the limit.
func (s *valueStore) room(n int) error {
	if s.tab.Room(n) {
		return nil
	}
	for !s.tab.Room(n) && s.tab.Len() > 0 {
		if err := s.bg.waitForSpills(); err != nil {
			return err
		}
		if err := s.poll(); err != nil {
			return err
		}
		for s.merging && s.crowded() { // more files would only slow the merge down
			s.bg.waitForResult()
			if err := s.poll(); err != nil {
				return err
			}
		}
		s.sweeps++
		before := s.tab.Len()
		wrapped, err := s.tab.EvictSome(s.evicted)
		s.endVisit(wrapped)
		if err != nil {
			return err
		}
		s.evictions += int64(before - s.tab.Len())
	}
	return nil
}

// crowded says that merging is far behind.
func (s *valueStore) crowded() bool {
	for p := range s.layers {
		if len(s.layers[p].files) > crowdedRuns {
			return true
		}
	}
	return false
}

// evicted takes a dirty entry that leaves the table.
func (s *valueStore) evicted(hash uint64, key, value []byte, tombstone bool) error {
	if s.open == nil {
		s.open = &spill{from: s.part.of(hash)}
	}
	return s.open.add(hash, key, value, tombstone)
}

// endVisit sorts what an eviction visit added and closes the spill if it is time.
func (s *valueStore) endVisit(wrapped bool) {
	sp := s.open
	if sp == nil {
		return
	}
	sp.settle()
	n := sp.recs.Bytes()
	if wrapped || n >= spillBytes || n >= spillMin && s.part.of(s.tab.Hand()) != sp.from {
		s.closeSpill()
	}
}

// closeSpill sends the open spill to the worker.
func (s *valueStore) closeSpill() {
	sp := s.open
	if sp == nil {
		return
	}
	s.open = nil
	sp.lo, sp.hi = sp.refs[0].Hash, sp.refs[len(sp.refs)-1].Hash
	sp.cut = s.cut
	s.spills = append([]*spill{sp}, s.spills...)
	s.bg.submit(job{spill: sp, done: func(f *file) { s.spilled(sp, f) }})
}

// fail keeps an error after which nothing can be trusted.
func (s *valueStore) fail(err error) error {
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("state %q of operator %q: %w", s.cfg.Descriptor.Name, s.cfg.Operator, err)
	}
	return s.err
}

// Stats implements state.Part.
func (s *valueStore) Stats() state.Stats {
	st := state.Stats{
		Entries:    int64(s.tab.Len()),
		MemBytes:   s.tab.Mem() + s.bg.memory(),
		Evictions:  s.evictions,
		ColdReads:  s.coldReads,
		MergeBytes: s.mergeBytes,
	}
	if s.open != nil {
		st.MemBytes += s.open.recs.Bytes()
	}
	for p := range s.layers {
		for _, f := range s.layers[p].files {
			st.ColdBytes += share(f, &s.part, p)
		}
	}
	return st
}

// Committed implements state.Part. The store of snapshots deletes what no snapshot names; here a file is
// let go when a merge has replaced it, whoever names it.
func (s *valueStore) Committed(state.StateSnapshot) {}

// Close implements state.Part.
func (s *valueStore) Close() error {
	s.stop()
	s.bg.close()
	s.apply()
	if s.cut != nil {
		s.cut.fail(errClosed)
		if s.cut.delta != nil { // written, but not taken over
			s.cut.delta.release()
		}
		s.cut = nil
	}
	for i := range s.layers {
		l := &s.layers[i]
		for _, f := range l.files {
			f.release()
		}
		*l = layers{}
	}
	if s.open != nil {
		s.open.recs.Free()
	}
	for _, sp := range s.spills {
		sp.recs.Free()
	}
	s.open, s.spills = nil, nil
	s.tab.Close()
	if s.err == nil {
		s.err = errClosed
	}
	return nil
}
