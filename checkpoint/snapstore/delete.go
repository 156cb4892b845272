package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// Errors of deleting snapshots.
var (
	// ErrNewest: a restart goes on from the snapshot. Withdraw another one first, or wait for the next.
	ErrNewest = errors.New("a restart goes on from this snapshot")
	// ErrTagged: the snapshot has tags, which say that it is to stay.
	ErrTagged = errors.New("the snapshot is tagged")
	// ErrLeased: another process is reading the snapshot.
	ErrLeased = errors.New("the snapshot is in use")
)

// DeleteSnapshot removes a snapshot of any kind, and the objects that no other one needs. Also one whose
// manifest is damaged or lost. Errors: ErrNoCheckpoint, ErrNewest, ErrTagged, ErrLeased.
func (s *Store) DeleteSnapshot(ctx context.Context, id checkpoint.ID) (Swept, error) {
	if s.readOnly {
		return Swept{}, ErrReadOnly
	}
	if err := s.deleteOne(ctx, id); err != nil {
		return Swept{}, err
	}
	swept, err := s.sweep(ctx, false)
	swept.Manifests = []checkpoint.ID{id}
	return swept, err
}

func (s *Store) deleteOne(ctx context.Context, id checkpoint.ID) error {
	s.names.Lock()
	defer s.names.Unlock()
	if err := s.deletable(ctx, id); err != nil {
		return fmt.Errorf("delete snapshot %d: %w", id, err)
	}
	if err := s.removable([]checkpoint.ID{id}); err != nil {
		return err
	}
	// The entry first: a savepoint without its manifest would count as lost.
	if err := s.forgetEntry(id); err != nil {
		return fmt.Errorf("delete snapshot %d: %w", id, err)
	}
	return s.dropManifests([]checkpoint.ID{id})
}

func (s *Store) forgetEntry(id checkpoint.ID) error {
	said, err := s.said()
	if err != nil {
		return err
	}
	if _, ok := said.Snapshots[id]; !ok {
		return nil
	}
	return s.changeRegistry(func(r registry) error {
		delete(r.Snapshots, id)
		return nil
	})
}

// deletable says why a snapshot may not be removed.
func (s *Store) deletable(ctx context.Context, id checkpoint.ID) error {
	said, err := s.said()
	if err != nil {
		return err
	}
	_, err = s.fs.Stat(s.manifestPath(id))
	if errors.Is(err, fs.ErrNotExist) && !said.Snapshots[id].Complete {
		return ErrNoCheckpoint
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	newest, err := s.newest()
	if err != nil {
		return err
	}
	if id == newest {
		return ErrNewest
	}
	if tags := said.Snapshots[id].Tags; len(tags) > 0 {
		return fmt.Errorf("%w: %s", ErrTagged, strings.Join(tags, ", "))
	}
	h, err := s.heldLeases(ctx)
	if err != nil {
		return err
	}
	if who, ok := h.snapshots[id]; ok {
		return fmt.Errorf("%w: %s", ErrLeased, who)
	}
	return nil
}

// Policy says what Prune keeps. What a restart goes on from, tagged snapshots and what another process reads
// stay in any case.
type Policy struct {
	Checkpoints int   // newest checkpoints to keep; negative: all
	Savepoints  int   // newest savepoints to keep; negative: all
	BeforeMS    int64 // only what was made before this time, since 1970; 0: of any time
}

// Pruned is what Prune removes.
type Pruned struct {
	Snapshots []Info // oldest first
	Objects   int
	Bytes     int64
}

// Prune removes snapshots by a policy, and what only they need. dry: only says what it would remove.
func (s *Store) Prune(ctx context.Context, p Policy, dry bool) (Pruned, error) {
	if s.readOnly && !dry {
		return Pruned{}, ErrReadOnly
	}
	infos, err := s.List()
	if err != nil {
		return Pruned{}, err
	}
	h, err := s.heldLeases(ctx)
	if err != nil {
		return Pruned{}, err
	}
	var out Pruned
	left := map[checkpoint.Kind]int{checkpoint.KindCheckpoint: p.Checkpoints, checkpoint.KindSavepoint: p.Savepoints}
	for _, i := range slices.Backward(infos) {
		if i.Err != nil {
			return Pruned{}, fmt.Errorf("nothing is removed from the snapshot store: %w", i.Err)
		}
		if keep := left[i.Kind]; keep < 0 || keep > 0 {
			left[i.Kind]--
			continue
		}
		_, leased := h.snapshots[i.ID]
		if i.Newest || leased || len(i.Tags) > 0 || p.BeforeMS != 0 && i.CreatedMS >= p.BeforeMS {
			continue
		}
		out.Snapshots = append(out.Snapshots, i)
	}
	slices.Reverse(out.Snapshots)
	if dry {
		return out, s.estimate(&out, infos, h)
	}
	for _, i := range out.Snapshots {
		if err := s.deleteOne(ctx, i.ID); err != nil {
			return Pruned{}, err
		}
	}
	swept, err := s.sweep(ctx, false)
	out.Objects, out.Bytes = swept.Objects, swept.Bytes
	return out, err
}

// estimate counts what only the snapshots to be removed need.
func (s *Store) estimate(p *Pruned, infos []Info, h held) error {
	gone := map[checkpoint.ID]bool{}
	for _, i := range p.Snapshots {
		gone[i.ID] = true
	}
	needed := map[string]bool{}
	sizes := map[string]int64{}
	for _, i := range infos {
		m, err := s.Load(i.ID)
		if err != nil {
			return err
		}
		for ref := range m.Objects() {
			if gone[i.ID] {
				sizes[ref.Digest] = max(ref.Size, sizes[ref.Digest])
			} else {
				needed[ref.Digest] = true
			}
		}
	}
	for digest, size := range sizes {
		if needed[digest] || h.objects[digest] {
			continue
		}
		if size == checkpoint.SizeUnknown || size == 0 {
			if e, err := s.fs.Stat(s.objectPath(digest)); err == nil {
				size = e.Size
			}
		}
		p.Objects++
		p.Bytes += size
	}
	return nil
}
