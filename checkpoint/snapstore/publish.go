package snapstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// publish writes data to a temporary file, makes it durable and gives it its name durably. A failure
// with renamed set leaves the name in doubt.
func (s *Store) publish(kind, path string, data []byte) (renamed bool, err error) {
	return s.publishAt(kind, path, data, "K8")
}

// publishAt is publish with the crash point between the durable file and its name.
func (s *Store) publishAt(kind, path string, data []byte, point string) (renamed bool, err error) {
	tmp := s.tmpName(kind)
	if err := s.writeSynced(tmp, data); err != nil {
		_ = s.fs.Remove(tmp)
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	s.crash(point)
	if err := s.fs.Rename(tmp, path); err != nil {
		_ = s.fs.Remove(tmp)
		return false, fmt.Errorf("write %s: %w", path, err)
	}
	s.crash("K9")
	if err := s.fs.SyncDir(filepath.Dir(path)); err != nil {
		return true, fmt.Errorf("write %s: sync its directory: %w", path, err)
	}
	return true, nil
}

func (s *Store) tmpName(kind string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tmpCount++
	return s.path("tmp", fmt.Sprintf("%s-%d", kind, s.tmpCount))
}

func (s *Store) writeSynced(path string, data []byte) error {
	f, err := s.fs.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	return s.finish(f)
}

// finish makes a written file durable and closes it.
func (s *Store) finish(f File) error {
	s.crash("K7")
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// makeDir makes a directory of the store, or the store itself with those above it, durably. One that is
// there may be left from a crash before its name was durable, so the first use syncs in any case.
func (s *Store) makeDir(dir string) error {
	s.mu.Lock()
	done := s.durable[dir]
	s.mu.Unlock()
	if done {
		return nil
	}
	parent := filepath.Dir(dir)
	if err := s.makeParents(parent); err != nil {
		return err
	}
	if err := s.fs.Mkdir(dir); err != nil {
		return err
	}
	if err := s.fs.SyncDir(parent); err != nil {
		return err
	}
	s.mu.Lock()
	s.durable[dir] = true
	s.mu.Unlock()
	return nil
}

func (s *Store) makeParents(dir string) error {
	e, err := s.fs.Stat(dir)
	if err == nil && !e.Dir {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := s.makeParents(parent); err != nil {
		return err
	}
	if err := s.fs.Mkdir(dir); err != nil {
		return err
	}
	return s.fs.SyncDir(parent)
}

func (s *Store) readFile(path string) ([]byte, error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}
