package snapstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
)

// registry holds what is said of snapshots outside their immutable manifests. It is one small file that is
// replaced whole. Its savepoints are entered before their manifests are written, so that one whose manifest
// is damaged is not taken for a checkpoint that may expire, and one whose manifest is lost is missed.
type registry struct {
	Snapshots map[checkpoint.ID]entry `json:"snapshots"`
}

type entry struct {
	Savepoint bool `json:"savepoint,omitempty"`
	Complete  bool `json:"complete,omitempty"` // of a savepoint: its manifest was seen
	// Withdrawn: it is beside the line that a restart goes on with.
	Withdrawn bool     `json:"withdrawn,omitempty"`
	Tags      []string `json:"tags,omitempty"` // sorted
	Note      string   `json:"note,omitempty"`
}

func (e entry) empty() bool { return !e.Savepoint && !e.Withdrawn && len(e.Tags) == 0 && e.Note == "" }

// kept says that the snapshot does not expire.
func (e entry) kept() bool { return e.Savepoint || len(e.Tags) > 0 }

const (
	registryText   = "millrace registry 1 sha256=%x\n"
	registryPrefix = "millrace registry "
)

func (r registry) encode() ([]byte, error) {
	body, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, err
	}
	return append(fmt.Appendf(nil, registryText, sha256.Sum256(body)), body...), nil
}

func decodeRegistry(data []byte) (registry, error) {
	r := registry{Snapshots: map[checkpoint.ID]entry{}}
	head, body, _ := bytes.Cut(data, []byte{'\n'})
	if want := fmt.Sprintf(registryText, sha256.Sum256(body)); string(head)+"\n" != want {
		var version int
		if _, err := fmt.Sscanf(string(head), registryPrefix+"%d sha256=", &version); err == nil && version > 1 {
			return r, fmt.Errorf("%w: registry format %d, this build reads up to 1", ErrNewerFormat, version)
		}
		return r, errors.New("it does not fit its own checksum: tags and notes are lost, and nothing is removed beside it; " +
			"remove it to accept that")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return r, dec.Decode(&r)
}

// readRegistry reads the file; none is an empty registry.
func (s *Store) readRegistry() (registry, error) {
	path := s.path("REGISTRY")
	data, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return registry{Snapshots: map[checkpoint.ID]entry{}}, nil
	}
	if err != nil {
		return registry{}, &DamageError{Path: path, Problem: err}
	}
	r, err := decodeRegistry(data)
	if err != nil && !errors.Is(err, ErrNewerFormat) {
		err = &DamageError{Path: path, Problem: err}
	}
	return r, err
}

// said is the registry as it is now. Not to be changed.
func (s *Store) said() (registry, error) {
	if s.readOnly {
		return s.readRegistry()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registry, s.registryErr
}

// loadRegistry reads the registry when the manifests are known, and puts right what a crash left: entries of
// savepoints that never became complete, and savepoints whose entry was taken away but not their manifest.
func (s *Store) loadRegistry() {
	r, err := s.readRegistry()
	if err == nil {
		for id, e := range r.Snapshots {
			if m := s.manifests[id]; m != nil {
				e.Complete = e.Complete || e.Savepoint
				r.Snapshots[id] = e
			} else if !e.Complete {
				delete(r.Snapshots, id)
			}
		}
		for id, m := range s.manifests {
			if m.kind == checkpoint.KindSavepoint {
				e := r.Snapshots[id]
				e.Savepoint, e.Complete = true, true
				r.Snapshots[id] = e
			}
		}
	}
	s.registry, s.registryErr = r, err
}

// changeRegistry lets change work on a copy and makes that durable.
func (s *Store) changeRegistry(change func(registry) error) error {
	if s.readOnly {
		return ErrReadOnly
	}
	s.registryFile.Lock()
	defer s.registryFile.Unlock()
	old, err := s.said()
	if err != nil {
		return err
	}
	next := registry{Snapshots: maps.Clone(old.Snapshots)}
	if err := change(next); err != nil {
		return err
	}
	maps.DeleteFunc(next.Snapshots, func(_ checkpoint.ID, e entry) bool { return e.empty() })
	data, err := next.encode()
	if err != nil {
		return err
	}
	if _, err := s.publishAt("registry", s.path("REGISTRY"), data, "K23"); err != nil {
		return err
	}
	s.mu.Lock()
	s.registry = next
	s.mu.Unlock()
	return nil
}

// lost lists the savepoints whose manifests should be there and are not.
func (s *Store) lost() ([]checkpoint.ID, error) {
	r, err := s.said()
	if err != nil {
		return nil, err
	}
	var ids []checkpoint.ID
	for id, e := range r.Snapshots {
		if !e.Savepoint || !e.Complete {
			continue
		}
		if _, err := s.fs.Stat(s.manifestPath(id)); errors.Is(err, fs.ErrNotExist) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
