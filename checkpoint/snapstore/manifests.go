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

// Info describes a snapshot for people.
type Info struct {
	ID          checkpoint.ID
	Kind        checkpoint.Kind
	Parent      checkpoint.ID // the snapshot before it; it may have expired
	Origin      *checkpoint.Origin
	SHA256      string // of its manifest file
	Tags        []string
	Note        string
	Kept        bool // it does not expire: a savepoint, or tagged
	Newest      bool // a restart goes on from it
	Withdrawn   bool // it is beside the line that a restart goes on with
	Path        string
	Job         string
	CreatedMS   int64
	Finished    bool
	Tasks       int
	Objects     int
	Bytes       int64 // of its objects, each once
	StoredBytes int64 // that it added
	// Err is why its manifest cannot be read; then ID, Path, Kept, Tags and Note are all that is known.
	Err error
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
	chained := *m
	chained.ParentSHA = s.digestOf(m.Parent)
	data, err := checkpoint.EncodeSigned(&chained, s.signer)
	if err != nil {
		return fmt.Errorf("write checkpoint %d: %w", m.ID, err)
	}
	if err := s.enterSavepoint(m, false); err != nil {
		return fmt.Errorf("write savepoint %d: its entry in the registry: %w", m.ID, err)
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
	s.noteManifest(m, data)
	s.leases.end(m.ID, true)
	s.head.latest = m.ID
	s.mu.Unlock()
	// The checkpoint is complete by its manifest; a head that lags is caught up by the next write, and the
	// registry by the next start.
	_ = s.writeHead()
	_ = s.enterSavepoint(m, true)
	return nil
}

// digestOf is the SHA-256 of a manifest's file; empty if it is not there.
func (s *Store) digestOf(id checkpoint.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.manifests[id]; m != nil {
		return m.sha
	}
	return ""
}

// enterSavepoint enters a savepoint into the registry: before its manifest is written, and when it is there.
func (s *Store) enterSavepoint(m *checkpoint.Manifest, complete bool) error {
	if m.Kind != checkpoint.KindSavepoint {
		return nil
	}
	return s.changeRegistry(func(r registry) error {
		e := r.Snapshots[m.ID]
		e.Savepoint, e.Complete = true, complete
		r.Snapshots[m.ID] = e
		return nil
	})
}

// checkWritable refuses what must never be published: a manifest that names a missing object, or an id
// that does not come after all others.
func (s *Store) checkWritable(m *checkpoint.Manifest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.manifests {
		if id >= m.ID && !s.registry.Snapshots[id].Withdrawn || id == m.ID {
			return fmt.Errorf("there is a checkpoint %d already: ids rise", id)
		}
	}
	return s.present(m)
}

// present says which object of m is missing; mu is held.
func (s *Store) present(m *checkpoint.Manifest) error {
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
func (s *Store) noteManifest(m *checkpoint.Manifest, file []byte) {
	known := &manifest{kind: m.Kind, created: m.CreatedMS, sha: sha256Hex(file)}
	if p := m.OnProbation(); p != nil {
		known.since = p.Since
	}
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
		m, data, err := s.load1(id)
		if err != nil {
			s.manifests[id] = &manifest{err: err}
			s.head.reserved = max(s.head.reserved, id)
			continue
		}
		s.noteManifest(m, data)
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
	m, _, err := s.load1(id)
	return m, err
}

// Manifest returns the file of a manifest as it is, checked as by Load.
func (s *Store) Manifest(id checkpoint.ID) ([]byte, error) {
	_, data, err := s.load1(id)
	return data, err
}

// load1 returns a manifest with its file.
func (s *Store) load1(id checkpoint.ID) (*checkpoint.Manifest, []byte, error) {
	path := s.manifestPath(id)
	data, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("checkpoint %d in %s: %w", id, s.dir, ErrNoCheckpoint)
	}
	if err != nil {
		return nil, nil, &DamageError{Checkpoint: id, Path: path, Problem: err}
	}
	m, err := checkpoint.Decode(data)
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return nil, nil, &DamageError{Checkpoint: id, Path: path, Problem: err}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if m.ID != id {
		return nil, nil, &DamageError{Checkpoint: id, Path: path,
			Problem: fmt.Errorf("it holds the manifest of checkpoint %d", m.ID)}
	}
	if s.verifier != nil {
		if err := checkpoint.VerifySignature(data, s.verifier); err != nil {
			return nil, nil, &DamageError{Checkpoint: id, Path: path, Problem: err}
		}
	}
	return m, data, nil
}

// List describes the complete snapshots, oldest first. A savepoint whose manifest is lost is in it, with Err.
func (s *Store) List() ([]Info, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, err
	}
	said, err := s.said()
	if err != nil {
		return nil, err
	}
	lost, err := s.lost()
	if err != nil {
		return nil, err
	}
	h, err := s.readHead()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	newest, err := s.newest()
	if err != nil && !errors.Is(err, ErrNoCheckpoint) {
		return nil, err
	}
	ids = append(ids, lost...)
	slices.Sort(ids)
	infos := make([]Info, 0, len(ids))
	for _, id := range ids {
		m, data, err := s.load1(id)
		if errors.Is(err, ErrNoCheckpoint) {
			if !slices.Contains(lost, id) {
				continue // its retention came between
			}
			err = &DamageError{Checkpoint: id, Path: s.manifestPath(id), Problem: fs.ErrNotExist}
		}
		e := said.Snapshots[id]
		info := Info{ID: id, Path: s.manifestPath(id), Tags: e.Tags, Note: e.Note, Kept: e.kept(), Err: err}
		info.Newest, info.Withdrawn = id == newest, h.withdrawn(id) || e.Withdrawn
		if e.Savepoint {
			info.Kind = checkpoint.KindSavepoint
		}
		if err == nil {
			info.describe(m)
			info.SHA256 = sha256Hex(data)
		}
		infos = append(infos, info)
	}
	return infos, nil
}

