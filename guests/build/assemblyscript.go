package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// assemblyScriptFiles are all sources of a guest, with its package.json, which pins the compiler.
func assemblyScriptFiles(root string, g guest) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(root, g.Dir, "*.ts"))
	return append(files, filepath.Join(root, g.Dir, "package.json")), err
}

func haveNPM() bool {
	_, err := exec.LookPath("npm")
	return err == nil
}

// buildAssemblyScript installs the compiler that package.json names into a folder under .build and runs it
// there. Nothing of it is left beside the sources.
func buildAssemblyScript(root string, g guest, m *manifest) error {
	files, err := assemblyScriptFiles(root, g)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".build", "assemblyscript", g.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if err := copyTree(f, filepath.Join(dir, filepath.Base(f))); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"}, {"run", "--silent", "build"}} {
		cmd := exec.Command("npm", args...)
		cmd.Dir = dir
		if err := runCommand(cmd); err != nil {
			return err
		}
	}
	version, err := compilerVersion(dir)
	if err != nil {
		return err
	}
	if err := copyTree(filepath.Join(dir, filepath.Base(g.Wasm)), filepath.Join(root, g.Wasm)); err != nil {
		return err
	}
	return m.built(root, g, "asc "+version)
}

// compilerVersion is that of the compiler that was installed.
func compilerVersion(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "node_modules", "assemblyscript", "package.json"))
	if err != nil {
		return "", err
	}
	var p struct{ Version string }
	if err := json.Unmarshal(b, &p); err != nil {
		return "", fmt.Errorf("package.json of the compiler: %w", err)
	}
	return p.Version, nil
}
