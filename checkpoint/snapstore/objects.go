package snapstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
)

// chunk is the unit of hashing and copying: large enough for few system calls, small enough for a cache.
const chunk = 256 << 10

var chunks = sync.Pool{New: func() any { b := make([]byte, chunk); return &b }}

// AddFile implements state.Objects: it hashes the file, makes it durable and gives it its name in the
// store by a hard link, or by a copy where linking is impossible (another device). The file at path stays
// and must not be written to any more. A path inside the store is known already and not read again.
func (s *Store) AddFile(ctx context.Context, path string) (digest string, size int64, err error) {
	if s.readOnly {
		return "", 0, ErrReadOnly
	}
	if digest, size, ok := s.touchPath(path); ok {
		return digest, size, nil
	}
	digest, size, err = s.hashFile(ctx, path, true)
	if err != nil {
		return "", 0, fmt.Errorf("add %s to the snapshot store: %w", path, err)
	}
	if s.touch(digest, size) {
		return digest, size, nil
	}
	if err := s.addName(ctx, path, digest, size); err != nil {
		return "", 0, fmt.Errorf("add %s to the snapshot store: %w", path, err)
	}
	return digest, size, nil
}

// Put adds a small object. One that is there but is not what its name says is written anew.
func (s *Store) Put(ctx context.Context, data []byte) (digest string, size int64, err error) {
	if s.readOnly {
		return "", 0, ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return "", 0, err
	}
	sum := sha256.Sum256(data)
	digest, size = hex.EncodeToString(sum[:]), int64(len(data))
	if s.touch(digest, size) {
		if _, err := s.Read(ctx, digest); err == nil || !errors.Is(err, ErrDamaged) {
			return digest, size, err
		}
	}
	s.names.Lock()
	defer s.names.Unlock()
	path := s.objectPath(digest)
	if err := s.makeDir(filepath.Dir(path)); err != nil {
		return "", 0, fmt.Errorf("add object %s: %w", digest, err)
	}
	if renamed, err := s.publish("object", path, data); err != nil {
		if renamed {
			s.noteObject(digest, size, true)
		}
		return "", 0, fmt.Errorf("add object %s: %w", digest, err)
	}
	s.noteObject(digest, size, false)
	return digest, size, nil
}

// Path implements state.Objects.
func (s *Store) Path(_ context.Context, digest string) (string, error) {
	if !checkpoint.ValidDigest(digest) {
		return "", fmt.Errorf("object %q: not a SHA-256 in lower-case hex", digest)
	}
	path := s.objectPath(digest)
	if s.readOnly {
		_, err := s.fs.Stat(path)
		return path, err
	}
	s.mu.Lock()
	_, ok := s.objects[digest]
	s.mu.Unlock()
	if !ok {
		return "", &DamageError{Path: path, Object: digest, Problem: fs.ErrNotExist}
	}
	return path, nil
}

// Read returns a small object and checks it. Errors: *DamageError.
func (s *Store) Read(ctx context.Context, digest string) ([]byte, error) {
	path, err := s.Path(ctx, digest)
	if err != nil {
		return nil, err
	}
	data, err := s.readFile(path)
	if err != nil {
		return nil, &DamageError{Path: path, Object: digest, Problem: err}
	}
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != digest {
		return nil, &DamageError{Path: path, Object: digest, Problem: digestMismatch(got, len(data))}
	}
	return data, nil
}

// Delete removes an object that no checkpoint names. One that is not there is no error.
func (s *Store) Delete(_ context.Context, digest string) error {
	if s.readOnly {
		return ErrReadOnly
	}
	s.names.Lock()
	defer s.names.Unlock()
	s.mu.Lock()
	_, known := s.objects[digest]
	used := s.refs[digest] > 0
	if known && !used {
		delete(s.objects, digest)
	}
	s.mu.Unlock()
	if used {
		return fmt.Errorf("delete object %s: %w", digest, ErrReferenced)
	}
	if !known {
		return nil
	}
	return s.removeObject(digest)
}

