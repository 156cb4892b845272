package backend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// file is a run file in use: restored from a snapshot, or made here and given to the snapshot store by
// the first cut that holds it. The last reference unmaps it and removes the local file; the store's
// object is the store's to delete.
type file struct {
	run  *runs.Run
	info runs.Info
	fs   state.FS
	refs atomic.Int32

	mu     sync.Mutex
	local  string // path of the file made here; "": none
	synced bool
	digest string // name in the snapshot store; "": not there yet
	object string // path in it
	size   int64
}

// openLocal maps a run file that was just written here.
func openLocal(fs state.FS, info runs.Info, synced bool) (*file, error) {
	r, err := runs.Open(fs, info.Path, false)
	if err != nil {
		return nil, err
	}
	f := &file{run: r, info: info, fs: fs, local: info.Path, synced: synced, size: info.Size}
	f.refs.Store(1)
	return f, nil
}

// openObject maps an object of the snapshot store and compares it with what the snapshot says.
func openObject(ctx context.Context, fs state.FS, objects state.Objects, r state.Run) (*file, error) {
	path, err := objects.Path(ctx, r.Object)
	if err != nil {
		return nil, fmt.Errorf("state: run %s: %w", r.Object, err)
	}
	run, err := runs.Open(fs, path, false)
	if err != nil {
		return nil, err
	}
	info := run.Info()
	if info.Size != r.Size || info.Count != r.Count {
		_ = run.Close() // the other error says more
		return nil, fmt.Errorf("%w: run file %s: %d entries in %d bytes, the snapshot says %d in %d",
			state.ErrCorrupt, path, info.Count, info.Size, r.Count, r.Size)
	}
	f := &file{run: run, info: info, fs: fs, digest: r.Object, object: path, size: r.Size}
	f.refs.Store(1)
	return f, nil
}

func (f *file) ref() *file {
	f.refs.Add(1)
	return f
}

func (f *file) release() {
	if f.refs.Add(-1) > 0 {
		return
	}
	_ = f.run.Close() // munmap of what was mapped
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.local != "" {
		_ = f.fs.Remove(f.local) // left over at worst: the folder is emptied when a task starts
	}
}

// publish gives the file to the snapshot store, or tells it that the object is still in use.
func (f *file) publish(ctx context.Context, objects state.Objects) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.digest != "" {
		if _, _, err := objects.AddFile(ctx, f.object); err == nil || f.local == "" {
			return state.StorageError("keep in the snapshot store", f.object, err)
		}
	}
	if !f.synced {
		if err := f.fs.SyncFile(f.local); err != nil {
			return state.StorageError("sync", f.local, err)
		}
		f.synced = true
	}
	digest, _, err := objects.AddFile(ctx, f.local) // its size is known; the task reads that without the lock
	if err != nil {
		return state.StorageError("add to the snapshot store", f.local, err)
	}
	object, err := objects.Path(ctx, digest)
	if err != nil {
		return fmt.Errorf("state: run %s: %w", digest, err)
	}
	f.digest, f.object = digest, object
	return nil
}
