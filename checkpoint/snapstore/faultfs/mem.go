// Package faultfs is a file system in memory for tests of the snapshot store: it can lose what was not
// synced, as a power failure does, and fail any operation on command.
package faultfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// Mem is a file system in memory that knows what is durable. Contents become durable by File.Sync, names
// by SyncDir of their directory. Paths are slash-separated and absolute. Safe for concurrent use.
type Mem struct {
	mu    sync.Mutex
	root  *node
	locks map[string]bool
}

var _ snapstore.FS = (*Mem)(nil)

// node is a file or a directory.
type node struct {
	names   map[string]*node // of a directory, nil for a file
	durable map[string]*node // names that survive
	data    []byte
	synced  []byte // contents that survive
}

func newDir() *node { return &node{names: map[string]*node{}, durable: map[string]*node{}} }

// New is an empty file system.
func New() *Mem { return &Mem{root: newDir(), locks: map[string]bool{}} }

// Mkdir implements snapstore.FS.
func (m *Mem) Mkdir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, name, err := m.parent("mkdir", dir)
	if err != nil || parent == m.root && name == "" {
		return err
	}
	if old := parent.names[name]; old != nil && old.names == nil {
		return failure("mkdir", dir, fs.ErrExist)
	} else if old == nil {
		parent.names[name] = newDir()
	}
	return nil
}

// Open implements snapstore.FS.
func (m *Mem) Open(file string) (snapstore.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file("open", file)
	if err != nil {
		return nil, err
	}
	return &handle{m: m, n: n}, nil
}

// Create implements snapstore.FS.
func (m *Mem) Create(file string) (snapstore.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, name, err := m.parent("create", file)
	if err != nil {
		return nil, err
	}
	n := parent.names[name]
	if n != nil && n.names != nil {
		return nil, failure("create", file, fs.ErrExist)
	}
	if n == nil {
		n = new(node)
		parent.names[name] = n
	}
	n.data = nil
	return &handle{m: m, n: n, write: true}, nil
}

// Link implements snapstore.FS.
func (m *Mem) Link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file("link", from)
	if err != nil {
		return err
	}
	parent, name, err := m.parent("link", to)
	if err != nil {
		return err
	}
	if parent.names[name] != nil {
		return failure("link", to, fs.ErrExist)
	}
	parent.names[name] = n
	return nil
}

// Rename implements snapstore.FS, with POSIX's rule that two names of one file both stay.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file("rename", from)
	if err != nil {
		return err
	}
	parent, name, err := m.parent("rename", to)
	if err != nil {
		return err
	}
	if parent.names[name] == n {
		return nil
	}
	parent.names[name] = n
	old, oldName, _ := m.parent("rename", from)
	delete(old.names, oldName)
	return nil
}

// Remove implements snapstore.FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := parent.names[base]
	if n == nil {
		return failure("remove", name, fs.ErrNotExist)
	}
	if len(n.names) > 0 {
		return failure("remove", name, fmt.Errorf("directory is not empty"))
	}
	delete(parent.names, base)
	return nil
}

// Stat implements snapstore.FS.
func (m *Mem) Stat(name string) (snapstore.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("stat", name)
	if err != nil {
		return snapstore.Entry{}, err
	}
	return entry(path.Base(name), n), nil
}

// ReadDir implements snapstore.FS.
func (m *Mem) ReadDir(dir string) ([]snapstore.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.dir("readdir", dir)
	if err != nil {
		return nil, err
	}
	list := make([]snapstore.Entry, 0, len(n.names))
	for _, name := range sortedNames(n.names) {
		list = append(list, entry(name, n.names[name]))
	}
	return list, nil
}

// SyncDir implements snapstore.FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.dir("syncdir", dir)
	if err != nil {
		return err
	}
	n.durable = make(map[string]*node, len(n.names))
	for name, child := range n.names {
		n.durable[name] = child
	}
	return nil
}

// Lock implements snapstore.FS. Locks end with the process: a crash clone has none.
func (m *Mem) Lock(file string) (io.Closer, error) {
	f, err := m.Create(file)
	if err != nil {
		return nil, err
	}
	f.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locks[file] {
		return nil, &snapstore.LockedError{Path: file, PID: 1}
	}
	m.locks[file] = true
	return unlock{m, file}, nil
}

type unlock struct {
	m    *Mem
	file string
}

func (u unlock) Close() error {
	u.m.mu.Lock()
	defer u.m.mu.Unlock()
	delete(u.m.locks, u.file)
	return nil
}

