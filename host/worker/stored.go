package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/millrace-io/millrace/abi"
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

// Revised is other code for a snapshot: a pipeline file, and where its modules come from.
type Revised struct {
	Graph *operators.Graph
	// Digests are the SHA-256 of its modules, by operator.
	Digests map[string]string
	from    *Stored
	own     map[string]bool
	disk    bool
	known   map[string]string // digests by absolute path
}

// Revise checks a changed pipeline. Modules that own names by absolute path are read from there, with disk all are;
// the others are the snapshot's. What it compiles lives until the Stored is closed.
func (s *Stored) Revise(file string, text []byte, own map[string]bool, disk bool) (*Revised, error) {
	r := &Revised{Digests: map[string]string{}, from: s, own: own, disk: disk, known: map[string]string{}}
	g, err := spec.Parse(file, text, spec.Options{Modules: r})
	if err != nil {
		return nil, err
	}
	g.File, r.Graph = file, g
	for _, n := range g.GuestNodes() {
		r.Digests[n.ID] = r.known[r.path(n)]
	}
	return r, nil
}

// path is where a node's module is, or would be.
func (r *Revised) path(n *operators.Node) string {
	p := n.Guest.Module
	if !filepath.IsAbs(p) {
		p = filepath.Join(filepath.Dir(r.Graph.File), p)
	}
	return filepath.Clean(p)
}

// ModuleInfo implements spec.Modules.
func (r *Revised) ModuleInfo(path string) (d *abi.Descriptor, digest string, err error) {
	if r.disk || r.own[path] {
		m := Modules{r.from.stored.ctx, r.from.stored.engine}
		d, digest, err = m.ModuleInfo(path)
	} else {
		d, digest, err = r.from.stored.ModuleInfo(path)
	}
	r.known[filepath.Clean(path)] = digest
	return d, digest, err
}

// Module compiles the module of a guest node.
func (r *Revised) Module(ctx context.Context, n *operators.Node) (guestop.Module, error) {
	path := r.path(n)
	if r.disk || r.own[path] {
		return compile(ctx, r.from.stored.engine, r.Graph, n)
	}
	for _, ref := range r.from.Modules {
		p := ref.Path
		if !filepath.IsAbs(p) {
			p = filepath.Join(r.from.stored.dir, p)
		}
		if filepath.Clean(p) == path {
			return r.from.stored.compile(ref.Digest, n.Guest.Describe)
		}
	}
	return nil, fmt.Errorf("%w: the snapshot holds no module %s", job.ErrUnfit, n.Guest.Module)
}

// Close frees the engine.
func (s *Stored) Close() error { return s.stored.engine.Close(s.stored.ctx) }
