package snapstore_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
)

// onDisk lists the digests of the object files.
func onDisk(t testing.TB, fs snapstore.FS, dir string) []string {
	t.Helper()
	var digests []string
	shards, err := fs.ReadDir(filepath.Join(dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	for _, shard := range shards {
		list, err := fs.ReadDir(filepath.Join(dir, "objects", shard.Name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			digests = append(digests, e.Name)
		}
	}
	slices.Sort(digests)
	return digests
}

// referenced lists the digests that the manifests name.
func referenced(t testing.TB, s *snapstore.Store) []string {
	t.Helper()
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var digests []string
	for _, info := range infos {
		m, err := s.Load(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		for ref := range m.Objects() {
			digests = append(digests, ref.Digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// TestC022RetentionKeepsWhatTheNewestNeeds: with one retained, an incremental checkpoint goes on using
// objects of dropped ones, and what nobody uses is gone.
func TestC022RetentionKeepsWhatTheNewestNeeds(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		base, old := put(t, s, "base"), put(t, s, "old delta")
		complete(t, s, manifest(1, old, base))
		s.Begin(2)
		delta := put(t, s, "delta")
		complete(t, s, manifest(2, delta, base))
		swept, err := s.Retain(ctx, 1)
		if err != nil || !slices.Equal(swept.Manifests, []checkpoint.ID{1}) {
			t.Fatalf("%+v %v", swept, err)
		}
		s.Close()
		s = open(t, fs, dir)
		if err := s.Verify(ctx, 2, true); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		if got, want := onDisk(t, fs, dir), referenced(t, s); !slices.Equal(got, want) || len(want) != 2 {
			t.Errorf("on disk %v, referenced %v", got, want)
		}
		if err := s.Delete(ctx, base.Object); !errors.Is(err, snapstore.ErrReferenced) {
			t.Errorf("delete of a referenced object: %v", err)
		}
	})
}

func TestObjectsInFlightAreSpared(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	var aborted string
	for id := checkpoint.ID(1); id <= 6; id++ {
		s.Begin(id)
		run := put(t, s, strings.Repeat("x", int(id)))
		if id == 3 { // aborted: its task goes on using the run, and names it in the next one
			aborted = run.Object
			s.Abandon(3)
			continue
		}
		complete(t, s, manifest(id, run))
		s.Begin(100)
		late := put(t, s, "in flight")
		if _, err := s.Retain(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Path(ctx, late.Object); err != nil {
			t.Fatalf("after %d: an object in flight was swept: %v", id, err)
		}
		s.Abandon(100)
		if _, err := s.Path(ctx, aborted); id == 4 && err != nil {
			t.Errorf("the aborted checkpoint's object was swept before a task could name it: %v", err)
		}
	}
	if _, err := s.Path(ctx, aborted); err == nil {
		t.Error("the orphan of the aborted checkpoint is never swept")
	}
	if n := len(onDisk(t, mem, "/store")); n > 3 {
		t.Errorf("%d objects are left: orphans pile up", n)
	}
}

// TestAddingAgainSavesFromTheSweep: an orphan that is added anew counts as new.
func TestAddingAgainSavesFromTheSweep(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	orphan := put(t, s, "orphan")
	s.Close()
	s = open(t, mem, "/store")
	if len(s.Skipped()) != 1 || !strings.Contains(s.Skipped()[0], "1 objects (6 bytes)") {
		t.Errorf("skipped: %q", s.Skipped())
	}
	put(t, s, "orphan")
	complete(t, s, manifest(1, put(t, s, "other")))
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Path(ctx, orphan.Object); err != nil {
		t.Error(err)
	}
}

func TestSweepRefusesBesideADamagedManifest(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	a := put(t, s, "a")
	for id := checkpoint.ID(1); id <= 3; id++ {
		complete(t, s, manifest(id, a))
	}
	s.Close()
	mem.WriteFile("/store/manifests/00000002.json", []byte("{"))
	s = open(t, mem, "/store")
	_, err := s.Retain(ctx, 2)
	if !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), "00000002.json") {
		t.Errorf("retain: %v", err)
	}
	if _, err := s.Sweep(ctx); !errors.Is(err, snapstore.ErrDamaged) {
		t.Errorf("sweep: %v", err)
	}
	if n := len(onDisk(t, mem, "/store")); n != 1 {
		t.Errorf("%d objects", n)
	}
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Errorf("the damaged one is not among those to keep: %v", err)
	}
}