// removeObject takes the name away. It need not be durable: an object that comes back is swept again.
func (s *Store) removeObject(digest string) error {
	err := s.fs.Remove(s.objectPath(digest))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete object %s: %w", digest, err)
	}
	return nil
}

// touch says whether the object is there, and then counts as added now.
func (s *Store) touch(digest string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[digest]
	// An object of an earlier process may have rotted since: the good copy at hand replaces it.
	if !ok || o.pending || o.seq == 0 || o.size != size {
		return false
	}
	s.objects[digest] = object{size: size, seq: s.leases.next()}
	return true
}

// touchPath is touch for the path of an object.
func (s *Store) touchPath(path string) (digest string, size int64, ok bool) {
	digest = filepath.Base(path)
	if !checkpoint.ValidDigest(digest) || filepath.Clean(path) != s.objectPath(digest) {
		return "", 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.objects[digest]
	ok = ok && !o.pending
	if ok {
		s.objects[digest] = object{size: o.size, seq: s.leases.next()}
	}
	return digest, o.size, ok
}

// noteObject remembers an object whose name is there; one whose name may not be durable can be swept or
// added again, but no manifest may name it.
func (s *Store) noteObject(digest string, size int64, pending bool) {
	s.mu.Lock()
	s.objects[digest] = object{size: size, seq: s.leases.next(), pending: pending}
	s.mu.Unlock()
}

// addName gives the durable file at path its name in the store.
func (s *Store) addName(ctx context.Context, path, digest string, size int64) error {
	s.names.Lock()
	defer s.names.Unlock()
	to := s.objectPath(digest)
	shard := filepath.Dir(to)
	if err := s.makeDir(shard); err != nil {
		return err
	}
	if err := s.linkOrCopy(ctx, path, to, digest); err != nil {
		return err
	}
	s.crash("K9")
	err := s.fs.SyncDir(shard)
	s.noteObject(digest, size, err != nil)
	return err
}

func (s *Store) linkOrCopy(ctx context.Context, from, to, digest string) error {
	err := s.fs.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := s.tmpName("object")
	if errors.Is(err, fs.ErrExist) {
		err = s.fs.Link(from, tmp)
	}
	if err != nil {
		if err = s.copyFile(ctx, from, tmp, digest); err != nil {
			_ = s.fs.Remove(tmp)
			return err
		}
	}
	s.crash("K8")
	if err := s.fs.Rename(tmp, to); err != nil {
		_ = s.fs.Remove(tmp)
		return err
	}
	// Where both names were links to one file, a rename does nothing and the first name stays.
	_ = s.fs.Remove(tmp)
	return nil
}

// copyFile copies durably and hashes again: what is stored is what is named, whatever happened between.
func (s *Store) copyFile(ctx context.Context, from, to, digest string) error {
	in, err := s.fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.fs.Create(to)
	if err != nil {
		return err
	}
	h := sha256.New()
	n, err := copyChunks(ctx, io.MultiWriter(out, h), in)
	if err != nil {
		out.Close()
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != digest {
		out.Close()
		return fmt.Errorf("it changed while it was added: %w", digestMismatch(got, int(n)))
	}
	return s.finish(out)
}

// hashFile returns digest and size of a file, and makes it durable if asked.
func (s *Store) hashFile(ctx context.Context, path string, sync bool) (string, int64, error) {
	f, err := s.fs.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err := copyChunks(ctx, h, f)
	if err != nil {
		return "", 0, err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return "", 0, fmt.Errorf("sync %s: %w", path, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

func copyChunks(ctx context.Context, to io.Writer, from io.Reader) (int64, error) {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := from.Read(*buf)
		if n > 0 {
			if _, werr := to.Write((*buf)[:n]); werr != nil {
				return total, werr
			}
			total += int64(n)
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func sha256Hex(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func digestMismatch(got string, size int) error {
	return fmt.Errorf("its SHA-256 is %s (%d bytes), not its name", got, size)
}

func (s *Store) objectPath(digest string) string { return s.path("objects", digest[:2], digest) }
