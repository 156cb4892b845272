package snapread

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// IsCounter says whether a list's entry is not an element but the number of the next one.
func (x *State) IsCounter(ukey []byte) bool { return x.Kind == "list" && len(ukey) > 0 && ukey[0] == 0 }

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

// Rewrite makes one run of what a state holds in a range of slots, each value as change gives it; ok is false
// where it holds nothing. change gets what it must not keep, and returns what is good until its next call.
func (x *State) Rewrite(ctx context.Context, slots state.Range, dir string, store state.Objects, change func(ukey, value []byte) ([]byte, error)) (run state.Run, ok bool, err error) {
	lo, hi := uint64(slots.Lo)<<48, uint64(slots.Hi)<<48-1
	r, err := x.Open(ctx, lo, hi)
	if err != nil {
		return run, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w, err := NewRunWriter(dir)
	if err != nil {
		return run, false, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	var buf []byte
	for c := r.Scan(ctx, lo, hi); ; ok = true {
		if !c.Next() {
			if err := c.Err(); err != nil || !ok {
				return run, false, err
			}
			run, err = w.Finish(ctx, store)
			return run, err == nil, err
		}
		e := c.Entry()
		v, err := change(e.UserKey, e.Value)
		if err != nil {
			return run, false, fmt.Errorf("key %q: %w", e.Key, err)
		}
		if buf = buf[:0]; x.TTL != nil {
			buf = binary.LittleEndian.AppendUint64(buf, uint64(e.Stamp))
		}
		buf = append(buf, v...)
		key := e.Key
		if x.Kind != "value" {
			key = CompositeKey(e.Key, e.UserKey)
		}
		if err := w.Add(e.Hash, key, buf, false); err != nil {
			return run, false, err
		}
	}
}
