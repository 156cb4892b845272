// Package faultfs is a disk with faults for tests: the real one, with a hook before each operation.
package faultfs

import (
	"sync"
	"syscall"

	"github.com/millrace-io/millrace/state"
)

// Op is an operation of state.FS or state.File.
type Op string

// Operations that the hook sees.
const (
	Create    Op = "create"
	Map       Op = "map"
	MkdirAll  Op = "mkdirall"
	Remove    Op = "remove"
	RemoveAll Op = "removeall"
	SyncDir   Op = "syncdir"
	Write     Op = "write"
	Sync      Op = "sync"
	Close     Op = "close"
)

// FS is the real disk behind a hook. Syncs go no further than the hook: tests outlive no power cut, and
// disks are slow.
type FS struct {
	state.OS
	mu    sync.Mutex
	hook  func(op Op, path string) error
	space int64 // bytes left to write; < 0: no limit
	count map[Op]int
	hits  int
}

// New is a disk without faults.
func New() *FS { return &FS{space: -1, count: map[Op]int{}} }

// Hook sets what is called before each operation; its error is the operation's.
func (f *FS) Hook(h func(op Op, path string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = h
}

// Space sets how many bytes can still be written before ENOSPC; negative: no limit.
func (f *FS) Space(bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.space = bytes
}

// Count is how often an operation was called; Hits how many calls failed by a fault.
func (f *FS) Count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[op]
}

// Hits is how many operations failed by a fault.
func (f *FS) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

func (f *FS) before(op Op, path string, bytes int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[op]++
	var err error
	if f.hook != nil {
		err = f.hook(op, path)
	}
	if err == nil && bytes > 0 && f.space >= 0 {
		if f.space -= int64(bytes); f.space < 0 {
			f.space = 0
			err = syscall.ENOSPC
		}
	}
	if err != nil {
		f.hits++
	}
	return err
}

// Create implements state.FS.
func (f *FS) Create(path string) (state.File, error) {
	if err := f.before(Create, path, 0); err != nil {
		return nil, err
	}
	x, err := f.OS.Create(path)
	if err != nil {
		return nil, err
	}
	return &file{x, f, path}, nil
}

// Map implements state.FS.
func (f *FS) Map(path string) (state.Mapping, error) {
	if err := f.before(Map, path, 0); err != nil {
		return nil, err
	}
	return f.OS.Map(path)
}

// MkdirAll implements state.FS.
func (f *FS) MkdirAll(path string) error {
	if err := f.before(MkdirAll, path, 0); err != nil {
		return err
	}
	return f.OS.MkdirAll(path)
}

// Remove implements state.FS.
func (f *FS) Remove(path string) error {
	if err := f.before(Remove, path, 0); err != nil {
		return err
	}
	return f.OS.Remove(path)
}

// RemoveAll implements state.FS.
func (f *FS) RemoveAll(path string) error {
	if err := f.before(RemoveAll, path, 0); err != nil {
		return err
	}
	return f.OS.RemoveAll(path)
}

// SyncFile implements state.FS; the hook sees Sync.
func (f *FS) SyncFile(path string) error {
	if err := f.before(Sync, path, 0); err != nil {
		return err
	}
	return nil
}

// SyncDir implements state.FS.
func (f *FS) SyncDir(path string) error {
	if err := f.before(SyncDir, path, 0); err != nil {
		return err
	}
	return nil
}

type file struct {
	state.File
	fs   *FS
	path string
}

func (f *file) Write(b []byte) (int, error) {
	if err := f.fs.before(Write, f.path, len(b)); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *file) Sync() error {
	if err := f.fs.before(Sync, f.path, 0); err != nil {
		return err
	}
	return nil
}

func (f *file) Close() error {
	if err := f.fs.before(Close, f.path, 0); err != nil {
		_ = f.File.Close() // the fault is the error; the descriptor must not leak
		return err
	}
	return f.File.Close()
}
