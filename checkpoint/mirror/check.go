package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
)

// checkObject reads an object down to its last byte.
func (m *Mirror) checkObject(ctx context.Context, ref checkpoint.ObjectRef, at stored) error {
	err := m.decode(ctx, at.Key, at.Size, at.SHA256, m.context(at.Task, at.Sequence, ref.Digest), func(r io.Reader) error {
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(r, most(ref.Size)+1))
		if err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != ref.Digest || ref.Size != checkpoint.SizeUnknown && n != ref.Size {
			return fmt.Errorf("it holds %d bytes with SHA-256 %s, expected object %s", n, got, ref.Digest)
		}
		return nil
	})
	if errors.Is(err, objectstore.ErrNotFound) {
		return &DamageError{Key: at.Key, Problem: err}
	}
	return err
}
