package snapstore_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/state"
)

// savepoint is a manifest of a savepoint of one task whose state is made of runs.
func savepoint(id checkpoint.ID, runs ...state.Run) *checkpoint.Manifest {
	m := manifest(id, runs...)
	m.Kind = checkpoint.KindSavepoint
	return m
}

// ids lists the snapshots there are.
func ids(t testing.TB, s *snapstore.Store) []checkpoint.ID {
	t.Helper()
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var all []checkpoint.ID
	for _, i := range infos {
		all = append(all, i.ID)
	}
	return all
}

func wantIDs(t testing.TB, s *snapstore.Store, want ...checkpoint.ID) {
	t.Helper()
	if got := ids(t, s); !slices.Equal(got, want) {
		t.Fatalf("snapshots %v, want %v", got, want)
	}
}

// exactly says that the disk holds what the snapshots name, and nothing else.
func exactly(t testing.TB, fs snapstore.FS, dir string, s *snapstore.Store) {
	t.Helper()
	if _, err := s.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if got, want := onDisk(t, fs, dir), referenced(t, s); !slices.Equal(got, want) {
		t.Fatalf("on disk %v, referenced %v", got, want)
	}
}

// TestC022SavepointsAndRetention: with one retained, checkpoint 1, savepoint 2, checkpoint 3 that goes on
// using objects of both, a kill, a restore of 3. Without the savepoint 3 still restores; without 3 the
// savepoint does; what nobody names is gone.
func TestC022SavepointsAndRetention(t *testing.T) {
	for _, drop := range []string{"savepoint", "checkpoint"} {
		stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
			s := open(t, fs, dir)
			base, old := put(t, s, "base"), put(t, s, "old delta")
			complete(t, s, manifest(1, old, base))
			s.Begin(2)
			own := put(t, s, "only in the savepoint")
			complete(t, s, savepoint(2, own, base))
			if _, err := s.Retain(ctx, 1); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s, 1, 2) // a savepoint replaces no checkpoint
			s.Begin(3)
			complete(t, s, manifest(3, put(t, s, "delta"), base))
			if _, err := s.Retain(ctx, 1); err != nil {
				t.Fatal(err)
			}
			wantIDs(t, s, 2, 3)
			s.Close() // the kill
			s = open(t, fs, dir)
			if m, err := s.Latest(ctx); err != nil || m.ID != 3 {
				t.Fatalf("%v %v", m, err)
			}
			if drop == "savepoint" {
				if _, err := s.DeleteSnapshot(ctx, 2); err != nil {
					t.Fatal(err)
				}
			} else if _, err := s.DeleteSnapshot(ctx, 3); !errors.Is(err, snapstore.ErrNewest) {
				t.Fatalf("the newest was deleted: %v", err)
			} else if gone, err := s.Withdraw(2); err != nil || !slices.Equal(gone, []checkpoint.ID{3}) {
				t.Fatal(gone, err)
			}
			s.Close()
			s = open(t, fs, dir)
			left := map[string]checkpoint.ID{"savepoint": 3, "checkpoint": 2}[drop]
			wantIDs(t, s, left)
			if m, err := s.Latest(ctx); err != nil || m.ID != left {
				t.Fatalf("%v %v", m, err)
			}
			if err := s.Verify(ctx, left, true); err != nil {
				t.Fatal(err)
			}
			exactly(t, fs, dir, s)
			if n := len(onDisk(t, fs, dir)); n != 2 {
				t.Errorf("%d objects", n)
			}
		})
	}
}

// TestRestartGoesOnFromASavepoint that is the newest: its barrier published output like any other.
func TestRestartGoesOnFromASavepoint(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	complete(t, s, manifest(1, put(t, s, "a")))
	complete(t, s, savepoint(2, put(t, s, "b")))
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, mem, "/store")
	if m, err := s.Latest(ctx); err != nil || m.ID != 2 || m.Kind != checkpoint.KindSavepoint {
		t.Fatalf("%+v %v", m, err)
	}
	wantIDs(t, s, 1, 2)
	s.Close()
	if err := mem.Remove("/store/manifests/00000002.json"); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem, "/store")
	var damaged *snapstore.DamagedCheckpointError
	if _, err := s.Latest(ctx); !errors.As(err, &damaged) || damaged.ID != 2 || damaged.Previous != 1 {
		t.Errorf("got %v", err)
	}
}

