package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// Swept says what Retain or Sweep removed.
type Swept struct {
	Manifests []checkpoint.ID
	Objects   int
	Bytes     int64
}

// Retain keeps the newest n checkpoints (n >= 1) that nothing else keeps, drops the older ones and sweeps.
// Savepoints, tagged snapshots, that to which code on probation would go back, and what another process holds a lease on stay and do not count. Tasks may be
// adding objects meanwhile. A crash in between leaves objects for the next sweep, never a snapshot without
// its objects. A damaged manifest among the ones to keep stops it: what it needs is not known.
func (s *Store) Retain(ctx context.Context, n int) (Swept, error) {
	if s.readOnly {
		return Swept{}, ErrReadOnly
	}
	if n < 1 {
		return Swept{}, fmt.Errorf("retain %d checkpoints: expected at least 1", n)
	}
	dropped, err := s.expire(ctx, n)
	if err != nil {
		return Swept{}, err
	}
	swept, err := s.sweep(ctx, false)
	swept.Manifests = dropped
	return swept, err
}

// expire drops the manifests of all but the newest n checkpoints.
func (s *Store) expire(ctx context.Context, n int) ([]checkpoint.ID, error) {
	s.names.Lock() // no tag may come between
	defer s.names.Unlock()
	h, err := s.heldLeases(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing is removed from the snapshot store: %w", err)
	}
	var ids []checkpoint.ID
	for _, id := range s.known() {
		if _, leased := h.snapshots[id]; !leased && !s.kept(id) {
			ids = append(ids, id)
		}
	}
	var dropped []checkpoint.ID
	// Counted are only readable ones, so that damage never costs the last good checkpoint.
	good := 0
	for i, id := range slices.Backward(ids) {
		if good == n {
			dropped = ids[:i+1]
			break
		}
		if s.readable(id) == nil {
			good++
		}
	}
	if err := s.removable(dropped); err != nil {
		return nil, err
	}
	return dropped, s.dropManifests(dropped)
}

// removable says why nothing may be removed once the snapshots dropped are gone: it is not known what is in
// use.
func (s *Store) removable(dropped []checkpoint.ID) error {
	if _, err := s.said(); err != nil {
		return fmt.Errorf("nothing is removed from the snapshot store: %w", err)
	}
	for _, id := range s.known() {
		if err := s.readable(id); err != nil && !slices.Contains(dropped, id) {
			return fmt.Errorf("nothing is removed from the snapshot store: %w", err)
		}
	}
	return nil
}

// Sweep removes every object that no snapshot names and no other process holds. No task may be running:
// nothing else is spared.
func (s *Store) Sweep(ctx context.Context) (Swept, error) {
	if s.readOnly {
		return Swept{}, ErrReadOnly
	}
	if err := s.removable(nil); err != nil {
		return Swept{}, err
	}
	return s.sweep(ctx, true)
}

// kept says that a snapshot does not expire. Of one whose manifest is damaged the registry knows it.
func (s *Store) kept(id checkpoint.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.manifests[id]
	for _, later := range s.manifests {
		if later.since == id {
			return true
		}
	}
	return s.registry.Snapshots[id].kept() || m != nil && m.kind == checkpoint.KindSavepoint
}

// known lists the ids of all manifests, oldest first.
func (s *Store) known() []checkpoint.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]checkpoint.ID, 0, len(s.manifests))
	for id := range s.manifests {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// readable returns why the manifest of id could not be read.
func (s *Store) readable(id checkpoint.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.manifests[id]; m != nil {
		return m.err
	}
	return nil
}

// dropManifests removes manifests durably, in the order given, before any of their objects may go.
func (s *Store) dropManifests(ids []checkpoint.ID) error {
	for _, id := range ids {
		err := s.fs.Remove(s.manifestPath(id))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("drop checkpoint %d: %w", id, err)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := s.fs.SyncDir(s.path("manifests")); err != nil {
		return fmt.Errorf("drop checkpoint %d: %w", ids[0], err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if s.manifests[id] == nil {
			continue
		}
		for _, d := range s.manifests[id].digests {
			if s.refs[d]--; s.refs[d] == 0 {
				delete(s.refs, d)
			}
		}
		delete(s.manifests, id)
	}
	return nil
}

// sweep removes the objects without references; unless quiet it spares what tasks may be using. Leases of
// other processes are read after manifests were dropped: see Lease.
func (s *Store) sweep(ctx context.Context, quiet bool) (Swept, error) {
	var swept Swept
	h, err := s.heldLeases(ctx)
	if err != nil {
		return swept, fmt.Errorf("nothing is removed from the snapshot store: %w", err)
	}
	candidates := s.unreferenced(quiet, h)
	s.crash("K24")
	for _, digest := range candidates {
		if err := ctx.Err(); err != nil {
			return swept, err
		}
		size, removed, err := s.sweepObject(digest, quiet)
		if err != nil {
			return swept, err
		}
		if removed {
			swept.Objects++
			swept.Bytes += size
		}
	}
	return swept, s.sweepInputs()
}

func (s *Store) unreferenced(quiet bool, h held) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var digests []string
	for digest := range s.objects {
		if s.sweepable(digest, quiet) && !h.objects[digest] {
			digests = append(digests, digest)
		}
	}
	slices.Sort(digests)
	return digests
}

// sweepable needs mu.
func (s *Store) sweepable(digest string, quiet bool) bool {
	o, ok := s.objects[digest]
	return ok && s.refs[digest] == 0 && (quiet || o.seq < s.leases.spared())
}

// sweepObject removes one object unless it was added again since it was listed.
func (s *Store) sweepObject(digest string, quiet bool) (size int64, removed bool, err error) {
	s.names.Lock()
	defer s.names.Unlock()
	s.mu.Lock()
	ok := s.sweepable(digest, quiet)
	o := s.objects[digest]
	if ok {
		delete(s.objects, digest)
	}
	s.mu.Unlock()
	if !ok {
		return 0, false, nil
	}
	if err := s.removeObject(digest); err != nil {
		s.mu.Lock()
		s.objects[digest] = o
		s.mu.Unlock()
		return 0, false, err
	}
	return o.size, true, nil
}
