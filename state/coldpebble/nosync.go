package coldpebble

import "github.com/cockroachdb/pebble/v2/vfs"

// nosync is a file system whose files are never synced: what is lost with the process is rebuilt anyway.
type nosync struct{ vfs.FS }

type nosyncFile struct{ vfs.File }

func (f nosyncFile) Sync() error     { return nil }
func (f nosyncFile) SyncData() error { return nil }

func (f nosyncFile) SyncTo(int64) (fullSync bool, err error) { return false, nil }

func wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return nosyncFile{f}, nil
}

// Create implements vfs.FS.
func (n nosync) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(n.FS.Create(name, c))
}

// OpenReadWrite implements vfs.FS.
func (n nosync) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return wrap(n.FS.OpenReadWrite(name, c, opts...))
}

// OpenDir implements vfs.FS.
func (n nosync) OpenDir(name string) (vfs.File, error) { return wrap(n.FS.OpenDir(name)) }

// ReuseForWrite implements vfs.FS.
func (n nosync) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(n.FS.ReuseForWrite(from, to, c))
}

// Unwrap implements vfs.FS.
func (n nosync) Unwrap() vfs.FS { return n.FS }