// TestManifestsAreChained: each names its parent's bytes.
func TestManifestsAreChained(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	complete(t, s, manifest(1, put(t, s, "a")))
	for id := checkpoint.ID(2); id <= 4; id++ {
		if id == 4 { // across a restart too
			s.Close()
			s = open(t, mem, "/store")
		}
		m := manifest(id, put(t, s, fmt.Sprint(id)))
		m.Parent = id - 1
		complete(t, s, m)
	}
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for i, info := range infos[1:] {
		m, err := s.Load(info.ID)
		if err != nil || m.Parent != infos[i].ID || m.ParentSHA != infos[i].SHA256 || m.ParentSHA == "" {
			t.Errorf("%d: parent %d %s, want %d %s; %v", m.ID, m.Parent, m.ParentSHA, infos[i].ID, infos[i].SHA256, err)
		}
	}
}

// TestWithdrawnSavepointsStay beside the line, and can become the start again.
func TestWithdrawnSavepointsStay(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	if _, err := s.Reserve(10); err != nil {
		t.Fatal(err)
	}
	for id := checkpoint.ID(1); id <= 3; id++ {
		complete(t, s, manifest(id, put(t, s, fmt.Sprint(id))))
	}
	complete(t, s, savepoint(4, put(t, s, "4")))
	complete(t, s, manifest(5, put(t, s, "5")))
	gone, err := s.Withdraw(2)
	if err != nil || !slices.Equal(gone, []checkpoint.ID{5, 4, 3}) {
		t.Fatal(gone, err)
	}
	latest := func(want checkpoint.ID) {
		t.Helper()
		for range 2 {
			if m, err := s.Latest(ctx); err != nil || m.ID != want {
				t.Fatalf("start from %v, want %d; %v", m, want, err)
			}
			if id, err := s.Resolve("latest"); err != nil || id != want {
				t.Fatalf("latest is %d, want %d; %v", id, want, err)
			}
			s.Close()
			s = open(t, mem, "/store")
		}
	}
	wantIDs(t, s, 1, 2, 4)
	latest(2)
	first, err := s.Reserve(1)
	if err != nil || first != 11 {
		t.Fatal(first, err)
	}
	complete(t, s, manifest(11, put(t, s, "11")))
	latest(11)
	if _, err := s.Withdraw(4); err != nil {
		t.Fatal(err)
	}
	latest(4)
	wantIDs(t, s, 1, 2, 4)
	exactly(t, mem, "/store", s)
}

func TestTagsKeepAndName(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	for id := checkpoint.ID(1); id <= 4; id++ {
		complete(t, s, manifest(id, put(t, s, fmt.Sprint(id))))
	}
	if err := errors.Join(s.Tag(2, "before-upgrade", false), s.Tag(2, "good", false), s.Note(2, "as agreed")); err != nil {
		t.Fatal(err)
	}
	if err := s.Tag(3, "good", false); !errors.Is(err, snapstore.ErrTagTaken) || !strings.Contains(err.Error(), "snapshot 2") {
		t.Errorf("a tag twice: %v", err)
	}
	if err := s.Tag(3, "good", true); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "12", "latest", "a b", "-x", ".x", strings.Repeat("x", 65), "\u00e4"} {
		if err := s.Tag(1, bad, false); !errors.Is(err, snapstore.ErrBadTag) {
			t.Errorf("tag %q: %v", bad, err)
		}
	}
	if err := s.Tag(9, "x", false); !errors.Is(err, snapstore.ErrNoCheckpoint) {
		t.Errorf("tag on nothing: %v", err)
	}
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, mem, "/store")
	wantIDs(t, s, 2, 3, 4)
	for ref, want := range map[string]checkpoint.ID{"good": 3, "before-upgrade": 2, "4": 4, "latest": 4} {
		if id, err := s.Resolve(ref); err != nil || id != want {
			t.Errorf("%s is %d, want %d; %v", ref, id, want, err)
		}
	}
	if _, err := s.Resolve("god"); !errors.Is(err, snapstore.ErrNoTag) || !strings.Contains(err.Error(), "before-upgrade, good") {
		t.Errorf("got %v", err)
	}
	reader, err := snapstore.Open("/store", snapstore.Options{FS: mem, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := reader.List()
	if err != nil || !infos[0].Kept || infos[0].Note != "as agreed" || !slices.Equal(infos[0].Tags, []string{"before-upgrade"}) || infos[2].Kept || !infos[2].Newest {
		t.Errorf("%+v %v", infos, err)
	}
	if _, err := s.DeleteSnapshot(ctx, 3); !errors.Is(err, snapstore.ErrTagged) {
		t.Errorf("delete: %v", err)
	}
	if had, err := s.Untag("good"); err != nil || had != 3 {
		t.Error(had, err)
	}
	if _, err := s.Untag("good"); !errors.Is(err, snapstore.ErrNoTag) {
		t.Errorf("untag twice: %v", err)
	}
	if _, err := s.Retain(ctx, 1); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, 2, 4)
}

