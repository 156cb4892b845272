package snapread

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/ordered"
	"github.com/millrace-io/millrace/state/runs"
)

// What entries are kept under in runs, besides their hash: a value under its key, all others under these.

// CompositeKey is where an entry of a map or list is.
func CompositeKey(key, ukey []byte) []byte { return append(state.AppendEscaped(nil, key), ukey...) }

// ClearedKey is where a tombstone removes everything a key has in older runs of a map or list.
func ClearedKey(key []byte) []byte { return state.ClearMarker(state.AppendEscaped(nil, key)) }

// TimerKey is where a timer is.
func TimerKey(key []byte, t Timer) []byte {
	return ordered.AppendTimer(nil, t.Domain, state.Key{Bytes: key}, t.Name, t.At)[state.HashBytes:]
}

// CompareKeys orders entries as runs have them.
func CompareKeys(hashA uint64, a []byte, hashB uint64, b []byte) int {
	if c := cmp.Compare(hashA, hashB); c != 0 {
		return c
	}
	return bytes.Compare(a, b)
}

// RunWriter makes one run and gives it to a store.
type RunWriter struct {
	w    *runs.Writer
	path string
	done bool
}

// NewRunWriter makes one whose file is in a folder, until Close. Close it in any case.
func NewRunWriter(dir string) (*RunWriter, error) {
	f, err := os.CreateTemp(dir, "*.run")
	if err != nil {
		return nil, state.StorageError("create", dir, err)
	}
	w := &RunWriter{path: f.Name()}
	if err := f.Close(); err != nil {
		return nil, state.StorageError("create", w.path, err)
	}
	w.w, err = runs.NewWriter(state.OS{}, w.path)
	return w, err
}

// Add appends an entry, in ascending order of CompareKeys.
func (w *RunWriter) Add(hash uint64, key, value []byte, removed bool) error {
	return w.w.Add(hash, key, value, removed)
}

// Finish makes the run durable and an object of the store.
func (w *RunWriter) Finish(ctx context.Context, store state.Objects) (state.Run, error) {
	info, err := w.w.Finish()
	if err != nil {
		return state.Run{}, err
	}
	w.done = true
	digest, size, err := store.AddFile(ctx, w.path)
	return state.Run{Object: digest, Size: size, Lo: info.Lo, Hi: info.Hi, Count: info.Count}, err
}

// Close removes the file. The store has its own name for what it took.
func (w *RunWriter) Close() error {
	if !w.done {
		w.w.Abort()
	}
	if err := os.Remove(w.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return state.StorageError("remove", w.path, err)
	}
	return nil
}
