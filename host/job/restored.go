package job

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// StoredCode is what a snapshot was made by.
type StoredCode struct {
	Pipeline []byte                 // text of the pipeline file
	Modules  []checkpoint.ModuleRef // by operator
	// Read reads a module that the snapshot store holds.
	Read func(digest string) ([]byte, error)
}

// CodeOf is the code that left snapshot id, as the store holds it.
func (j *Job) CodeOf(ctx context.Context, id checkpoint.ID) (*StoredCode, error) {
	m, err := j.store.Load(id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	text, err := j.store.Read(ctx, m.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("%w: checkpoint %d: pipeline file: %w", ErrUnfit, id, err)
	}
	for _, ref := range m.Modules {
		if ref.Size == 0 {
			return nil, fmt.Errorf("%w: checkpoint %d names module %.12s of operator %s but does not hold it", ErrUnfit, id, ref.Digest, ref.Operator)
		}
	}
	return &StoredCode{Pipeline: text, Modules: m.Modules, Read: func(digest string) ([]byte, error) { return j.store.Read(ctx, digest) }}, nil
}

// Output is a file that a checkpoint published.
type Output struct {
	Checkpoint checkpoint.ID `json:"checkpoint"`
	Operator   string        `json:"operator"`
	Path       string        `json:"path"`
	Records    int64         `json:"records"`
}

// OutputAfter lists what the checkpoints after id published, as far as their manifests are still there.
func (j *Job) OutputAfter(id checkpoint.ID) (out []Output, err error) {
	infos, err := j.store.List()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.ID <= id || info.Err != nil {
			continue
		}
		m, err := j.store.Load(info.ID)
		if errors.Is(err, snapstore.ErrNoCheckpoint) {
			continue // its retention came between
		}
		if err != nil {
			return nil, err
		}
		for _, t := range m.Tasks {
			for _, o := range t.Operators {
				for _, s := range o.Staged {
					if !m.Holds(s) && !slices.ContainsFunc(out, func(x Output) bool { return x.Path == s.Final }) {
						out = append(out, Output{info.ID, o.Operator, s.Final, s.Records})
					}
				}
			}
		}
	}
	return out, nil
}
