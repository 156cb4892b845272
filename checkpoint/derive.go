package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// Derive is a new checkpoint with what m holds, for another store: m, whose file is given, is its origin, and
// it has no parent. The caller may change it before it is encoded; tasks are copied one level deep.
func (m *Manifest) Derive(file []byte) *Manifest {
	sum := sha256.Sum256(file)
	d := *m
	d.Format, d.Kind, d.Parent, d.ParentSHA, d.StoredBytes = FormatVersion, KindCheckpoint, 0, "", 0
	d.Origin = &Origin{Job: m.Job, ID: m.ID, SHA256: hex.EncodeToString(sum[:])}
	d.Tasks = slices.Clone(m.Tasks)
	return &d
}