// TestDamagedSavepointIsNotTakenForACheckpoint: retention does not drop it, a lost one is missed by name.
func TestDamagedSavepointIsNotTakenForACheckpoint(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	complete(t, s, savepoint(1, put(t, s, "1")))
	complete(t, s, manifest(2, put(t, s, "2")))
	complete(t, s, manifest(3, put(t, s, "3")))
	s.Close()
	mem.WriteFile("/store/manifests/00000001.json", []byte("{"))
	s = open(t, mem, "/store")
	if _, err := s.Retain(ctx, 1); !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), "00000001.json") {
		t.Errorf("retain: %v", err)
	}
	s.Close()
	if err := mem.Remove("/store/manifests/00000001.json"); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem, "/store")
	infos, err := s.List()
	if err != nil || len(infos) != 3 || !errors.Is(infos[0].Err, snapstore.ErrDamaged) || infos[0].Kind != checkpoint.KindSavepoint {
		t.Errorf("%+v %v", infos, err)
	}
	if _, err := s.DeleteSnapshot(ctx, 1); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, s, 2, 3)
}

// TestDamagedRegistryRemovesNothing: what is kept is not known any more, nor what was withdrawn.
func TestDamagedRegistryRemovesNothing(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	complete(t, s, manifest(1, put(t, s, "1")))
	complete(t, s, manifest(2, put(t, s, "2")))
	if err := s.Tag(1, "x", false); err != nil {
		t.Fatal(err)
	}
	s.Close()
	mem.WriteFile("/store/REGISTRY", []byte("millrace registry 1 sha256=00\n{}"))
	s = open(t, mem, "/store")
	for what, err := range map[string]error{
		"retain": func() error { _, err := s.Retain(ctx, 1); return err }(),
		"sweep":  func() error { _, err := s.Sweep(ctx); return err }(),
		"delete": func() error { _, err := s.DeleteSnapshot(ctx, 1); return err }(),
		"tag":    s.Tag(2, "y", false),
		"latest": func() error { _, err := s.Latest(ctx); return err }(),
	} {
		if !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), "REGISTRY") {
			t.Errorf("%s: %v", what, err)
		}
	}
	mem.WriteFile("/store/REGISTRY", []byte("millrace registry 7 sha256=00\n{}"))
	s.Close()
	s = open(t, mem, "/store")
	if _, err := s.Latest(ctx); !errors.Is(err, snapstore.ErrNewerFormat) {
		t.Errorf("newer: %v", err)
	}
}

func TestPruneByPolicy(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	shared := put(t, s, "shared")
	for id := checkpoint.ID(1); id <= 6; id++ {
		m := manifest(id, put(t, s, strings.Repeat("x", int(id))), shared)
		if id%2 == 0 {
			m.Kind = checkpoint.KindSavepoint
		}
		m.CreatedMS = int64(id) * 1000
		complete(t, s, m)
	}
	if err := s.Tag(1, "first", false); err != nil {
		t.Fatal(err)
	}
	policy := snapstore.Policy{Checkpoints: 0, Savepoints: 1, BeforeMS: 5000}
	plan, err := s.Prune(ctx, policy, true)
	if err != nil || plan.Objects != 3 || plan.Bytes != 2+3+4 {
		t.Fatalf("%+v %v", plan, err)
	}
	wantIDs(t, s, 1, 2, 3, 4, 5, 6)
	s.Close()
	s = open(t, mem, "/store")
	done, err := s.Prune(ctx, policy, false)
	if err != nil || done.Objects != plan.Objects || done.Bytes != plan.Bytes || len(done.Snapshots) != 3 {
		t.Fatalf("%+v %v", done, err)
	}
	wantIDs(t, s, 1, 5, 6)
	exactly(t, mem, "/store", s)
}

