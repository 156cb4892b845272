package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
)

const manifestPath = "guests/modules.json"

// entry is a committed module.
type entry struct {
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	Source    string `json:"source"`        // folder
	SourceSHA string `json:"source_sha256"` // of the folder and the SDK
	Toolchain string `json:"toolchain"`     // what made it
}

type manifest struct {
	Comment string  `json:"comment"`
	Modules []entry `json:"modules"`
}

func readManifest(root string) (*manifest, error) {
	m := &manifest{}
	b, err := os.ReadFile(filepath.Join(root, manifestPath))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestPath, err)
	}
	return m, nil
}

func (m *manifest) find(path string) *entry {
	for i := range m.Modules {
		if m.Modules[i].Path == path {
			return &m.Modules[i]
		}
	}
	return nil
}

func (m *manifest) set(e entry) {
	if old := m.find(e.Path); old != nil {
		*old = e
		return
	}
	m.Modules = append(m.Modules, e)
}

// built notes a module that was made from its source as it is.
func (m *manifest) built(root string, g guest, toolchain string) error {
	source, err := sourceHash(root, g)
	if err != nil {
		return err
	}
	sum, err := fileHash(filepath.Join(root, g.Wasm))
	if err != nil {
		return err
	}
	m.set(entry{g.Wasm, sum, g.Dir, source, toolchain})
	return nil
}

// write drops entries without a source and writes the rest in order.
func (m *manifest) write(root string, guests []guest) error {
	var kept []entry
	for _, e := range m.Modules {
		for _, g := range guests {
			if g.Wasm == e.Path {
				kept = append(kept, e)
			}
		}
	}
	sort.Slice(kept, func(i, j int) bool { return kept[i].Path < kept[j].Path })
	m.Modules = kept
	m.Comment = "written by go run ./guests/build"
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, manifestPath), append(b, '\n'), 0o644)
}

// problems says what is wrong with each committed module, and how to mend it.
func (m *manifest) problems(root string, guests []guest) (list []string, err error) {
	for _, g := range guests {
		if g.Language == "go" {
			continue
		}
		e := m.find(g.Wasm)
		if e == nil {
			list = append(list, fmt.Sprintf("%s is not in %s: go run ./guests/build %s", g.Wasm, manifestPath, g.Name))
			continue
		}
		source, err := sourceHash(root, g)
		if err != nil {
			return nil, err
		}
		if source != e.SourceSHA {
			list = append(list, fmt.Sprintf("%s is older than its source %s or the SDK: go run ./guests/build %s", g.Wasm, g.Dir, g.Name))
		}
		sum, err := fileHash(filepath.Join(root, g.Wasm))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			list = append(list, fmt.Sprintf("%s is missing: go run ./guests/build %s", g.Wasm, g.Name))
		case err != nil:
			return nil, err
		case sum != e.SHA256:
			list = append(list, fmt.Sprintf("%s is not the module of %s: go run ./guests/build %s", g.Wasm, manifestPath, g.Name))
		}
	}
	return list, nil
}
