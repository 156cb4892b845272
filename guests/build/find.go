package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// guest is one source folder. Paths are relative to the root, with slashes.
type guest struct {
	Name     string
	Language string // "rust", "go", "assemblyscript"
	Dir      string
	Wasm     string // where the module goes
}

// find lists the guests in the order of their folders.
func find(root string) ([]guest, error) {
	var list []guest
	for _, pattern := range []string{"examples/*/rust/Cargo.toml", "examples/*/*/rust/Cargo.toml", "guests/cases/*/rust/Cargo.toml", "examples/*/go/go.mod", "guests/cases/*/go/go.mod", "guests/cases/*/assemblyscript/package.json"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			rel, err := filepath.Rel(root, filepath.Dir(p))
			if err != nil {
				return nil, err
			}
			dir := filepath.ToSlash(rel)
			parts := strings.Split(dir, "/")
			name, language := parts[len(parts)-2], parts[len(parts)-1]
			g := guest{name, language, dir, strings.Join(parts[:len(parts)-1], "/") + "/" + name + ".wasm"}
			switch language {
			case "go":
				g.Wasm = ".build/guests/" + name + "-go.wasm"
			case "assemblyscript":
				g.Wasm = strings.Join(parts[:len(parts)-1], "/") + "/" + name + "-as.wasm"
			}
			list = append(list, g)
		}
	}
	return list, nil
}

// sourceHash is the SHA-256 of everything that a committed module is made from: its own folder and the SDK.
func sourceHash(root string, g guest) (string, error) {
	if g.Language == "assemblyscript" {
		files, err := assemblyScriptFiles(root, g)
		if err != nil {
			return "", err
		}
		return hashFiles(root, files)
	}
	return rustHash(root, g.Dir)
}

func rustHash(root, dir string) (string, error) {
	var files []string
	for _, d := range []string{dir, "sdk/rust"} {
		for _, f := range []string{"Cargo.toml", "src"} {
			err := filepath.WalkDir(filepath.Join(root, d, f), func(p string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if e.IsDir() && e.Name() == "testing" {
					return filepath.SkipDir // never part of a module
				}
				if !e.IsDir() {
					files = append(files, p)
				}
				return nil
			})
			if err != nil {
				return "", err
			}
		}
	}
	return hashFiles(root, files)
}

// hashFiles hashes names and contents.
func hashFiles(root string, files []string) (string, error) {
	sort.Strings(files)
	h := sha256.New()
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		rel, err := filepath.Rel(root, f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(rel), len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func fileHash(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}
