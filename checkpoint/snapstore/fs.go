// Package snapstore keeps snapshots in a directory: immutable objects named by their SHA-256, and one
// manifest per complete snapshot, written last. Checkpoints expire by retention, savepoints never do;
// each names all its objects, so that none needs another.
//
//	FORMAT               what this directory is and the version of its layout
//	LOCK                 held by the process that writes; holds its pid
//	HEAD                 newest complete snapshot, ids that may have been used, what was withdrawn
//	REGISTRY             which snapshots are savepoints, tags and notes
//	objects/ab/ab12...   immutable files
//	manifests/%08d.json  complete snapshots
//	inputs/%08d.input    what the sources gave after a snapshot that came with it
//	leases/PID-N.json    what other processes are reading
//	tmp/                 files being written; emptied when the store is opened
package snapstore

import "io"

// FS is the file system under a store. Errors wrap fs.ErrNotExist and fs.ErrExist where they apply.
// Nothing is durable before Sync (contents) and SyncDir (names).
type FS interface {
	// Mkdir makes one directory; one that is there is no error.
	Mkdir(dir string) error
	// Open is for reading.
	Open(path string) (File, error)
	// Create makes an empty file for writing; a file of that name is replaced.
	Create(path string) (File, error)
	// Link gives a file a second name, which must be free.
	Link(from, to string) error
	// Rename replaces what is at to.
	Rename(from, to string) error
	Remove(path string) error
	Stat(path string) (Entry, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(dir string) ([]Entry, error)
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a process, or returns a *LockedError. Closing releases it.
	Lock(path string) (io.Closer, error)
}

// File is an open file.
type File interface {
	io.Reader
	io.Writer
	io.Closer
	// Sync makes the contents durable. After an error they may be lost for good: write anew.
	Sync() error
}

// Entry describes a file.
type Entry struct {
	Name string
	Size int64
	Dir  bool
}
