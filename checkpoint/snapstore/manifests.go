package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// Info describes a checkpoint for people.
type Info struct {
	ID          checkpoint.ID
	Path        string
	Job         string
	CreatedMS   int64
	Finished    bool
	Tasks       int
	Objects     int
	Bytes       int64 // of its objects, each once
	StoredBytes int64 // that it added
	Err         error // why its manifest cannot be read; then only ID and Path are set
}

// Begin says that checkpoint id starts: what is added from now on is spared by sweeps until it is
// complete or given up. It comes before the barriers.
func (s *Store) Begin(id checkpoint.ID) {
	s.mu.Lock()
	s.leases.begin(id)
	s.mu.Unlock()
}

// Abandon says that checkpoint id was aborted.
func (s *Store) Abandon(id checkpoint.ID) {
	s.mu.Lock()
	s.leases.end(id, false)
	s.mu.Unlock()
}

// WriteManifest makes a checkpoint complete: after it returns nil the checkpoint survives any crash. All
// objects have to be in the store. Errors: *UncertainError fails the job; after any other error the
// checkpoint does not exist and its id must not be used again.
func (s *Store) WriteManifest(ctx context.Context, m *checkpoint.Manifest) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := checkpoint.Encode(m)
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", m.ID, err)
	}
	// No sweep may come between the check and the references.
	s.names.Lock()
	defer s.names.Unlock()
	if err := s.checkWritable(m); err != nil {
		return fmt.Errorf("write checkpoint %d: %w", m.ID, err)
	}
	s.crash("K11")
	path := s.manifestPath(m.ID)
	renamed, err := s.publish(fmt.Sprintf("manifest-%d", m.ID), path, data)
	if err != nil && renamed {
		// Taking it away again makes the outcome certain.
		if rerr := errors.Join(s.fs.Remove(path), s.fs.SyncDir(s.path("manifests"))); rerr != nil {
			return &UncertainError{ID: m.ID, Err: errors.Join(err, rerr)}
		}
	}
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", m.ID, err)
	}
	s.crash("K12")
	s.mu.Lock()
	s.noteManifest(m)
	s.leases.end(m.ID, true)
	s.head.latest = m.ID
	s.mu.Unlock()
	// The checkpoint is complete by its manifest; a head that lags is caught up by the next write.
	_ = s.writeHead()
	return nil
}

// checkWritable refuses what must never be published: a manifest that names a missing object, or an id
// that does not come after all others.
func (s *Store) checkWritable(m *checkpoint.Manifest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.manifests {
		if id >= m.ID {
			return fmt.Errorf("there is a checkpoint %d already: ids rise", id)
		}
	}
	for ref := range m.Objects() {
		o, ok := s.objects[ref.Digest]
		if !ok || o.pending {
			return fmt.Errorf("%s: object %s is not in the store", ref.Where, ref.Digest)
		}
		if ref.Size != checkpoint.SizeUnknown && ref.Size != o.size {
			return fmt.Errorf("%s: object %s has %d bytes, not %d", ref.Where, ref.Digest, o.size, ref.Size)
		}
	}
	return nil
}

// noteManifest counts the references of m; mu is held or not yet needed.
func (s *Store) noteManifest(m *checkpoint.Manifest) {
	known := new(manifest)
	for ref := range m.Objects() {
		known.digests = append(known.digests, ref.Digest)
		s.refs[ref.Digest]++
	}
	s.manifests[m.ID] = known
	s.head.reserved = max(s.head.reserved, m.ID)
}

// loadManifests reads all manifests at the start.
func (s *Store) loadManifests() error {
	ids, err := s.ids()
	if err != nil {
		return fmt.Errorf("snapshot store: %w", err)
	}
	if s.head == (head{}) && len(ids) > 0 {
		s.head.reserved = ids[len(ids)-1] + lostHeadSkip
	}
	for _, id := range ids {
		m, err := s.Load(id)
		if err != nil {
			s.manifests[id] = &manifest{err: err}
			s.head.reserved = max(s.head.reserved, id)
			continue
		}
		s.noteManifest(m)
	}
	return nil
}

// ids lists the manifest files, oldest first.
func (s *Store) ids() ([]checkpoint.ID, error) {
	list, err := s.fs.ReadDir(s.path("manifests"))
	if err != nil {
		return nil, err
	}
	var ids []checkpoint.ID
	for _, e := range list {
		number, ok := strings.CutSuffix(e.Name, ".json")
		id, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil || manifestName(checkpoint.ID(id)) != e.Name {
			return nil, &DamageError{Path: s.path("manifests", e.Name),
				Problem: errors.New("this is no manifest's name")}
		}
		ids = append(ids, checkpoint.ID(id))
	}
	slices.Sort(ids)
	return ids, nil
}