func (i *Info) describe(m *checkpoint.Manifest) {
	i.Job, i.CreatedMS, i.Finished = m.Job, m.CreatedMS, m.Finished
	i.Kind, i.Parent, i.Origin = m.Kind, m.Parent, m.Origin
	i.Kept = i.Kept || m.Kind == checkpoint.KindSavepoint
	i.Tasks, i.StoredBytes = len(m.Tasks), m.StoredBytes
	seen := make(map[string]bool)
	for ref := range m.Objects() {
		if !seen[ref.Digest] {
			seen[ref.Digest] = true
			i.Objects++
			i.Bytes += max(ref.Size, 0)
		}
	}
}

// Latest returns the snapshot to start from, the newest of any kind that was not withdrawn, with all its
// objects there and of the right size. Errors: ErrNoCheckpoint if none was ever complete;
// *DamagedCheckpointError if the newest complete one is damaged or gone, with the one to offer instead;
// others as Load.
func (s *Store) Latest(ctx context.Context) (*checkpoint.Manifest, error) {
	ids, h, err := s.line()
	if err != nil {
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

// line lists the snapshots that were not withdrawn, oldest first.
func (s *Store) line() ([]checkpoint.ID, head, error) {
	ids, err := s.ids()
	if err != nil {
		return nil, head{}, err
	}
	h, err := s.readHead()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, head{}, err
	}
	said, err := s.said()
	if err != nil {
		return nil, head{}, err
	}
	beside := func(id checkpoint.ID) bool { return h.withdrawn(id) || said.Snapshots[id].Withdrawn }
	return slices.DeleteFunc(ids, beside), h, nil
}

// withdrawn says that a restart does not go on from id.
func (h head) withdrawn(id checkpoint.ID) bool { return id > h.latest && id <= h.void }

// newest is the id of the snapshot that a restart goes on from, damaged or not.
func (s *Store) newest() (checkpoint.ID, error) {
	ids, h, err := s.line()
	if err != nil {
		return 0, err
	}
	if len(ids) > 0 {
		h.latest = max(h.latest, ids[len(ids)-1])
	}
	if h.latest == 0 {
		return 0, fmt.Errorf("%s: %w", s.dir, ErrNoCheckpoint)
	}
	return h.latest, nil
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
