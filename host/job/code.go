package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/operators"
)

// keepModules puts the modules in use into the snapshot store, so that a snapshot binds code with state and
// can be run again where the files are not. A damaged copy in the store is repaired by this.
func (j *Job) keepModules(ctx context.Context) error {
	for _, n := range j.opts.Graph.GuestNodes() {
		if m := j.modules[n.ID]; m != nil {
			if err := j.keepModule(ctx, n, m.Digest()); err != nil {
				return fmt.Errorf("operator %q: keep module %s: %w", n.ID, n.Guest.Module, err)
			}
		}
	}
	return nil
}

func (j *Job) keepModule(ctx context.Context, n *operators.Node, digest string) error {
	path := n.Guest.Module
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(j.opts.Graph.File), path)
	}
	if data, err := os.ReadFile(path); err == nil {
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) == digest {
			_, size, err := j.store.Put(ctx, data)
			j.kept[digest] = size
			return err
		}
	}
	// The file changed or went since it was compiled: what an earlier run kept is as good.
	if path, err := j.store.Path(ctx, digest); err == nil {
		_, size, err := j.store.AddFile(ctx, path)
		j.kept[digest] = size
		return err
	}
	delete(j.kept, digest)
	j.warn(fmt.Sprintf("operator %s: module %s changed since it was compiled: snapshots name it by digest, but do not hold it", n.ID, n.Guest.Module))
	return nil
}
