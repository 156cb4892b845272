// Package statetest is the conformance suite of keyed state: named cases and random histories compared
// with a simple model, over whatever a constructor opens.
package statetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// Objects is a snapshot store in a folder. It implements state.Objects.
type Objects struct {
	dir string

	mu   sync.Mutex
	fail error
}

// NewObjects makes a store in dir, which exists.
func NewObjects(dir string) *Objects { return &Objects{dir: dir} }

// Fail makes AddFile return err from now on; nil ends it.
func (o *Objects) Fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail = err
}

// AddFile implements state.Objects.
func (o *Objects) AddFile(_ context.Context, path string) (digest string, size int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail != nil {
		return "", 0, o.fail
	}
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	digest = hex.EncodeToString(h.Sum(nil))
	if err := os.Link(path, filepath.Join(o.dir, digest)); err != nil && !os.IsExist(err) {
		return "", 0, err
	}
	return digest, size, nil
}

// Path implements state.Objects.
func (o *Objects) Path(_ context.Context, digest string) (string, error) {
	p := filepath.Join(o.dir, digest)
	if _, err := os.Stat(p); err != nil {
		return "", fmt.Errorf("object %s: %w", digest, err)
	}
	return p, nil
}
