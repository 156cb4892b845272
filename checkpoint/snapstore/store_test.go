package snapstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/state"
)

var ctx = context.Background()

func open(t testing.TB, fs snapstore.FS, dir string) *snapstore.Store {
	t.Helper()
	s, err := snapstore.Open(dir, snapstore.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t testing.TB, s *snapstore.Store, text string) state.Run {
	t.Helper()
	digest, size, err := s.Put(ctx, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return state.Run{Object: digest, Size: size, Count: 1}
}

// manifest is a checkpoint of one task whose state is made of runs.
func manifest(id checkpoint.ID, runs ...state.Run) *checkpoint.Manifest {
	return &checkpoint.Manifest{
		Format: checkpoint.FormatVersion, ID: id, Job: "j", Slots: state.Slots,
		Tasks: []checkpoint.TaskSnapshot{{Vertex: "count", Parallelism: 1,
			Operators: []checkpoint.OperatorSnapshot{{Operator: "count", Keyed: &state.Snapshot{
				Range:  state.TaskRange(0, 1),
				States: []state.StateSnapshot{{Name: "n", Kind: "value", Runs: runs}}}}}}},
	}
}

func complete(t testing.TB, s *snapstore.Store, m *checkpoint.Manifest) {
	t.Helper()
	if err := s.WriteManifest(ctx, m); err != nil {
		t.Fatal(err)
	}
}

// stores are the two file systems that the same tests run on.
func stores(t *testing.T, test func(t *testing.T, fs snapstore.FS, dir string)) {
	t.Run("disk", func(t *testing.T) { test(t, snapstore.Disk{}, filepath.Join(t.TempDir(), "a", "store")) })
	t.Run("memory", func(t *testing.T) { test(t, faultfs.New(), "/a/store") })
}

func writeFile(t *testing.T, fs snapstore.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestAddedFilesAreFoundByDigest(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		local := filepath.Join(filepath.Dir(dir), "run")
		data := bytes.Repeat([]byte("millrace"), 100_000)
		writeFile(t, fs, local, data)
		digest, size, err := s.AddFile(ctx, local)
		if err != nil || size != int64(len(data)) {
			t.Fatalf("%d %v", size, err)
		}
		again, _, err := s.AddFile(ctx, local)
		if err != nil || again != digest {
			t.Errorf("added again: %s %v", again, err)
		}
		if err := fs.Remove(local); err != nil {
			t.Fatal(err)
		}
		path, err := s.Path(ctx, digest)
		if err != nil || filepath.Base(path) != digest {
			t.Fatalf("%s %v", path, err)
		}
		if byPath, n, err := s.AddFile(ctx, path); err != nil || byPath != digest || n != size {
			t.Errorf("by its own path: %s %d %v", byPath, n, err)
		}
		if got, err := s.Read(ctx, digest); err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		if sum, n, err := s.Put(ctx, data); err != nil || sum != digest || n != size {
			t.Errorf("put: %s %d %v", sum, n, err)
		}
	})
}

func TestFileOfAnotherDeviceIsCopied(t *testing.T) {
	mem := faultfs.New()
	mem.WriteFile("/other/run", []byte("some bytes"))
	rules := faultfs.NewRules(&faultfs.Rule{Op: faultfs.OpLink, Times: -1, Err: syscall.EXDEV})
	s := open(t, faultfs.Inject(mem, rules.Hook), "/store")
	digest, _, err := s.AddFile(ctx, "/other/run")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(ctx, digest); err != nil || string(got) != "some bytes" {
		t.Errorf("%q %v", got, err)
	}
	if rules.Fired() == 0 {
		t.Error("no link was tried")
	}
	if list, _ := mem.ReadDir("/store/tmp"); len(list) != 0 {
		t.Errorf("left in tmp: %v", list)
	}
}

func TestSecondWriterIsRefusedWithPid(t *testing.T) {
	dir := t.TempDir()
	open(t, nil, dir)
	_, err := snapstore.Open(dir, snapstore.Options{})
	var locked *snapstore.LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), fmt.Sprintf("locked by process %d", os.Getpid())) {
		t.Errorf("message: %v", err)
	}
	reader, err := snapstore.Open(dir, snapstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := reader.Put(ctx, nil); !errors.Is(err, snapstore.ErrReadOnly) {
		t.Errorf("put by a reader: %v", err)
	}
}

func TestLockEndsWithClose(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		open(t, fs, dir)
	})
}

