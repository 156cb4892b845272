package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommittedModulesAreThoseOfTheirSource(t *testing.T) {
	problems, err := options{root: "../..", check: true}.run()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// A small repository with one module, in which each kind of damage must be told.
func TestDamageIsTold(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"sdk/rust/Cargo.toml", "sdk/rust/src/lib.rs", "guests/cases/a/rust/Cargo.toml", "guests/cases/a/rust/src/lib.rs", "guests/cases/a/a.wasm"} {
		write(f, f)
	}
	check := func(want string) {
		t.Helper()
		problems, err := options{root: root, check: true}.run()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(problems, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("problems %q, expected %q", got, want)
		}
	}
	check("not in guests/modules.json")
	guests, err := find(root)
	if err != nil || len(guests) != 1 {
		t.Fatalf("guests %v, %v", guests, err)
	}
	source, err := sourceHash(root, guests[0])
	if err != nil {
		t.Fatal(err)
	}
	sum, err := fileHash(filepath.Join(root, guests[0].Wasm))
	if err != nil {
		t.Fatal(err)
	}
	m := &manifest{}
	m.set(entry{guests[0].Wasm, sum, guests[0].Dir, source, "rustc"})
	if err := m.write(root, guests); err != nil {
		t.Fatal(err)
	}
	check("")
	write("sdk/rust/src/testing/mod.rs", "no part of a module")
	check("")
	write("guests/cases/a/a.wasm", "other bytes")
	check("is not the module of")
	write("guests/cases/a/a.wasm", "guests/cases/a/a.wasm")
	write("sdk/rust/src/lib.rs", "changed")
	check("older than its source")
	if err := os.Remove(filepath.Join(root, "guests/cases/a/a.wasm")); err != nil {
		t.Fatal(err)
	}
	check("is missing")
}
