package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnEditMustFitExactlyOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.go")
	for _, c := range []struct{ text, want, fails string }{
		{"sync()\nrename()\n", "rename()\n", ""},
		{"rename()\n", "", "0 times"},
		{"sync()\nsync()\n", "", "2 times"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		m := mutant{name: "x", edits: []edit{{"a.go", "sync()\n", ""}}}
		err := m.apply(dir)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: error %v, expected %q", c.text, err, c.fails)
			}
			continue
		}
		if got, _ := os.ReadFile(file); err != nil || string(got) != c.want {
			t.Errorf("%q became %q, %v", c.text, got, err)
		}
	}
}

// TestEveryMutantFitsTheTree keeps the list true as the engine changes: an edit whose place is gone or
// doubled is found here, not hours later.
func TestEveryMutantFitsTheTree(t *testing.T) {
	names := map[string]bool{}
	for i := range mutants {
		m := &mutants[i]
		if err := m.check(); err != nil {
			t.Error(err)
		}
		if names[m.name] {
			t.Errorf("two mutants named %s", m.name)
		}
		names[m.name] = true
		dir := t.TempDir()
		for _, e := range m.edits {
			dst := filepath.Join(dir, e.file)
			if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := copyFile(filepath.Join("../..", e.file), dst); err != nil {
				t.Errorf("mutant %s: %v", m.name, err)
			}
		}
		if err := m.apply(dir); err != nil {
			t.Error(err)
		}
	}
}

func TestCopyLeavesOutWhatABuildDoesNotRead(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for _, p := range []string{"go.mod", "abi/a.go", ".git/config", "docs/x.md", "host/target/x"} {
		p = filepath.Join(from, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(from, to); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{"go.mod": true, "abi/a.go": true, ".git/config": false, "docs/x.md": false, "host/target/x": false} {
		if _, err := os.Stat(filepath.Join(to, p)); (err == nil) != want {
			t.Errorf("%s: copied %v, expected %v", p, err == nil, want)
		}
	}
}
