package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const wasmTarget = "wasm32-unknown-unknown"

// rustTools finds a rustc that has the target, and the cargo that goes with it: a distribution's own
// first, since it is the pinned one, then what is on the PATH.
func rustTools() (rustc, cargo string, err error) {
	for _, dir := range []string{"/usr/bin/", ""} {
		rustc, cargo = dir+"rustc", dir+"cargo"
		out, err := exec.Command(rustc, "--print", "target-libdir", "--target", wasmTarget).Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(out))); err != nil {
			continue
		}
		if _, err := exec.LookPath(cargo); err == nil {
			return rustc, cargo, nil
		}
	}
	return "", "", errors.New("no Rust with the target " + wasmTarget + ": apt-get install rustc cargo lld-14 libstd-rust-dev-wasm32, or rustup target add " + wasmTarget)
}

// stageDir is where Rust guests are compiled, whatever folder the checkout is in: cargo hashes the path of a
// package into its symbols, and their order in the module follows those.
const stageDir = "/tmp/millrace-guests"

// stage copies what a guest is made of to stageDir, with the layout of the repository.
func stage(root, dir string) error {
	for _, part := range []string{"sdk/rust", dir} {
		to := filepath.Join(stageDir, part)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		for _, sub := range []string{"Cargo.toml", "Cargo.lock", "src"} {
			if err := copyTree(filepath.Join(root, part, sub), filepath.Join(to, sub)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTree copies a file or folder; one that is not there is nothing to copy.
func copyTree(from, to string) error {
	st, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// compileRust returns the module and what made it. Paths of the machine do not get into it.
func compileRust(root string, g guest, target string) (wasm []byte, toolchain string, err error) {
	rustc, cargo, err := rustTools()
	if err != nil {
		return nil, "", err
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, "", err
	}
	version, err := exec.Command(rustc, "--version").Output()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(cargo, "build", "--release", "--quiet", "--target", wasmTarget)
	if err := stage(abs, g.Dir); err != nil {
		return nil, "", err
	}
	cmd.Dir = filepath.Join(stageDir, g.Dir)
	cmd.Env = append(os.Environ(), "RUSTC="+rustc, "CARGO_TARGET_DIR="+filepath.Join(stageDir, target),
		"RUSTFLAGS=-C target-feature=+bulk-memory --remap-path-prefix="+stageDir+"=/millrace")
	if err := runCommand(cmd); err != nil {
		return nil, "", err
	}
	wasm, err = os.ReadFile(filepath.Join(stageDir, target, wasmTarget, "release", g.Name+".wasm"))
	return wasm, strings.TrimSpace(string(version)), err
}

func buildRust(root string, g guest, m *manifest) error {
	wasm, toolchain, err := compileRust(root, g, ".build/rust")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, g.Wasm), wasm, 0o644); err != nil {
		return err
	}
	return m.built(root, g, toolchain)
}

// verifyRust says whether a new build gives the committed bytes; another compiler may not.
func verifyRust(root string, g guest, m *manifest) (same bool, err error) {
	e := m.find(g.Wasm)
	if e == nil {
		return false, nil
	}
	wasm, toolchain, err := compileRust(root, g, ".build/rust-verify")
	if err != nil {
		return false, err
	}
	if toolchain != e.Toolchain {
		return false, fmt.Errorf("%s is here, %s made the module: nothing to compare", toolchain, e.Toolchain)
	}
	committed, err := os.ReadFile(filepath.Join(root, g.Wasm))
	return bytes.Equal(wasm, committed), err
}

// buildGo keeps function names (no -s): they cost 35 KB and name the frames of a trap.
func buildGo(root string, g guest) error {
	out, err := filepath.Abs(filepath.Join(root, g.Wasm))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-w", "-o", out, ".")
	cmd.Dir = filepath.Join(root, g.Dir)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOWORK=off", "GOFLAGS=")
	return runCommand(cmd)
}

func runCommand(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
