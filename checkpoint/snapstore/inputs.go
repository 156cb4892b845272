package snapstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/millrace-io/millrace/checkpoint"
)

// ErrNoInput: a snapshot came without the input that followed it.
var ErrNoInput = errors.New("the snapshot has no recorded input")

// StagedInput is an input that was stored and belongs to no snapshot yet.
type StagedInput struct{ tmp string }

// StageInput stores what fill writes, durably and without a name.
func (s *Store) StageInput(ctx context.Context, fill func(io.Writer) error) (*StagedInput, error) {
	if s.readOnly {
		return nil, ErrReadOnly
	}
	in := &StagedInput{s.tmpName("input")}
	f, err := s.fs.Create(in.tmp)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(fill(f), ctx.Err()); err != nil {
		return nil, errors.Join(err, f.Close(), s.DropInput(in))
	}
	if err := s.finish(f); err != nil {
		return nil, errors.Join(err, s.DropInput(in))
	}
	return in, nil
}

// KeepInput makes a staged input that of snapshot id, which has to be there. It goes with it.
func (s *Store) KeepInput(in *StagedInput, id checkpoint.ID) error {
	if err := s.makeDir(s.path("inputs")); err != nil {
		return fmt.Errorf("input of snapshot %d: %w", id, err)
	}
	if err := s.fs.Rename(in.tmp, s.InputPath(id)); err != nil {
		return fmt.Errorf("input of snapshot %d: %w", id, err)
	}
	return s.fs.SyncDir(s.path("inputs"))
}

// DropInput forgets a staged input.
func (s *Store) DropInput(in *StagedInput) error {
	if err := s.fs.Remove(in.tmp); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// InputPath is where the input that followed snapshot id is, if there is one: see HasInput.
func (s *Store) InputPath(id checkpoint.ID) string {
	return s.path("inputs", fmt.Sprintf("%08d.input", id))
}

// HasInput says whether the input that followed a snapshot came with it.
func (s *Store) HasInput(id checkpoint.ID) bool {
	_, err := s.fs.Stat(s.InputPath(id))
	return err == nil
}

// OpenInput reads the input that followed a snapshot, as it was recorded. Errors: ErrNoInput.
func (s *Store) OpenInput(id checkpoint.ID) (io.ReadCloser, error) {
	f, err := s.fs.Open(s.InputPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %d", ErrNoInput, id)
	}
	return f, err
}

// sweepInputs removes inputs whose snapshots are gone.
func (s *Store) sweepInputs() error {
	list, err := s.fs.ReadDir(s.path("inputs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		var id checkpoint.ID
		if _, err := fmt.Sscanf(e.Name, "%d.input", &id); err != nil || !strings.HasSuffix(e.Name, ".input") {
			continue // nobody here made it
		}
		s.mu.Lock()
		gone := s.manifests[id] == nil
		s.mu.Unlock()
		if !gone {
			continue
		}
		if err := s.fs.Remove(s.InputPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
