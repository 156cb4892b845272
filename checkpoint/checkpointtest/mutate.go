// Package checkpointtest damages snapshot stores on purpose and says whether the damage is seen (T7).
package checkpointtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
)

// Mutation is one damage done to a store.
type Mutation struct {
	Desc  string   // what was done, for messages
	Files []string // base names of the damaged files; Check's error has to contain one of them
}

// String is Desc.
func (m Mutation) String() string { return m.Desc }

// NamedBy says whether an error names a damaged file.
func (m Mutation) NamedBy(err error) bool {
	for _, f := range m.Files {
		if err != nil && strings.Contains(err.Error(), f) {
			return true
		}
	}
	return false
}

// Mutate damages the store in dir in one way that rng picks: bits flipped, bytes cut off or added, two
// objects swapped, an object or the newest manifest deleted, an older manifest put in its place. The store
// must be closed and have a complete checkpoint; only files that matter are chosen, never unreferenced
// objects. The damage breaks hard links, so that files outside the store stay as they are.
func Mutate(dir string, rng *rand.Rand) (Mutation, error) {
	objects, manifests, err := files(dir)
	if err != nil {
		return Mutation{}, err
	}
	if len(manifests) == 0 {
		return Mutation{}, fmt.Errorf("%s has no complete checkpoint to damage", dir)
	}
	newest := manifests[len(manifests)-1]
	// Weighted so that a byte of each kind of file is hit often.
	targets := [][]string{objects, manifests, {newest}, {filepath.Join(dir, "HEAD"), filepath.Join(dir, "FORMAT")}}
	if registry := filepath.Join(dir, "REGISTRY"); exists(registry) {
		targets = append(targets, []string{registry})
	}
	group := targets[rng.IntN(len(targets))]
	if len(group) == 0 {
		group = manifests
	}
	target := group[rng.IntN(len(group))]
	switch rng.IntN(8) {
	case 0:
		return truncate(target, rng)
	case 1:
		return extend(target, rng)
	case 2:
		if len(objects) > 0 {
			return remove(objects[rng.IntN(len(objects))])
		}
	case 3:
		return remove(newest)
	case 4:
		if len(manifests) > 1 {
			return replay(manifests[rng.IntN(len(manifests)-1)], newest)
		}
	case 5:
		if len(objects) > 1 {
			return swap(objects, rng)
		}
	}
	return flip(target, rng)
}

// Check reads the whole store as a start does, and each checkpoint down to its last byte: nil says that
// no damage is seen.
func Check(ctx context.Context, dir string) error {
	s, err := snapstore.Open(dir, snapstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Latest(ctx); err != nil {
		return err
	}
	infos, err := s.List()
	if err != nil {
		return err
	}
	for _, info := range infos {
		if info.Err != nil {
			return info.Err
		}
		if err := s.Verify(ctx, info.ID, true); err != nil {
			return err
		}
	}
	return nil
}

// files lists the referenced objects and the manifests, oldest first, as paths.
func files(dir string) (objects, manifests []string, err error) {
	s, err := snapstore.Open(dir, snapstore.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	infos, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, info := range infos {
		manifests = append(manifests, info.Path)
		m, err := s.Load(info.ID)
		if err != nil {
			return nil, nil, err
		}
		for ref := range m.Objects() {
			path, err := s.Path(context.Background(), ref.Digest)
			if err != nil {
				return nil, nil, err
			}
			objects = append(objects, path)
		}
	}
	slices.Sort(objects)
	return slices.Compact(objects), manifests, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// replace puts other contents under a name without touching other links to the file.
func replace(path string, data []byte) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func mutation(path, format string, args ...any) Mutation {
	return Mutation{Desc: path + ": " + fmt.Sprintf(format, args...), Files: []string{filepath.Base(path)}}
}

func flip(path string, rng *rand.Rand) (Mutation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Mutation{}, err
	}
	if len(data) == 0 {
		return extend(path, rng)
	}
	at, bit := rng.IntN(len(data)), rng.IntN(8)
	data[at] ^= 1 << bit
	return mutation(path, "bit %d of byte %d flipped", bit, at), replace(path, data)
}

func truncate(path string, rng *rand.Rand) (Mutation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Mutation{}, err
	}
	if len(data) == 0 {
		return remove(path)
	}
	n := len(data) - 1
	if rng.IntN(2) == 0 {
		n = rng.IntN(len(data))
	}
	return mutation(path, "cut from %d to %d bytes", len(data), n), replace(path, data[:n])
}

func extend(path string, rng *rand.Rand) (Mutation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Mutation{}, err
	}
	more := make([]byte, 1+rng.IntN(16))
	return mutation(path, "%d zero bytes added", len(more)), replace(path, append(data, more...))
}

func remove(path string) (Mutation, error) {
	return mutation(path, "deleted"), os.Remove(path)
}

// replay puts the contents of an older manifest under the newest one's name.
func replay(older, newest string) (Mutation, error) {
	data, err := os.ReadFile(older)
	if err != nil {
		return Mutation{}, err
	}
	return mutation(newest, "replaced by %s", filepath.Base(older)), replace(newest, data)
}

func swap(objects []string, rng *rand.Rand) (Mutation, error) {
	i := rng.IntN(len(objects))
	j := (i + 1 + rng.IntN(len(objects)-1)) % len(objects)
	a, err := os.ReadFile(objects[i])
	if err != nil {
		return Mutation{}, err
	}
	b, err := os.ReadFile(objects[j])
	if err != nil {
		return Mutation{}, err
	}
	if err := replace(objects[i], b); err != nil {
		return Mutation{}, err
	}
	m := Mutation{Desc: fmt.Sprintf("%s and %s swapped", objects[i], objects[j]),
		Files: []string{filepath.Base(objects[i]), filepath.Base(objects[j])}}
	return m, replace(objects[j], a)
}

// Manifest is a small whole checkpoint of one task, for tests of stores.
func Manifest(id checkpoint.ID, job string, operators ...checkpoint.OperatorSnapshot) *checkpoint.Manifest {
	return &checkpoint.Manifest{Format: checkpoint.FormatVersion, ID: id, Job: job, Slots: state.Slots,
		Tasks: []checkpoint.TaskSnapshot{{Vertex: "op", Parallelism: 1, Operators: operators}}}
}
