package coldpebble

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/state"
)

func open(t *testing.T, o Options) *Env {
	t.Helper()
	e := New(filepath.Join(t.TempDir(), "cold"), o)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func space(t *testing.T, e *Env) *Space {
	t.Helper()
	s, err := e.Space()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fill(s *Space, from, n, size int) error {
	b := s.Batch()
	for i := from; i < from+n; i++ {
		if err := b.Set(fmt.Appendf(nil, "k%07d", i), bytes.Repeat([]byte{byte(i)}, size)); err != nil {
			b.Drop()
			return err
		}
	}
	return b.Commit()
}

func count(t *testing.T, s *Space, lo, hi string) (n int) {
	t.Helper()
	it, err := s.Iter([]byte(lo), []byte(hi))
	if err != nil {
		t.Fatal(err)
	}
	for ; it.Valid(); it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNothingIsOpenedBeforeItIsNeeded(t *testing.T) {
	e := open(t, Options{})
	if e.Opened() {
		t.Fatal("opened by New")
	}
	if _, err := os.Stat(e.dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("folder is there: %v", err)
	}
	space(t, e)
	if !e.Opened() {
		t.Fatal("not opened by Space")
	}
}

func TestSpacesDoNotMix(t *testing.T) {
	e := open(t, Options{})
	a, b := space(t, e), space(t, e)
	for _, s := range []*Space{a, b} {
		if err := fill(s, 0, 100, 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, a, "", "\xff"); n != 100 {
		t.Fatalf("%d entries in a, want 100", n)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := count(t, a, "", "\xff"); n != 0 {
		t.Fatalf("%d entries in a closed space", n)
	}
	if v, ok, err := b.Get(nil, []byte("k0000007")); !ok || err != nil || len(v) != 10 {
		t.Fatalf("b lost an entry: %q %v %v", v, ok, err)
	}
	batch := b.Batch()
	if err := errors.Join(batch.DeleteRange([]byte("k0000010"), []byte("k0000090")), batch.Set([]byte("k0000050"), nil), batch.Commit()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, b, "", "\xff"); n != 21 {
		t.Fatalf("%d entries after a range delete and a set behind it, want 21", n)
	}
	if v, ok, _ := b.Get(nil, []byte("k0000050")); !ok || len(v) != 0 {
		t.Fatal("an empty value is a value")
	}
	if e.OpenIters() != 0 {
		t.Fatalf("%d iterators open", e.OpenIters())
	}
}

// TestLeftOverFolderIsEmptied is C021: a folder of an earlier process is not read.
func TestLeftOverFolderIsEmptied(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cold")
	for range 2 {
		e := New(dir, Options{})
		s := space(t, e)
		if n := count(t, s, "", "\xff"); n != 0 {
			t.Fatalf("%d entries of the process before", n)
		}
		if err := errors.Join(fill(s, 0, 1000, 100), s.Flush()); err != nil {
			t.Fatal(err)
		}
		// no Close: the process was killed; the database holds no lock that outlives it
		if err := e.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCompactionsRunWithoutATicker: the scheduler starts them only when asked, and that is enough.
func TestCompactionsRunWithoutATicker(t *testing.T) {
	e := open(t, Options{MemTableBytes: 256 << 10})
	s := space(t, e)
	for i := range 40 {
		if err := errors.Join(fill(s, i%3*500, 1000, 200), s.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for e.db.Metrics().Levels[0].Sublevels > 4 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	m := e.db.Metrics()
	if m.Compact.Count == 0 || m.Levels[0].Sublevels > 4 {
		t.Fatalf("%d compactions, %d sublevels in L0", m.Compact.Count, m.Levels[0].Sublevels)
	}
}

// TestFullDiskFailsTheStoreNotTheProcess is C020: every later call says "storage full", a writer that
// waits for a flush is set free, and another Env is not touched.
func TestFullDiskFailsTheStoreNotTheProcess(t *testing.T) {
	var full atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &os.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
		}
		return nil
	}))
	e := New("/cold", Options{FS: fs, MemTableBytes: 64 << 10})
	other := open(t, Options{})
	s, o := space(t, e), space(t, other)
	if err := fill(s, 0, 1000, 100); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = fill(s, 1000+i*100, 100, 1000)
	}
	if !errors.Is(err, state.ErrStorageFull) {
		t.Fatalf("error %v, want %v", err, state.ErrStorageFull)
	}
	if _, _, err := s.Get(nil, []byte("k0000001")); !errors.Is(err, state.ErrStorageFull) {
		t.Fatalf("get after the failure: %v", err)
	}
	if err := fill(o, 0, 1000, 100); err != nil {
		t.Fatalf("the other store: %v", err)
	}
	start := time.Now()
	if err := e.Close(); err != nil {
		t.Logf("close: %v", err) // the folder could not be removed from a full disk
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Fatalf("close of a failed store took %v", d)
	}
}
