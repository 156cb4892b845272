package main

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/state"
)

// disk is a disk in memory, and the snapshot store on it: hundreds of thousands of runs write a few small
// files each. It implements state.FS and state.Objects.
type disk struct {
	mu      sync.Mutex
	files   map[string][]byte
	objects int
}

func newDisk() *disk { return &disk{files: map[string][]byte{}} }

type memFile struct {
	d    *disk
	path string
}

func (d *disk) Create(path string) (state.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[path] = nil
	return &memFile{d, path}, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.d.files[f.path] = append(f.d.files[f.path], b...)
	return len(b), nil
}

func (*memFile) Sync() error              { return nil }
func (*memFile) Close() error             { return nil }
func (*disk) SyncFile(string) error       { return nil }
func (*disk) SyncDir(string) error        { return nil }
func (*disk) MkdirAll(string) error       { return nil }
func (memMapping) WillNeed(int, int)      {}
func (memMapping) Close() error           { return nil }
func (m memMapping) Bytes() []byte        { return m }
func (d *disk) path(digest string) string { return "objects/" + digest }
func (d *disk) missing(p string) error {
	return &fs.PathError{Op: "open", Path: p, Err: fs.ErrNotExist}
}
func (d *disk) get(p string) ([]byte, bool) { b, ok := d.files[p]; return b, ok }

type memMapping []byte

func (d *disk) Map(path string) (state.Mapping, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.get(path)
	if !ok {
		return nil, d.missing(path)
	}
	return memMapping(b), nil
}

func (d *disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.get(path); !ok {
		return d.missing(path)
	}
	delete(d.files, path)
	return nil
}

func (d *disk) RemoveAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p := range d.files {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(d.files, p)
		}
	}
	return nil
}

// AddFile implements state.Objects.
func (d *disk) AddFile(_ context.Context, path string) (digest string, size int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.get(path)
	if !ok {
		return "", 0, d.missing(path)
	}
	if digest, ok = strings.CutPrefix(path, d.path("")); !ok {
		d.objects++
		digest = fmt.Sprint(d.objects)
		d.files[d.path(digest)] = b
	}
	return digest, int64(len(b)), nil
}

// Path implements state.Objects.
func (d *disk) Path(_ context.Context, digest string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.get(d.path(digest)); !ok {
		return "", d.missing(d.path(digest))
	}
	return d.path(digest), nil
}
