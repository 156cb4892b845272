package corpus

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Families are those the format knows, in the order of its description. A folder may hold others.
var Families = []string{"window", "timers", "joins", "cep", "restore", "sql", "nexmark", "flights"}

// Load reads the headers of all cases of a folder: <family>/*.json, in the order of Families, then by
// name. It fails for a file that is not a case: nothing is skipped.
func Load(dir fs.FS) ([]*Case, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, fmt.Errorf("read the cases: %w", err)
	}
	var folders []string
	for _, e := range entries {
		if e.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	slices.SortStableFunc(folders, func(a, b string) int { return rank(a) - rank(b) })
	var cases []*Case
	for _, f := range folders {
		paths, err := fs.Glob(dir, path.Join(f, "*.json"))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			text, err := fs.ReadFile(dir, p)
			if err != nil {
				return nil, err
			}
			c, err := header(p, text)
			if err != nil {
				return nil, err
			}
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return nil, fmt.Errorf("no cases, expected <family>/*.json")
	}
	return cases, nil
}

func rank(family string) int {
	if i := slices.Index(Families, family); i >= 0 {
		return i
	}
	return len(Families)
}

// Sub says what kind of case of its family this is: the part of the id between family and number, as
// "session" in window-session-003; for the restore family which operator it restores.
func (c *Case) Sub() string {
	parts := strings.Split(c.ID, "-")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}
