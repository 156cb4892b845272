package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/operators"
)

// Published finds what lies where a sink node publishes: the single file, or the first part of the folder;
// "" if there is nothing.
func Published(n *operators.Node) (string, error) {
	path := join(n.Sink.Dir, n.Sink.Path)
	if n.Sink.Single {
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return path, err
	}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if _, _, ok := parsePart(e.Name()); ok {
			return filepath.Join(path, e.Name()), nil
		}
	}
	return "", nil
}