// Load returns the manifest of a complete checkpoint. Errors: ErrNoCheckpoint; *DamageError; and
// checkpoint.ErrNewerFormat or ErrInvalid for one that is intact but not for this build.
func (s *Store) Load(id checkpoint.ID) (*checkpoint.Manifest, error) {
	path := s.manifestPath(id)
	data, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("checkpoint %d in %s: %w", id, s.dir, ErrNoCheckpoint)
	}
	if err != nil {
		return nil, &DamageError{Checkpoint: id, Path: path, Problem: err}
	}
	m, err := checkpoint.Decode(data)
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return nil, &DamageError{Checkpoint: id, Path: path, Problem: err}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.ID != id {
		return nil, &DamageError{Checkpoint: id, Path: path,
			Problem: fmt.Errorf("it holds the manifest of checkpoint %d", m.ID)}
	}
	return m, nil
}

// List describes the complete checkpoints, oldest first.
func (s *Store) List() ([]Info, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(ids))
	for _, id := range ids {
		info := Info{ID: id, Path: s.manifestPath(id)}
		m, err := s.Load(id)
		if errors.Is(err, ErrNoCheckpoint) {
			continue // its retention came between
		}
		if err != nil {
			info.Err = err
			infos = append(infos, info)
			continue
		}
		info.Job, info.CreatedMS, info.Finished = m.Job, m.CreatedMS, m.Finished
		info.Tasks, info.StoredBytes = len(m.Tasks), m.StoredBytes
		seen := make(map[string]bool)
		for ref := range m.Objects() {
			if !seen[ref.Digest] {
				seen[ref.Digest] = true
				info.Objects++
				info.Bytes += max(ref.Size, 0)
			}
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Latest returns the checkpoint to start from, with all its objects there and of the right size.
// Errors: ErrNoCheckpoint if none was ever complete; *DamagedCheckpointError if the newest complete one
// is damaged or gone, with the one to offer instead; others as Load.
func (s *Store) Latest(ctx context.Context) (*checkpoint.Manifest, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	h, err := s.readHead()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var newest checkpoint.ID
	if len(ids) > 0 {
		newest = ids[len(ids)-1]
	}
	if newest < h.latest {
		damage := &DamageError{Checkpoint: h.latest, Path: s.manifestPath(h.latest), Problem: fs.ErrNotExist}
		return nil, s.offer(ctx, h.latest, ids, damage)
	}
	if newest == 0 {
		return nil, fmt.Errorf("%s: %w", s.dir, ErrNoCheckpoint)
	}
	m, err := s.Load(newest)
	if err == nil {
		err = s.verify(ctx, m, m.TotalBytes() <= deepBytes)
	}
	if errors.Is(err, ErrDamaged) {
		return nil, s.offer(ctx, newest, ids[:len(ids)-1], err)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// deepBytes is how large a checkpoint may be for every byte of it to be checked before a start, in some
// tenths of a second. The blocks of larger ones are checked as they are read.
const deepBytes = 256 << 20

// Offer is the error for a checkpoint that turned out damaged while it was in use: it names the newest one
// before it that is good, every byte checked.
func (s *Store) Offer(ctx context.Context, id checkpoint.ID, damage error) error {
	ids, err := s.ids()
	if err != nil {
		return errors.Join(damage, err)
	}
	for _, previous := range slices.Backward(ids) {
		if previous < id && s.Verify(ctx, previous, true) == nil {
			return &DamagedCheckpointError{ID: id, Previous: previous, Damage: damage}
		}
	}
	return &DamagedCheckpointError{ID: id, Damage: damage}
}

// offer looks for the newest good checkpoint among ids.
func (s *Store) offer(ctx context.Context, id checkpoint.ID, ids []checkpoint.ID, damage error) error {
	for _, previous := range slices.Backward(ids) {
		if s.Verify(ctx, previous, false) == nil {
			return &DamagedCheckpointError{ID: id, Previous: previous, Damage: damage}
		}
	}
	return &DamagedCheckpointError{ID: id, Damage: damage}
}

func manifestName(id checkpoint.ID) string { return fmt.Sprintf("%08d.json", id) }

func (s *Store) manifestPath(id checkpoint.ID) string { return s.path("manifests", manifestName(id)) }
