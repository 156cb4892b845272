package checkpointtest

import (
	"context"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/state"
)

var mutations = flag.Int("mutations", 600, "damages done to a store in TestT7EveryDamageIsSeenAndNamed; half as many to mirrors, a third to archives, in clear and sealed each")

var ctx = context.Background()

// realStore is a store with three snapshots of shared and own objects, a pipeline and a module: a checkpoint, a
// savepoint and a tagged checkpoint.
func realStore(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := snapstore.Open(dir, snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put := func(data []byte) (string, int64) {
		digest, size, err := s.Put(ctx, data)
		if err != nil {
			t.Fatal(err)
		}
		return digest, size
	}
	pipeline, _ := put([]byte("name: j\n"))
	module, moduleSize := put([]byte("\x00asm\x01\x00\x00\x00"))
	rng := rand.New(rand.NewPCG(7, 7))
	var runs []state.Run
	for id := checkpoint.ID(1); id <= 3; id++ {
		for range 2 {
			data := make([]byte, 1+rng.IntN(3000))
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			digest, size := put(data)
			runs = append(runs, state.Run{Object: digest, Size: size, Count: 1})
		}
		m := Manifest(id, "j", checkpoint.OperatorSnapshot{Operator: "op", Keyed: &state.Snapshot{
			Range:  state.TaskRange(0, 1),
			States: []state.StateSnapshot{{Name: "n", Kind: "value", Runs: runs}}}})
		m.Pipeline = pipeline
		m.Modules = []checkpoint.ModuleRef{{Operator: "op", Digest: module, Size: moduleSize}}
		if id == 2 {
			m.Kind = checkpoint.KindSavepoint
		}
		m.Parent = id - 1
		if err := s.WriteManifest(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Tag(3, "tagged", false); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestT7EveryDamageIsSeenAndNamed(t *testing.T) {
	original := realStore(t)
	if err := Check(ctx, original); err != nil {
		t.Fatalf("an intact store: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(*mutations) {
		m, err := Mutate(dir, rand.New(rand.NewPCG(seed, 7)))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		err = Check(ctx, dir)
		if err == nil {
			t.Errorf("seed %d: not seen: %v", seed, m)
		} else if !m.NamedBy(err) {
			t.Errorf("seed %d: %v: the error does not name it: %v", seed, m, err)
		}
		repair(t, original, dir, m)
	}
}

// repair copies the damaged files anew.
func repair(t *testing.T, original, dir string, m Mutation) {
	err := fs.WalkDir(os.DirFS(original), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains(m.Files, d.Name()) {
			return err
		}
		data, err := os.ReadFile(filepath.Join(original, path))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, path), data, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
