package modcheck

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestCommittedModulesKeepNothing: every guest of the repository passes, each of its functions tried.
func TestCommittedModulesKeepNothing(t *testing.T) {
	for _, path := range committed(t) {
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			wasm, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m := compile(t, wasm, engine.Options{CacheDir: "../../.build/engine"})
			began := time.Now()
			r, err := Module(context.Background(), m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			for i := range r.Functions {
				f := &r.Functions[i]
				t.Logf("%v %v", f, f.Notes)
			}
			t.Logf("%v %s", took.Round(time.Millisecond), r.Exempt)
			if err := r.Err(path); err != nil {
				t.Error(err)
			}
		})
	}
}