// TestReadersHoldWhatTheyRead: an open reader's lease keeps a snapshot and its objects from the retention of
// the running job, and a dead reader's does not.
func TestReadersHoldWhatTheyRead(t *testing.T) {
	for _, end := range []string{"released", "died", "ran out"} {
		stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
			now, alive := int64(1_000_000), true
			opts := snapstore.Options{FS: fs, NowMS: func() int64 { return now }, Alive: func(pid int) bool { return alive && pid == os.Getpid() }}
			s, err := snapstore.Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			round := func(id checkpoint.ID) {
				t.Helper()
				s.Begin(id)
				complete(t, s, manifest(id, put(t, s, fmt.Sprint(end, id))))
				if _, err := s.Retain(ctx, 1); err != nil {
					t.Fatal(err)
				}
			}
			round(1)
			opts.ReadOnly = true
			reader, err := snapstore.Open(dir, opts)
			if err != nil {
				t.Fatal(err)
			}
			lease, err := reader.Lease("export", 1)
			if err != nil {
				t.Fatal(err)
			}
			for id := checkpoint.ID(2); id <= 5; id++ {
				round(id)
			}
			wantIDs(t, s, 1, 5)
			if err := reader.Verify(ctx, 1, true); err != nil {
				t.Fatalf("under a lease: %v", err)
			}
			if _, err := s.DeleteSnapshot(ctx, 1); !errors.Is(err, snapstore.ErrLeased) || !strings.Contains(err.Error(), "export") {
				t.Errorf("delete: %v", err)
			}
			now += 9 * 60 * 1000
			if err := lease.Renew(); err != nil {
				t.Fatal(err)
			}
			now += 9 * 60 * 1000
			round(6)
			wantIDs(t, s, 1, 6)
			switch end {
			case "released":
				err = lease.Release()
			case "died":
				alive = false
			case "ran out":
				now += 2 * 60 * 1000
				if err := lease.Renew(); !errors.Is(err, snapstore.ErrLeaseLost) {
					t.Errorf("renewed too late: %v", err)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			round(7)
			wantIDs(t, s, 7)
			if list, err := fs.ReadDir(dir + "/leases"); err != nil || len(list) != 0 {
				t.Errorf("left: %v %v", list, err)
			}
		})
	}
}

// TestLeaseThatCannotBeReadStopsRemoval, by name.
func TestLeaseThatCannotBeReadStopsRemoval(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	complete(t, s, manifest(1, put(t, s, "1")))
	if l, err := s.Lease("test", 1); err != nil || l.Release() != nil {
		t.Fatal(err)
	}
	mem.WriteFile("/store/leases/1-1.json", []byte("{"))
	if _, err := s.Retain(ctx, 1); !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), "1-1.json") {
		t.Errorf("got %v", err)
	}
}

// TestLeaseTakenDuringARemoval: the reader's lease comes after the writer looked for leases and before it takes
// the manifest away: the objects stay, and the reader has the manifest.
func TestLeaseTakenDuringARemoval(t *testing.T) {
	mem := faultfs.New()
	var lease *snapstore.Lease
	reader := func() *snapstore.Store {
		s, err := snapstore.Open("/store", snapstore.Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(t, faultfs.Inject(mem, func(op faultfs.Op, path string) error {
		if op == faultfs.OpRemove && strings.HasSuffix(path, "manifests/00000001.json") && lease == nil {
			var err error
			if lease, err = reader().Lease("export", 1); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}), "/store")
	run := put(t, s, "only in the first")
	for id := checkpoint.ID(1); id <= 3; id++ {
		s.Begin(id)
		m := manifest(id, put(t, s, fmt.Sprint(id)))
		if id == 1 {
			m = manifest(1, run)
		}
		complete(t, s, m)
		if _, err := s.Retain(ctx, 1); err != nil {
			t.Fatal(err)
		}
	}
	if lease == nil {
		t.Fatal("nothing was removed")
	}
	if got, err := reader().Read(ctx, run.Object); err != nil || string(got) != "only in the first" {
		t.Fatalf("%q %v", got, err)
	}
	if m, err := checkpoint.Decode(lease.File(1)); err != nil || m.ID != 1 {
		t.Fatal(m, err)
	}
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}
	exactly(t, mem, "/store", s)
}
