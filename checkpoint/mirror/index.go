package mirror

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/seal"
)

// index is a snapshot's manifest file and where its objects are.
type index struct {
	Format   int               `json:"format"`
	Manifest []byte            `json:"manifest"` // the file as it is
	Objects  map[string]stored `json:"objects"`  // by digest
}

// stored is where an object is and what it was sealed as.
type stored struct {
	Key      string        `json:"key"`
	Size     int64         `json:"size"`   // bytes there
	SHA256   string        `json:"sha256"` // of them
	Task     string        `json:"task"`
	Sequence checkpoint.ID `json:"sequence"`
}

const (
	indexFormat = 1
	maxIndex    = 256 << 20
)

func indexKey(id checkpoint.ID, round int, push string) string {
	return fmt.Sprintf("indexes/%08d-%d.%s", id, round, push)
}

func objectKey(digest string, push string) string { return "objects/" + digest + "." + push }
func (m *Mirror) context(task string, seq checkpoint.ID, name string) seal.Context {
	return seal.Context{Tenant: m.o.Tenant, Job: m.o.Job, Task: task, Sequence: uint64(seq), Name: name}
}

// index returns the index of a snapshot of the catalog, checked against the catalog, and its manifest.
func (m *Mirror) index(ctx context.Context, s Snapshot) (*index, *checkpoint.Manifest, error) {
	m.mu.Lock()
	x := m.indexes[s.Key]
	m.mu.Unlock()
	if x == nil {
		var err error
		if x, err = m.fetchIndex(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	damage := func(err error) (*index, *checkpoint.Manifest, error) {
		return nil, nil, &DamageError{Key: s.Key, Problem: err}
	}
	if got := sha256Hex(x.Manifest); got != s.Manifest {
		return damage(fmt.Errorf("its manifest has SHA-256 %s, the catalog says %s", got, s.Manifest))
	}
	man, err := checkpoint.Decode(x.Manifest)
	if err != nil {
		return damage(err)
	}
	if man.ID != s.ID || man.Job != m.o.Job {
		return damage(fmt.Errorf("it holds snapshot %d of %q, expected %d of %q", man.ID, man.Job, s.ID, m.o.Job))
	}
	if m.o.Manifests != nil {
		if err := checkpoint.VerifySignature(x.Manifest, m.o.Manifests); err != nil {
			return damage(err)
		}
	}
	if man.Parent != s.Parent || man.ParentSHA != s.ParentSHA || man.Kind != s.Kind {
		return damage(errors.New("its manifest and the catalog name another parent or kind"))
	}
	for ref := range man.Objects() {
		if _, ok := x.Objects[ref.Digest]; !ok {
			return damage(fmt.Errorf("%s: it does not say where object %s is", ref.Where, ref.Digest))
		}
	}
	m.mu.Lock()
	m.indexes[s.Key] = x
	m.mu.Unlock()
	return x, man, nil
}

func (m *Mirror) fetchIndex(ctx context.Context, s Snapshot) (*index, error) {
	x := new(index)
	err := m.decode(ctx, s.Key, s.Size, s.SHA256, m.context("", s.ID, "index"), func(r io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(r, maxIndex))
		if err != nil {
			return err
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		*x = index{}
		if err := dec.Decode(x); err != nil {
			return err
		}
		if x.Format != indexFormat {
			return fmt.Errorf("format %d, this build reads %d", x.Format, indexFormat)
		}
		return nil
	})
	return x, err
}

// forget drops indexes of snapshots that left the catalog.
func (m *Mirror) forget(c *Catalog) {
	keys := map[string]bool{}
	for _, s := range c.Snapshots {
		keys[s.Key] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.indexes {
		if !keys[key] {
			delete(m.indexes, key)
		}
	}
}

// stock is all that the snapshots of a catalog have stored.
func (m *Mirror) stock(ctx context.Context, c *Catalog) (map[string]stored, error) {
	m.forget(c)
	all := map[string]stored{}
	for _, s := range c.Snapshots {
		x, _, err := m.index(ctx, s)
		if err != nil {
			return nil, err
		}
		for digest, at := range x.Objects {
			all[digest] = at
		}
	}
	return all, nil
}
