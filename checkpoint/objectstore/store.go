// Package objectstore is what a mirror of snapshots needs of an object store, with an implementation for
// S3-compatible ones and one in memory.
package objectstore

import (
	"context"
	"errors"
	"io"
)

// Errors for callers to tell apart. Any other error leaves open whether the operation happened.
var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("no such object")
	// ErrExists: the key is there already.
	ErrExists = errors.New("the object exists already")
	// ErrRefused: the store will not do it, however often it is asked: credentials, bucket, a bad request.
	ErrRefused = errors.New("the object store refuses")
)

// Store is an object store whose reads by key see all completed writes. Lists may lag.
type Store interface {
	// Put stores size bytes, at least one, under a key. onlyNew: where the key is there, nothing changes and the error is
	// ErrExists, also if an earlier attempt of this very call succeeded without its answer arriving.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error
	// Get opens an object. A body that ends early fails with an error other than io.EOF. Errors: ErrNotFound.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// List yields keys with a prefix in no certain order. It may lack what was written a while ago and have
	// what was deleted.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Delete removes a key; one that is not there is no error. It may take effect long after it failed.
	Delete(ctx context.Context, key string) error
}

// Entry is one key of a list.
type Entry struct {
	Key  string
	Size int64
}
