package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/millrace-io/millrace/checkpoint"
)

// maxDamages is how many damages Verify lists.
const maxDamages = 16

// Verify checks a complete snapshot: its manifest, with its signature if the store has a verifier, and that each
// object is there with the right size and, if deep, the right SHA-256, and that the snapshot before it, while
// that is there, is the one that it was made after. It joins a *DamageError for each of the first 16 files that
// are wrong.
func (s *Store) Verify(ctx context.Context, id checkpoint.ID, deep bool) error {
	m, err := s.Load(id)
	if err != nil {
		return err
	}
	if err := s.verify(ctx, m, deep); err != nil || !deep {
		return err
	}
	return s.verifyParent(m)
}

// verifyParent compares the manifest of m's parent with what m says of it.
func (s *Store) verifyParent(m *checkpoint.Manifest) error {
	if m.ParentSHA == "" {
		return nil
	}
	path := s.manifestPath(m.Parent)
	file, err := s.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it expired
	}
	if err == nil {
		if got := sha256Hex(file); got != m.ParentSHA {
			err = fmt.Errorf("its SHA-256 is %s, snapshot %d was made after one with %s", got, m.ID, m.ParentSHA)
		}
	}
	if err != nil {
		return &DamageError{Checkpoint: m.Parent, Path: path, Problem: err}
	}
	return nil
}

func (s *Store) verify(ctx context.Context, m *checkpoint.Manifest, deep bool) error {
	var damages []error
	more := 0
	seen := make(map[string]bool)
	for ref := range m.Objects() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if seen[ref.Digest] {
			continue
		}
		seen[ref.Digest] = true
		problem := s.verifyObject(ctx, ref, deep)
		switch {
		case problem == nil:
		case errors.Is(problem, context.Canceled), errors.Is(problem, context.DeadlineExceeded):
			return problem
		case len(damages) == maxDamages:
			more++
		default:
			damages = append(damages, &DamageError{Checkpoint: m.ID, Path: s.objectPath(ref.Digest),
				Object: ref.Digest, Where: ref.Where, Problem: problem})
		}
	}
	if more > 0 {
		damages = append(damages, fmt.Errorf("and %d more files", more))
	}
	return errors.Join(damages...)
}

// verifyObject returns what is wrong with an object. One of unknown size is small and always read.
func (s *Store) verifyObject(ctx context.Context, ref checkpoint.ObjectRef, deep bool) error {
	path := s.objectPath(ref.Digest)
	e, err := s.fs.Stat(path)
	if err != nil {
		return err
	}
	if ref.Size != checkpoint.SizeUnknown && e.Size != ref.Size {
		return fmt.Errorf("it has %d bytes, expected %d", e.Size, ref.Size)
	}
	if !deep && ref.Size != checkpoint.SizeUnknown {
		return nil
	}
	got, size, err := s.hashFile(ctx, path, false)
	if err != nil {
		return err
	}
	if got != ref.Digest {
		if at := damagedAt(path); at != nil {
			return fmt.Errorf("%w: %w", digestMismatch(got, int(size)), at)
		}
		return digestMismatch(got, int(size))
	}
	return nil
}
