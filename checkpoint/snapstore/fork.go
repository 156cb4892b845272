package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// ErrNotEmpty: a fork needs a store without snapshots.
var ErrNotEmpty = errors.New("the store has snapshots already")

// ErrOnProbation: what the snapshot's code put out is not published yet, and may never be.
var ErrOnProbation = errors.New("its code is on probation")

// Fork makes snapshot id of from the start of a job of its own in s, which must have no snapshots. Objects
// are hard links where both stores are on one device, so that it takes no time and no space, and survive
// whatever happens to from; a lease keeps them until then. from may be open for reading only, beside its
// running job. The fork's first snapshot has the same id, names its origin, and has no files to publish: what
// came before it is the output of from's job. job names the new job; empty: the same name. A crash leaves no
// fork, and Fork can be called again. Errors: ErrNotEmpty; ErrOnProbation; those of Load.
func (s *Store) Fork(ctx context.Context, from *Store, id checkpoint.ID, job string) (*checkpoint.Manifest, error) {
	return s.ForkWith(ctx, from, id, func(m *checkpoint.Manifest) {
		if job != "" {
			m.Job = job
		}
	})
}

// ForkWith is Fork with a change of the new snapshot: its job, and what its operators have. Tasks and the
// lists of their operators may be changed in place.
func (s *Store) ForkWith(ctx context.Context, from *Store, id checkpoint.ID, change func(*checkpoint.Manifest)) (*checkpoint.Manifest, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	if len(s.known()) > 0 {
		return nil, fmt.Errorf("fork into %s: %w", s.dir, ErrNotEmpty)
	}
	lease, err := from.Lease("fork", id)
	if err != nil {
		return nil, err
	}
	defer lease.Release()
	defer s.Hold()()
	file := lease.File(id)
	parent, err := checkpoint.Decode(file)
	if err != nil {
		return nil, err
	}
	if p := parent.Probation; p != nil {
		return nil, fmt.Errorf("fork snapshot %d of %s: %w since checkpoint %d; fork that one, or one behind the probation's end", id, from.dir, ErrOnProbation, p.Since)
	}
	if err := s.adopt(ctx, from, parent); err != nil {
		return nil, fmt.Errorf("fork snapshot %d of %s: %w", id, from.dir, err)
	}
	m := parent.Derive(file)
	if m.Next != nil { // the fork publishes elsewhere, and has nothing to go back to
		m.Next.Probation = nil
	}
	for i := range m.Tasks {
		m.Tasks[i].Operators = slices.Clone(m.Tasks[i].Operators)
		for j := range m.Tasks[i].Operators {
			m.Tasks[i].Operators[j].Staged = nil
		}
	}
	change(m)
	if err := s.WriteManifest(ctx, m); err != nil {
		return nil, err
	}
	return m, nil
}

// adopt gives the objects of a snapshot of another store their names here.
func (s *Store) adopt(ctx context.Context, from *Store, m *checkpoint.Manifest) error {
	s.names.Lock()
	defer s.names.Unlock()
	shards := map[string]bool{}
	sizes := map[string]int64{}
	for ref := range m.Objects() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, done := sizes[ref.Digest]; done {
			continue
		}
		source, err := from.Path(ctx, ref.Digest)
		if err != nil {
			return err
		}
		e, err := from.fs.Stat(source)
		if err == nil && ref.Size != checkpoint.SizeUnknown && e.Size != ref.Size {
			err = fmt.Errorf("it has %d bytes, expected %d", e.Size, ref.Size)
		}
		if err != nil {
			return &DamageError{Checkpoint: m.ID, Path: source, Object: ref.Digest, Where: ref.Where, Problem: err}
		}
		shard := filepath.Dir(s.objectPath(ref.Digest))
		if err := s.makeDir(shard); err != nil {
			return err
		}
		if err := s.adoptOne(ctx, source, ref.Digest); err != nil {
			return fmt.Errorf("object %s: %w", ref.Digest, err)
		}
		shards[shard], sizes[ref.Digest] = true, e.Size
	}
	// Contents are durable since they were added to from: only the names are new.
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := s.fs.SyncDir(shard); err != nil {
			return err
		}
	}
	for digest, size := range sizes {
		s.noteObject(digest, size, false)
	}
	return nil
}

func (s *Store) adoptOne(ctx context.Context, source, digest string) error {
	path := s.objectPath(digest)
	err := s.fs.Link(source, path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if errors.Is(err, fs.ErrExist) { // of an attempt before
		if err := s.fs.Remove(path); err != nil {
			return err
		}
		if err = s.fs.Link(source, path); err == nil {
			return nil
		}
	}
	tmp := s.tmpName("object")
	if err := s.copyFile(ctx, source, tmp, digest); err != nil {
		_ = s.fs.Remove(tmp)
		return err
	}
	return s.fs.Rename(tmp, path)
}