// WriteFile puts a durable file there, with the directories it needs, for tests.
func (m *Mem) WriteFile(file string, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.root
	parts := strings.Split(strings.Trim(path.Clean(file), "/"), "/")
	for _, p := range parts[:len(parts)-1] {
		if at.names[p] == nil {
			at.names[p] = newDir()
		}
		at.durable[p] = at.names[p]
		at = at.names[p]
	}
	n := &node{data: bytes.Clone(data), synced: bytes.Clone(data)}
	at.names[parts[len(parts)-1]] = n
	at.durable[parts[len(parts)-1]] = n
}

// CrashClone is what a new process finds after a crash. Every name and every content that was not synced
// is kept with probability keep, else it is as it last was durable; unsynced contents that are kept may
// be torn. keep 1 without tearing is a killed process, keep 0 the worst a power failure may do.
func (m *Mem) CrashClone(rng *rand.Rand, keep float64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := cloner{rng, keep, make(map[*node]*node)}
	return &Mem{root: c.clone(m.root), locks: map[string]bool{}}
}

type cloner struct {
	rng  *rand.Rand
	keep float64
	done map[*node]*node
}

func (c *cloner) clone(n *node) *node {
	if old := c.done[n]; old != nil {
		return old
	}
	to := new(node)
	c.done[n] = to
	if n.names == nil {
		to.data = c.contents(n)
		to.synced = to.data
		return to
	}
	to.names, to.durable = map[string]*node{}, map[string]*node{}
	all := make(map[string]*node, len(n.names))
	for name := range n.names {
		all[name] = nil
	}
	for name := range n.durable {
		all[name] = nil
	}
	for _, name := range sortedNames(all) {
		child := n.durable[name]
		if now := n.names[name]; now != child && c.rng.Float64() < c.keep {
			child = now
		}
		if child != nil {
			to.names[name] = c.clone(child)
			to.durable[name] = to.names[name]
		}
	}
	return to
}

func (c *cloner) contents(n *node) []byte {
	if bytes.Equal(n.data, n.synced) || c.rng.Float64() >= c.keep {
		return bytes.Clone(n.synced)
	}
	data := bytes.Clone(n.data)
	if c.keep < 1 && len(data) > 0 {
		switch at := c.rng.IntN(len(data)); c.rng.IntN(3) {
		case 0: // only a beginning reached the disk
			data = data[:at]
		case 1: // the length did, a part of the contents did not
			clear(data[at:])
		}
	}
	return data
}

func entry(name string, n *node) snapstore.Entry {
	return snapstore.Entry{Name: name, Size: int64(len(n.data)), Dir: n.names != nil}
}

func sortedNames(names map[string]*node) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func failure(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

func (m *Mem) find(op, name string) (*node, error) {
	n := m.root
	for _, p := range strings.Split(strings.Trim(path.Clean(name), "/"), "/") {
		if p == "" || p == "." {
			continue
		}
		if n = n.names[p]; n == nil {
			return nil, failure(op, name, fs.ErrNotExist)
		}
	}
	return n, nil
}

func (m *Mem) file(op, name string) (*node, error) {
	n, err := m.find(op, name)
	if err == nil && n.names != nil {
		return nil, failure(op, name, fmt.Errorf("is a directory"))
	}
	return n, err
}

func (m *Mem) dir(op, name string) (*node, error) {
	n, err := m.find(op, name)
	if err == nil && n.names == nil {
		return nil, failure(op, name, fmt.Errorf("is not a directory"))
	}
	return n, err
}

func (m *Mem) parent(op, name string) (*node, string, error) {
	dir, base := path.Split(path.Clean(name))
	n, err := m.dir(op, dir)
	return n, base, err
}

// handle is an open file.
type handle struct {
	m     *Mem
	n     *node
	at    int
	write bool
}

func (h *handle) Read(p []byte) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if h.at >= len(h.n.data) {
		return 0, io.EOF
	}
	n := copy(p, h.n.data[h.at:])
	h.at += n
	return n, nil
}

func (h *handle) Write(p []byte) (int, error) {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	if !h.write {
		return 0, fs.ErrPermission
	}
	h.n.data = append(h.n.data, p...)
	return len(p), nil
}

func (h *handle) Sync() error {
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	h.n.synced = bytes.Clone(h.n.data)
	return nil
}

func (h *handle) Close() error { return nil }