func TestOtherDirectoriesAndFormatsAreRefused(t *testing.T) {
	cases := []struct {
		name, file, text string
		want             error
	}{
		{"someone's files", "/d/holiday.jpg", "x", snapstore.ErrNotStore},
		{"newer", "/d/FORMAT", "millrace snapshot store, format 9\n", snapstore.ErrNewerFormat},
		{"altered", "/d/FORMAT", "millrace snapshot stare, format 1\n", snapstore.ErrDamaged},
		{"cut", "/d/FORMAT", "millrace snapshot store, format 1", snapstore.ErrDamaged},
		{"empty", "/d/FORMAT", "", snapstore.ErrDamaged},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mem := faultfs.New()
			mem.WriteFile(c.file, []byte(c.text))
			if _, err := snapstore.Open("/d", snapstore.Options{FS: mem}); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestManifestsSurviveReopening(t *testing.T) {
	stores(t, func(t *testing.T, fs snapstore.FS, dir string) {
		s := open(t, fs, dir)
		if _, err := s.Latest(ctx); !errors.Is(err, snapstore.ErrNoCheckpoint) {
			t.Fatalf("empty store: %v", err)
		}
		a, b := put(t, s, "a"), put(t, s, "b")
		complete(t, s, manifest(3, a))
		complete(t, s, manifest(5, a, b))
		s.Close()
		s = open(t, fs, dir)
		m, err := s.Latest(ctx)
		if err != nil || m.ID != 5 {
			t.Fatalf("%v %v", m, err)
		}
		infos, err := s.List()
		if err != nil || len(infos) != 2 || infos[0].ID != 3 || infos[1].Objects != 2 || infos[1].Bytes != 2 {
			t.Errorf("%+v %v", infos, err)
		}
		if err := s.Verify(ctx, 3, true); err != nil {
			t.Error(err)
		}
		if err := s.WriteManifest(ctx, manifest(5, a)); err == nil {
			t.Error("an id was used twice")
		}
	})
}

func TestManifestWithoutItsObjectsIsRefused(t *testing.T) {
	s := open(t, faultfs.New(), "/store")
	missing := state.Run{Object: strings.Repeat("0", 64), Size: 3}
	err := s.WriteManifest(ctx, manifest(1, missing))
	if err == nil || !strings.Contains(err.Error(), missing.Object) || !strings.Contains(err.Error(), "state n, run 0") {
		t.Errorf("got %v", err)
	}
	short := put(t, s, "four")
	short.Size = 3
	if err := s.WriteManifest(ctx, manifest(1, short)); err == nil || !strings.Contains(err.Error(), "has 4 bytes, not 3") {
		t.Errorf("got %v", err)
	}
}

func TestIdsAreNeverUsedAgain(t *testing.T) {
	mem := faultfs.New()
	s := open(t, mem, "/store")
	if first, err := s.Reserve(16); err != nil || first != 1 {
		t.Fatalf("%d %v", first, err)
	}
	complete(t, s, manifest(2, put(t, s, "a")))
	s.Close()
	s = open(t, mem, "/store")
	if first, err := s.Reserve(1); err != nil || first != 17 {
		t.Errorf("after a restart: %d %v", first, err)
	}
	s.Close()
	if err := mem.Remove("/store/HEAD"); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem, "/store")
	if first, err := s.Reserve(1); err != nil || first != 1003 {
		t.Errorf("without HEAD: %d %v", first, err)
	}
}

func TestDamagedNewestStopsAndOffersThePrevious(t *testing.T) {
	setup := func(t *testing.T) (*faultfs.Mem, *snapstore.Store, state.Run) {
		mem := faultfs.New()
		s := open(t, mem, "/store")
		a, b := put(t, s, "aaaa"), put(t, s, "bbbb")
		complete(t, s, manifest(1, a))
		complete(t, s, manifest(2, a, b))
		return mem, s, b
	}
	check := func(t *testing.T, s *snapstore.Store, name string) {
		_, err := s.Latest(ctx)
		var damaged *snapstore.DamagedCheckpointError
		if !errors.As(err, &damaged) || damaged.ID != 2 || damaged.Previous != 1 {
			t.Fatalf("got %v", err)
		}
		if !strings.Contains(err.Error(), "--restore 1") || !strings.Contains(err.Error(), name) {
			t.Errorf("message: %v", err)
		}
		if _, err := s.Withdraw(1); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Latest(ctx); err != nil || m.ID != 1 {
			t.Errorf("after withdrawing: %v %v", m, err)
		}
	}
	t.Run("object cut by a byte", func(t *testing.T) {
		mem, s, b := setup(t)
		path, _ := s.Path(ctx, b.Object)
		mem.WriteFile(path, []byte("bbb"))
		check(t, s, b.Object)
	})
	t.Run("object gone", func(t *testing.T) {
		mem, s, b := setup(t)
		path, _ := s.Path(ctx, b.Object)
		mem.Remove(path)
		check(t, s, b.Object)
	})
	t.Run("manifest gone", func(t *testing.T) {
		mem, s, _ := setup(t)
		mem.Remove("/store/manifests/00000002.json")
		check(t, s, "00000002.json")
	})
	t.Run("older manifest in its place", func(t *testing.T) {
		mem, s, _ := setup(t)
		mem.Link("/store/manifests/00000001.json", "/store/tmp/x")
		mem.Rename("/store/tmp/x", "/store/manifests/00000002.json")
		check(t, s, "00000002.json")
	})
}
