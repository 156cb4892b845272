package snapstore

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// Disk is the file system of the operating system.
type Disk struct{}

var _ FS = Disk{}

// Mkdir implements FS.
func (Disk) Mkdir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// Open implements FS.
func (Disk) Open(path string) (File, error) { return os.Open(path) }

// Create implements FS.
func (Disk) Create(path string) (File, error) { return os.Create(path) }

// Link implements FS.
func (Disk) Link(from, to string) error { return os.Link(from, to) }

// Rename implements FS.
func (Disk) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (Disk) Remove(path string) error { return os.Remove(path) }

// Stat implements FS.
func (Disk) Stat(path string) (Entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Entry{}, err
	}
	return Entry{info.Name(), info.Size(), info.IsDir()}, nil
}

// ReadDir implements FS.
func (Disk) ReadDir(dir string) ([]Entry, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(list))
	for _, e := range list {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{info.Name(), info.Size(), info.IsDir()})
	}
	return entries, nil
}

// SyncDir implements FS.
func (Disk) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := d.Sync(); err != nil {
		d.Close()
		return err
	}
	return d.Close()
}

// Lock implements FS.
func (Disk) Lock(path string) (io.Closer, error) { return lockFile(path) }
