package faultfs

import (
	"io"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Op is a kind of file operation.
type Op string

// The operations; a path is the first argument, for Link and Rename the second.
const (
	OpMkdir   Op = "mkdir"
	OpOpen    Op = "open"
	OpCreate  Op = "create"
	OpRead    Op = "read"
	OpWrite   Op = "write"
	OpSync    Op = "sync"
	OpLink    Op = "link"
	OpRename  Op = "rename"
	OpRemove  Op = "remove"
	OpStat    Op = "stat"
	OpReadDir Op = "readdir"
	OpSyncDir Op = "syncdir"
	OpLock    Op = "lock"
)

// Hook is asked before each operation; an error fails the operation, which then does nothing, except
// that a failed write has written half.
type Hook func(op Op, path string) error

// Rule fails operations: those of kind Op ("" is any) whose path contains Path, from the Nth (counted
// from 1) on, Times of them (0 is one, negative is all).
type Rule struct {
	Op    Op
	Path  string
	Nth   int
	Times int
	Err   error

	seen int
}

// Rules is a hook made of rules; Fired tells how often one struck, since a fault that never strikes
// proves nothing.
type Rules struct {
	mu    sync.Mutex
	rules []*Rule
	fired int
}

// NewRules makes a hook of rules.
func NewRules(rules ...*Rule) *Rules { return &Rules{rules: rules} }

// Hook implements Hook.
func (r *Rules) Hook(op Op, path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rule := range r.rules {
		if rule.Op != "" && rule.Op != op || !strings.Contains(path, rule.Path) {
			continue
		}
		rule.seen++
		after := rule.seen - max(rule.Nth, 1)
		if after >= 0 && (rule.Times < 0 || after < max(rule.Times, 1)) {
			r.fired++
			return failure(string(op), path, rule.Err)
		}
	}
	return nil
}

// Fired is how many operations the rules failed.
func (r *Rules) Fired() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fired
}

// Inject puts a hook before every operation of a file system.
func Inject(inner snapstore.FS, hook Hook) snapstore.FS { return &injected{inner, hook} }

type injected struct {
	inner snapstore.FS
	hook  Hook
}

func (f *injected) Mkdir(dir string) error {
	if err := f.hook(OpMkdir, dir); err != nil {
		return err
	}
	return f.inner.Mkdir(dir)
}

func (f *injected) Open(path string) (snapstore.File, error) {
	if err := f.hook(OpOpen, path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.inner.Open(path))
}

func (f *injected) Create(path string) (snapstore.File, error) {
	if err := f.hook(OpCreate, path); err != nil {
		return nil, err
	}
	return f.wrap(path)(f.inner.Create(path))
}

func (f *injected) wrap(path string) func(snapstore.File, error) (snapstore.File, error) {
	return func(file snapstore.File, err error) (snapstore.File, error) {
		if err != nil {
			return nil, err
		}
		return &injectedFile{file, path, f.hook}, nil
	}
}

func (f *injected) Link(from, to string) error {
	if err := f.hook(OpLink, to); err != nil {
		return err
	}
	return f.inner.Link(from, to)
}

func (f *injected) Rename(from, to string) error {
	if err := f.hook(OpRename, to); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

func (f *injected) Remove(path string) error {
	if err := f.hook(OpRemove, path); err != nil {
		return err
	}
	return f.inner.Remove(path)
}

func (f *injected) Stat(path string) (snapstore.Entry, error) {
	if err := f.hook(OpStat, path); err != nil {
		return snapstore.Entry{}, err
	}
	return f.inner.Stat(path)
}

func (f *injected) ReadDir(dir string) ([]snapstore.Entry, error) {
	if err := f.hook(OpReadDir, dir); err != nil {
		return nil, err
	}
	return f.inner.ReadDir(dir)
}

func (f *injected) SyncDir(dir string) error {
	if err := f.hook(OpSyncDir, dir); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

func (f *injected) Lock(path string) (io.Closer, error) {
	if err := f.hook(OpLock, path); err != nil {
		return nil, err
	}
	return f.inner.Lock(path)
}

type injectedFile struct {
	snapstore.File
	path string
	hook Hook
}

func (f *injectedFile) Read(p []byte) (int, error) {
	if err := f.hook(OpRead, f.path); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *injectedFile) Write(p []byte) (int, error) {
	if err := f.hook(OpWrite, f.path); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *injectedFile) Sync() error {
	if err := f.hook(OpSync, f.path); err != nil {
		return err
	}
	return f.File.Sync()
}
