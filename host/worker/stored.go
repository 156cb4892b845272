package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// Stored is the code in force behind a snapshot, from what the snapshot holds: nothing beside it is read.
type Stored struct {
	Graph   *operators.Graph
	Modules []checkpoint.ModuleRef
	stored  *storedModules
}

// OpenStored checks a snapshot's pipeline against its modules. file is where the pipeline file was, or would be: its
// paths are relative to that folder. Errors: job.ErrUnfit.
func OpenStored(ctx context.Context, store *snapstore.Store, m *checkpoint.Manifest, file, cacheDir string) (*Stored, error) {
	code := m.InForce()
	text, err := store.Read(ctx, code.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("%w: snapshot %d: pipeline file: %w", job.ErrUnfit, m.ID, err)
	}
	for _, ref := range code.Modules {
		if ref.Size == 0 {
			return nil, fmt.Errorf("%w: snapshot %d names module %.12s of operator %s but does not hold it", job.ErrUnfit, m.ID, ref.Digest, ref.Operator)
		}
	}
	eng, err := engine.New(ctx, engine.Options{CacheDir: cacheDir})
	if err != nil {
		return nil, err
	}
	s := &Stored{Modules: code.Modules, stored: &storedModules{ctx: ctx, engine: eng, dir: filepath.Dir(file), code: &job.StoredCode{Pipeline: text,
		Modules: code.Modules, Read: func(digest string) ([]byte, error) { return store.Read(ctx, digest) }}}}
	if s.Graph, err = spec.Parse(file, text, spec.Options{Modules: s.stored}); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: pipeline of snapshot %d: %w", job.ErrUnfit, m.ID, err), s.Close())
	}
	s.Graph.File = file
	return s, nil
}

// Wasm is the module of an operator, as it was.
func (s *Stored) Wasm(operator string) ([]byte, error) {
	for _, ref := range s.Modules {
		if ref.Operator == operator {
			return s.stored.code.Read(ref.Digest)
		}
	}
	return nil, fmt.Errorf("%w: the snapshot names no module of operator %s", job.ErrUnfit, operator)
}

// Module compiles the module of a guest node; it lives until Close.
func (s *Stored) Module(_ context.Context, n *operators.Node) (guestop.Module, error) {
	for _, ref := range s.Modules {
		if ref.Operator == n.ID {
			return s.stored.compile(ref.Digest, n.Guest.Describe)
		}
	}
	return nil, fmt.Errorf("%w: the snapshot names no module of operator %s", job.ErrUnfit, n.ID)
}

// Close frees the engine.
func (s *Stored) Close() error { return s.stored.engine.Close(s.stored.ctx) }
