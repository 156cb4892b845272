package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Later lists what a sink node has published after a snapshot, whose part for the node is snaps (of all its
// tasks): what a start from there takes back. Sorted.
func Later(n *operators.Node, snaps []checkpoint.OperatorSnapshot) ([]string, error) {
	path := join(n.Sink.Dir, n.Sink.Path)
	if n.Sink.Single {
		for _, s := range snaps {
			if len(s.Staged) > 0 {
				return nil, nil // it was whole by then
			}
		}
		_, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return []string{path}, err
	}
	next := int64(0)
	for _, s := range snaps {
		next = max(next, s.Numbers["sequence"])
	}
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var later []string
	for _, e := range entries {
		if _, seq, ok := parsePart(e.Name()); ok && seq >= next {
			later = append(later, filepath.Join(path, e.Name()))
		}
	}
	return later, nil
}
