package snapstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/millrace-io/millrace/checkpoint"
)

// AddStream adds an object that comes from elsewhere. It has to have the digest and, unless that is
// checkpoint.SizeUnknown, the size said; else nothing is added. At most most bytes are read.
func (s *Store) AddStream(ctx context.Context, r io.Reader, digest string, size, most int64) error {
	if s.readOnly {
		return ErrReadOnly
	}
	if !checkpoint.ValidDigest(digest) {
		return fmt.Errorf("object %q: not a SHA-256 in lower-case hex", digest)
	}
	tmp := s.tmpName("object")
	n, err := s.spool(ctx, r, tmp, digest, size, most)
	if err == nil {
		err = s.place(tmp, digest, n)
	}
	if err != nil {
		_ = s.fs.Remove(tmp)
		return fmt.Errorf("add object %s: %w", digest, err)
	}
	return nil
}

// spool writes a stream to a durable file.
func (s *Store) spool(ctx context.Context, r io.Reader, tmp, digest string, size, most int64) (int64, error) {
	f, err := s.fs.Create(tmp)
	if err != nil {
		return 0, err
	}
	h := sha256.New()
	n, err := copyChunks(ctx, io.MultiWriter(f, h), io.LimitReader(r, most+1))
	switch got := hex.EncodeToString(h.Sum(nil)); {
	case err != nil:
	case n > most:
		err = fmt.Errorf("%w: it has more than %d bytes", ErrDamaged, most)
	case size != checkpoint.SizeUnknown && n != size:
		err = fmt.Errorf("%w: it has %d bytes, expected %d", ErrDamaged, n, size)
	case got != digest:
		err = fmt.Errorf("%w: %w", ErrDamaged, digestMismatch(got, int(n)))
	}
	if err != nil {
		return 0, errors.Join(err, f.Close())
	}
	return n, s.finish(f)
}

// place gives a durable file in tmp its name.
func (s *Store) place(tmp, digest string, size int64) error {
	s.names.Lock()
	defer s.names.Unlock()
	path := s.objectPath(digest)
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	s.crash("K8")
	if err := s.fs.Rename(tmp, path); err != nil {
		return err
	}
	s.crash("K9")
	err := s.fs.SyncDir(filepath.Dir(path))
	s.noteObject(digest, size, err != nil)
	return err
}

// Has says whether an object is there, by name and size only.
func (s *Store) Has(digest string, size int64) bool {
	if s.readOnly {
		e, err := s.fs.Stat(s.objectPath(digest))
		return err == nil && (size == checkpoint.SizeUnknown || e.Size == size)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[digest]
	if !ok || o.pending || size != checkpoint.SizeUnknown && o.size != size {
		return false
	}
	s.objects[digest] = object{size: o.size, seq: s.leases.next()}
	return true
}

// Reader opens an object. What is read is not checked: see CopyTo.
func (s *Store) Reader(ctx context.Context, digest string) (io.ReadCloser, int64, error) {
	path, err := s.Path(ctx, digest)
	if err != nil {
		return nil, 0, err
	}
	e, err := s.fs.Stat(path)
	if err != nil {
		return nil, 0, &DamageError{Path: path, Object: digest, Problem: err}
	}
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, 0, &DamageError{Path: path, Object: digest, Problem: err}
	}
	return f, e.Size, nil
}

// CopyTo writes an object to w and checks it on the way: after a nil error w has exactly the object.
func (s *Store) CopyTo(ctx context.Context, w io.Writer, digest string) error {
	r, _, err := s.Reader(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	n, err := copyChunks(ctx, io.MultiWriter(w, h), r)
	if err != nil {
		return fmt.Errorf("object %s: %w", digest, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		return &DamageError{Path: s.objectPath(digest), Object: digest, Problem: digestMismatch(got, int(n))}
	}
	return nil
}
