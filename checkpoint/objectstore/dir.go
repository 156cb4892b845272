package objectstore

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// DirOptions say which folder.
type DirOptions struct {
	// Path is made if it is not there; the folder above it has to be, so that a disk is missed that is not mounted.
	Path   string
	FS     snapstore.FS // nil: the machine's; it needs hard links
	Random io.Reader    // of names of half-written files: crypto/rand.Reader
}

// Dir is a store in a folder: a second disk, or one that machines share. A key is a file under its name; slashes
// are folders. A file is there whole or not at all.
type Dir struct {
	fs     snapstore.FS
	root   string
	random io.Reader
}

var _ Store = (*Dir)(nil)

// NewDir makes a store of options; nothing is asked of the disk.
func NewDir(o DirOptions) *Dir {
	if o.FS == nil {
		o.FS = snapstore.Disk{}
	}
	return &Dir{o.FS, filepath.Clean(o.Path), o.Random}
}

// halfMark is in the name of a file that is being written, behind its key. Whoever lists takes it for the key,
// so that what a dead process left goes when the key does.
const halfMark = ".half-"

func (d *Dir) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// Put implements Store.
func (d *Dir) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	path := d.path(key)
	if err := d.makeFolders(key); err != nil {
		return d.wrap("put", key, err)
	}
	nonce := make([]byte, 8)
	if _, err := io.ReadFull(d.random, nonce); err != nil {
		return d.wrap("put", key, err)
	}
	half := path + halfMark + hex.EncodeToString(nonce)
	err := d.write(ctx, half, io.NewSectionReader(body, 0, size))
	switch {
	case err != nil:
	case onlyNew: // a rename would replace what is there
		if err = d.fs.Link(half, path); err == nil {
			err = d.fs.SyncDir(filepath.Dir(path))
		}
		err = errors.Join(err, d.fs.Remove(half))
	default:
		if err = d.fs.Rename(half, path); err == nil {
			return d.wrap("put", key, d.fs.SyncDir(filepath.Dir(path)))
		}
	}
	if err != nil && !onlyNew {
		err = errors.Join(err, ignoreMissing(d.fs.Remove(half)))
	}
	return d.wrap("put", key, err)
}

// write makes a durable file.
func (d *Dir) write(ctx context.Context, path string, body io.Reader) error {
	f, err := d.fs.Create(path)
	if err != nil {
		return err
	}
	buf := make([]byte, 256<<10)
	for err == nil {
		var n int
		if n, err = io.ReadFull(body, buf); n > 0 {
			if _, werr := f.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// makeFolders makes the root and the folders of a key, each durable in the one above it.
func (d *Dir) makeFolders(key string) error {
	dir := d.root
	for _, next := range strings.Split(key, "/") {
		if _, err := d.fs.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			err := d.fs.Mkdir(dir)
			if err == nil {
				err = d.fs.SyncDir(filepath.Dir(dir))
			}
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: there is no folder %s; it is not made, so that a disk is missed that is not mounted", ErrRefused, filepath.Dir(dir))
			}
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
		dir = filepath.Join(dir, next)
	}
	return nil
}

// Get implements Store.
func (d *Dir) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.fs.Open(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, d.wrap("get", key, d.missing())
	}
	if err != nil {
		return nil, d.wrap("get", key, err)
	}
	return f, nil
}

// missing is ErrNotFound, or that the folder of the root itself is not there.
func (d *Dir) missing() error {
	if _, err := d.fs.Stat(filepath.Dir(d.root)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no folder %s", ErrRefused, filepath.Dir(d.root))
	}
	return ErrNotFound
}

// List implements Store.
func (d *Dir) List(ctx context.Context, prefix string) ([]Entry, error) {
	seen := map[string]int{}
	var out []Entry
	folder, _ := splitKey(prefix)
	err := d.walk(ctx, folder, func(key string, size int64) {
		key, _, half := strings.Cut(key, halfMark)
		if !strings.HasPrefix(key, prefix) {
			return
		}
		if i, ok := seen[key]; ok {
			if !half {
				out[i].Size = size
			}
			return
		}
		seen[key] = len(out)
		out = append(out, Entry{key, size})
	})
	if err != nil {
		return nil, d.wrap("list", prefix, err)
	}
	return out, nil
}

// walk tells of every file below a folder.
func (d *Dir) walk(ctx context.Context, folder string, found func(key string, size int64)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := d.fs.ReadDir(d.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		key := folder + e.Name
		if e.Dir {
			if err := d.walk(ctx, key+"/", found); err != nil {
				return err
			}
			continue
		}
		found(key, e.Size)
	}
	return nil
}

// splitKey cuts a key behind its last slash.
func splitKey(key string) (folder, name string) {
	i := strings.LastIndexByte(key, '/') + 1
	return key[:i], key[i:]
}

// Delete implements Store.
func (d *Dir) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := d.fs.Remove(d.path(key))
	if !errors.Is(err, fs.ErrNotExist) {
		return d.wrap("delete", key, err)
	}
	folder, name := splitKey(key)
	list, err := d.fs.ReadDir(d.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name, name+halfMark) {
			err = errors.Join(err, ignoreMissing(d.fs.Remove(d.path(folder+e.Name))))
		}
	}
	return d.wrap("delete", key, err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *Dir) wrap(what, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		err = fmt.Errorf("%w: %w", ErrExists, err)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return fmt.Errorf("%s file://%s: %w", what, filepath.ToSlash(d.path(key)), err)
}
