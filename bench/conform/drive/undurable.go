package drive

import (
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
)

// undurable is the disk without waiting for it: nothing here need survive the process.
type undurable struct{ state.OS }

func (undurable) SyncFile(string) error { return nil }
func (undurable) SyncDir(string) error  { return nil }

func (d undurable) Create(path string) (state.File, error) {
	f, err := d.OS.Create(path)
	return undurableFile{f}, err
}

type undurableFile struct{ state.File }

func (undurableFile) Sync() error { return nil }

// undurableStore is the same for the snapshot store.
type undurableStore struct{ snapstore.Disk }

func (undurableStore) SyncDir(string) error { return nil }

func (d undurableStore) Open(path string) (snapstore.File, error) {
	f, err := d.Disk.Open(path)
	return undurableObject{f}, err
}

func (d undurableStore) Create(path string) (snapstore.File, error) {
	f, err := d.Disk.Create(path)
	return undurableObject{f}, err
}

type undurableObject struct{ snapstore.File }

func (undurableObject) Sync() error { return nil }
