package modcheck

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators/guestop"
)

// compile is a module on the engine of the test.
func compile(t *testing.T, wasm []byte, o engine.Options) guestop.Module {
	t.Helper()
	e, err := engine.New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Compile(context.Background(), wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.(*engine.Module).Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// committed are all modules of the repository.
func committed(t *testing.T) (paths []string) {
	for _, glob := range []string{"../../guests/cases/*/*.wasm", "../../examples/*/*.wasm"} {
		found, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 20 {
		t.Fatalf("only %d modules found: %v", len(paths), paths)
	}
	return paths
}

// refusing are functions that take no synthetic record: other tests have records for them.
var refusing = []string{"effects", "timers", "deadline", "migrate_seen_0_1"}

// TestCommittedModulesKeepNothing: every guest of the repository passes, each of its functions tried. The kitchen is
// left out: it counts in a variable for who asks for it.
func TestCommittedModulesKeepNothing(t *testing.T) {
	for _, path := range committed(t) {
		if strings.Contains(path, "/kitchen/") {
			continue
		}
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := compile(t, wasm, engine.Options{CacheDir: "../../.build/engine"})
			began := time.Now()
			r, err := Module(context.Background(), m, whole)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			for i := range r.Functions {
				f := &r.Functions[i]
				if (f.NotChecked != "") != slices.Contains(refusing, f.Name) || len(f.Notes) > 0 {
					t.Errorf("%v %v", f, f.Notes)
				}
			}
			if (r.Exempt != "") != (m.Descriptor().Snapshot == abi.SnapshotMemory) {
				t.Errorf("exempt: %q", r.Exempt)
			}
			t.Logf("%d functions, %v", len(r.Functions), took.Round(time.Millisecond))
			if err := r.Err(path); err != nil {
				t.Error(err)
			}
		})
	}
}
