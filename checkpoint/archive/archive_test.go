package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/checkpointtest"
	"github.com/millrace-io/millrace/checkpoint/seal"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore/faultfs"
	"github.com/millrace-io/millrace/state"
)

var ctx = context.Background()

func open(t testing.TB, disk snapstore.FS, dir string) *snapstore.Store {
	t.Helper()
	s, err := snapstore.Open(dir, snapstore.Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// fill makes a snapshot with a pipeline, a module and some runs.
func fill(t testing.TB, s *snapstore.Store, id checkpoint.ID, sizes ...int) {
	t.Helper()
	put := func(data []byte) (string, int64) {
		digest, size, err := s.Put(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		return digest, size
	}
	rng := rand.New(rand.NewPCG(uint64(id), 3))
	var runs []state.Run
	for _, n := range sizes {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rng.IntN(5))
		}
		digest, size := put(data)
		runs = append(runs, state.Run{Object: digest, Size: size, Count: 1})
	}
	m := checkpointtest.Manifest(id, "j", checkpoint.OperatorSnapshot{Operator: "op", Keyed: &state.Snapshot{
		Range: state.TaskRange(0, 1), States: []state.StateSnapshot{{Name: "n", Kind: "value", Runs: runs}}}})
	m.Pipeline, _ = put([]byte("name: j\n"))
	module, size := put([]byte("\x00asm"))
	m.Modules = []checkpoint.ModuleRef{{Operator: "op", Digest: module, Size: size}}
	if err := s.WriteManifest(ctx, m); err != nil {
		t.Fatal(err)
	}
}

func export(t testing.TB, s *snapstore.Store, id checkpoint.ID, sealing archive.Sealing) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := archive.Export(ctx, &b, s, id, sealing); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sealing(t testing.TB, tenant string, fills ...byte) archive.Sealing {
	t.Helper()
	s := archive.Sealing{Tenant: tenant, Random: rand.NewChaCha8([32]byte{9})}
	for _, b := range fills {
		k, err := seal.NewKey(bytes.Repeat([]byte{b}, 32))
		if err != nil {
			t.Fatal(err)
		}
		s.Keys = append(s.Keys, k)
	}
	return s
}

func TestExportedSnapshotRunsElsewhere(t *testing.T) {
	for name, sealing := range map[string]archive.Sealing{"plain": {}, "sealed": sealing(t, "acme", 1)} {
		t.Run(name, func(t *testing.T) {
			mem := faultfs.New()
			s := open(t, mem, "/a")
			fill(t, s, 7, 10, 300_000, 0, 70_000)
			reader, err := snapstore.Open("/a", snapstore.Options{FS: mem, ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			file := export(t, reader, 7, sealing)
			if name == "plain" && len(file) > 200_000 {
				t.Errorf("%d bytes: it is not compressed", len(file))
			}
			to := open(t, mem, "/b")
			id, err := archive.Import(ctx, bytes.NewReader(file), to, archive.ImportOptions{Sealing: sealing})
			if err != nil || id != 7 {
				t.Fatal(id, err)
			}
			if m, err := to.Latest(ctx); err != nil || m.ID != 7 || to.Verify(ctx, 7, true) != nil {
				t.Fatal(m, err)
			}
			a, _ := s.Manifest(7)
			b, _ := to.Manifest(7)
			if !bytes.Equal(a, b) {
				t.Error("the manifest is another")
			}
			if list, err := mem.ReadDir("/a/leases"); err != nil || len(list) != 0 {
				t.Errorf("leases left: %v %v", list, err)
			}
		})
	}
}

// TestExportIsDeterministic: the same bytes from another store, and from where it was imported.
func TestExportIsDeterministic(t *testing.T) {
	mem := faultfs.New()
	a, b, c := open(t, mem, "/a"), open(t, mem, "/b"), open(t, mem, "/c")
	fill(t, a, 7, 10, 300_000, 5000)
	fill(t, b, 7, 10, 300_000, 5000)
	first := export(t, a, 7, archive.Sealing{})
	if !bytes.Equal(first, export(t, b, 7, archive.Sealing{})) {
		t.Error("another store gives other bytes")
	}
	if _, err := archive.Import(ctx, bytes.NewReader(first), c, archive.ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, export(t, c, 7, archive.Sealing{})) {
		t.Error("an imported one gives other bytes")
	}
	// Common tools read it: one Zstandard frame and one to skip.
	z, err := zstd.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); err != nil || n < 300_000 {
		t.Error(n, err)
	}
}

// TestEveryChangedArchiveIsRefused: bits, lengths, and files that are something else. Nothing is imported.
func TestEveryChangedArchiveIsRefused(t *testing.T) {
	for name, sealing := range map[string]archive.Sealing{"plain": {}, "sealed": sealing(t, "acme", 1)} {
		t.Run(name, func(t *testing.T) {
			mem := faultfs.New()
			s := open(t, mem, "/a")
			fill(t, s, 7, 10, 3000)
			file := export(t, s, 7, sealing)
			to := open(t, mem, "/b")
			try := func(bad []byte, what string, args ...any) {
				t.Helper()
				if id, err := archive.Import(ctx, bytes.NewReader(bad), to, archive.ImportOptions{Sealing: sealing}); err == nil {
					t.Fatalf("%s: imported as %d", fmt.Sprintf(what, args...), id)
				}
			}
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range file {
				bad := bytes.Clone(file)
				bad[i] ^= 1 << rng.IntN(8)
				try(bad, "byte %d changed", i)
				try(file[:i], "cut to %d bytes", i)
			}
			try(append(bytes.Clone(file), 0), "a byte more")
			try(append(bytes.Clone(file), file...), "twice")
			if infos, err := to.List(); err != nil || len(infos) != 0 {
				t.Errorf("%v %v", infos, err)
			}
			// A sealed one of this size is one chunk, of which nothing is believed before all of it is.
			if swept, err := to.Sweep(ctx); err != nil || name == "plain" && swept.Objects == 0 {
				t.Errorf("nothing was half imported: %+v %v", swept, err)
			}
			if list, err := mem.ReadDir("/b/tmp"); err != nil || len(list) != 0 {
				t.Errorf("left in tmp: %v %v", list, err)
			}
		})
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	mem := faultfs.New()
	s, to := open(t, mem, "/a"), open(t, mem, "/b")
	fill(t, s, 7, 3000)
	plain, sealed := export(t, s, 7, archive.Sealing{}), export(t, s, 7, sealing(t, "acme", 1))
	imported := func(file []byte, sealing archive.Sealing) error {
		_, err := archive.Import(ctx, bytes.NewReader(file), to, archive.ImportOptions{Sealing: sealing})
		return err
	}
	cases := []struct {
		name string
		err  error
		is   error
		says string
	}{
		{"something else", imported([]byte("PK\x03\x04"), archive.Sealing{}), archive.ErrNotArchive, "PK"},
		{"empty", imported(nil, archive.Sealing{}), archive.ErrNotArchive, ""},
		{"not finished", imported(plain[:len(plain)-48], archive.Sealing{}), archive.ErrDamaged, "not finished"},
		{"no key", imported(sealed, archive.Sealing{}), archive.ErrSealed, "acme"},
		{"another key", imported(sealed, sealing(t, "acme", 2)), seal.ErrNoKey, ""},
		{"another tenant", imported(sealed, sealing(t, "other", 1)), seal.ErrContext, `tenant is "acme", expected "other"`},
	}
	for _, c := range cases {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
	if err := imported(sealed, sealing(t, "acme", 2, 1)); err != nil {
		t.Errorf("after the key was rotated: %v", err)
	}
	infos, _ := s.List()
	m, _ := s.Load(7)
	run := m.Tasks[0].Operators[0].Keyed.States[0].Runs[0].Object
	path := "/a/objects/" + run[:2] + "/" + run
	mem.WriteFile(path, bytes.Repeat([]byte{1}, 3000))
	if err := archive.Export(ctx, io.Discard, s, infos[0].ID, archive.Sealing{}); !errors.Is(err, snapstore.ErrDamaged) || !strings.Contains(err.Error(), run) {
		t.Errorf("export of a damaged object: %v", err)
	}
}

func TestTakenIdIsRefusedOrReplaced(t *testing.T) {
	mem := faultfs.New()
	s, to := open(t, mem, "/a"), open(t, mem, "/b")
	fill(t, s, 7, 3000)
	fill(t, to, 7, 4000)
	file := export(t, s, 7, archive.Sealing{})
	if _, err := archive.Import(ctx, bytes.NewReader(file), to, archive.ImportOptions{}); !errors.Is(err, snapstore.ErrIDTaken) {
		t.Errorf("got %v", err)
	}
	id, err := archive.Import(ctx, bytes.NewReader(file), to, archive.ImportOptions{Renumber: true})
	if err != nil || id == 7 || to.Verify(ctx, id, true) != nil {
		t.Error(id, err)
	}
	if m, err := to.Latest(ctx); err != nil || m.ID != 7 {
		t.Errorf("the line goes on from %v; %v", m, err)
	}
}

// TestCrashInExportAndImport crashes before each file operation: there is a whole file or none, a snapshot or
// none, and what is left is swept.
func TestCrashInExportAndImport(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 5))
		mem := faultfs.New()
		s := open(t, mem, "/a")
		fill(t, s, 7, 3000, 5, 100)
		s.Close()
		if err := mem.Mkdir("/out"); err != nil {
			t.Fatal(err)
		}
		if err := mem.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		keep := float64(seed) / 2
		disk := faultfs.Inject(mem, func(faultfs.Op, string) error {
			after := mem.CrashClone(rng, keep)
			if _, err := after.Stat("/out/j.snapshot"); err == nil {
				outcomes["file"]++
				if _, err := archive.ImportFile(ctx, after, "/out/j.snapshot", open(t, after, "/c"), archive.ImportOptions{}); err != nil {
					t.Fatalf("seed %d: there is a file, and it is not whole: %v", seed, err)
				}
			} else {
				outcomes["no file"]++
			}
			return nil
		})
		reader, err := snapstore.Open("/a", snapstore.Options{FS: mem, ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := archive.ExportFile(ctx, disk, "/out/j.snapshot", reader, 7, archive.Sealing{}); err != nil {
			t.Fatal(err)
		}
		if err := archive.ExportFile(ctx, disk, "/out/j.snapshot", reader, 7, archive.Sealing{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("over a file: %v", err)
		}
		b := open(t, faultfs.Inject(mem, func(faultfs.Op, string) error {
			to := open(t, mem.CrashClone(rng, keep), "/b")
			infos, err := to.List()
			if err != nil {
				t.Fatal(err)
			}
			outcomes[fmt.Sprint(len(infos), " imported")]++
			for _, i := range infos {
				if err := to.Verify(ctx, i.ID, true); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := to.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
			return nil
		}), "/b")
		if _, err := archive.ImportFile(ctx, mem, "/out/j.snapshot", b, archive.ImportOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"file", "no file", "0 imported", "1 imported"} {
		if outcomes[want] == 0 {
			t.Errorf("never seen: %s; %v", want, outcomes)
		}
	}
}

// TestFailedExportLeavesNothing: a full disk at any operation.
func TestFailedExportLeavesNothing(t *testing.T) {
	for nth := 1; ; nth++ {
		mem := faultfs.New()
		s := open(t, mem, "/a")
		fill(t, s, 7, 3000)
		if err := mem.Mkdir("/out"); err != nil {
			t.Fatal(err)
		}
		full := errors.New("no space")
		rules := faultfs.NewRules(&faultfs.Rule{Nth: nth, Err: full})
		err := archive.ExportFile(ctx, faultfs.Inject(mem, rules.Hook), "/out/x", s, 7, archive.Sealing{})
		if rules.Fired() == 0 {
			if nth < 8 || err != nil {
				t.Errorf("%d operations; %v", nth, err)
			}
			return
		}
		if err != nil && !errors.Is(err, full) {
			t.Errorf("operation %d: %v", nth, err)
		}
		list, _ := mem.ReadDir("/out")
		if i := slices.IndexFunc(list, func(e snapstore.Entry) bool { return strings.HasSuffix(e.Name, ".part") }); i >= 0 {
			t.Errorf("operation %d: %s is left", nth, list[i].Name)
		}
	}
}
