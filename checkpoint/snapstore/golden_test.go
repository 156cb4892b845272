package snapstore_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

var rewrite = flag.Bool("rewrite", false, "write the expected summaries under testdata/golden anew")

// TestGoldenStoresAreReadForEver opens stores that earlier builds wrote (v1: before savepoints; v2: with
// them, modules and tags), of a job with keyed values, timers and windows in two tasks: everything in them is
// read, verified to the last byte and summed up as it was, and a job can go on in them.
func TestGoldenStoresAreReadForEver(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			original := filepath.Join("testdata", "golden", version)
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(original)); err != nil {
				t.Fatal(err)
			}
			s := open(t, nil, dir)
			got := summary(t, s)
			golden := original + ".txt"
			if *rewrite {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%v; it reads\n%s\nwant\n%s", err, got, want)
			}
			m, err := s.Latest(ctx)
			if err != nil {
				t.Fatal(err)
			}
			next := *m
			next.Format, next.Kind, next.Parent = checkpoint.FormatVersion, checkpoint.KindCheckpoint, m.ID
			if next.ID, err = s.Reserve(1); err != nil || next.ID <= m.ID {
				t.Fatal(next.ID, err)
			}
			complete(t, s, &next)
			if _, err := s.Retain(ctx, 1); err != nil {
				t.Fatal(err)
			}
			exactly(t, snapstore.Disk{}, dir, s)
		})
	}
}

// summary tells everything that a store's snapshots hold.
func summary(t *testing.T, s *snapstore.Store) []byte {
	var b bytes.Buffer
	infos, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if err := s.Verify(ctx, i.ID, true); err != nil {
			t.Fatal(err)
		}
		shown, err := s.Show(ctx, i.ID)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%v %d of %s, parent %d, newest %v, tags %v, note %q, %d tasks, %d objects, %d bytes\n", i.Kind, i.ID, i.Job, i.Parent,
			i.Newest, i.Tags, i.Note, i.Tasks, i.Objects, i.Bytes)
		for _, o := range shown.Operators {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "  %s\n", text)
		}
	}
	return b.Bytes()
}

// TestGoldenStoresAreWhole: no file of them is missing from the repository, and none is left over.
func TestGoldenStoresAreWhole(t *testing.T) {
	for version, want := range map[string]int{"v1": 21, "v2": 21} {
		n := 0
		err := fs.WalkDir(os.DirFS(filepath.Join("testdata", "golden", version)), ".", func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return err
		})
		if err != nil || n != want {
			t.Errorf("%s: %d files, want %d; %v", version, n, want, err)
		}
	}
}
