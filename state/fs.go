package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// FS is the disk as the state layer uses it; tests put faults into it.
type FS interface {
	// Create makes or truncates a file for writing.
	Create(path string) (File, error)
	// SyncFile makes a closed file's content durable.
	SyncFile(path string) error
	// Map maps a whole file for reading.
	Map(path string) (Mapping, error)
	MkdirAll(path string) error
	Remove(path string) error
	// RemoveAll removes a tree; a missing one is no error.
	RemoveAll(path string) error
	// SyncDir makes creations and removals in a folder durable.
	SyncDir(path string) error
}

// File is a file being written.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// Mapping is a file mapped for reading.
type Mapping interface {
	// Bytes are valid until Close and must not be written.
	Bytes() []byte
	// WillNeed asks the system to read a part ahead.
	WillNeed(off, n int)
	Close() error
}

// OS is the real disk.
type OS struct{}

// Create implements FS.
func (OS) Create(path string) (File, error) { return os.Create(path) }

// MkdirAll implements FS.
func (OS) MkdirAll(path string) error { return os.MkdirAll(path, 0o755) }

// Remove implements FS.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll implements FS.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// SyncFile implements FS.
func (OS) SyncFile(path string) error { return syncPath(path) }

// SyncDir implements FS.
func (OS) SyncDir(path string) error { return syncPath(path) }

func syncPath(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// Map implements FS.
func (OS) Map(path string) (Mapping, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return &mapping{}, nil
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	_ = unix.Madvise(b, unix.MADV_RANDOM) // a hint: look-ups are random, iterators ask for more themselves
	return &mapping{b}, nil
}

type mapping struct{ b []byte }

func (m *mapping) Bytes() []byte { return m.b }

func (m *mapping) WillNeed(off, n int) {
	off &^= os.Getpagesize() - 1
	if n = min(n, len(m.b)-off); n > 0 {
		_ = unix.Madvise(m.b[off:off+n], unix.MADV_WILLNEED)
	}
}

func (m *mapping) Close() error {
	if m.b == nil {
		return nil
	}
	b := m.b
	m.b = nil
	return unix.Munmap(b)
}

// StorageError wraps the error of a disk operation; lack of space or quota becomes ErrStorageFull.
func StorageError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %s %s: %w", ErrStorageFull, op, path, err)
	}
	return fmt.Errorf("state: %s %s: %w", op, path, err)
}
