package snapstore

import (
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

// damagedAt says where in a state file the damage is that its SHA-256 shows; nil: it is no state file, or its
// own checksums do not show it.
func damagedAt(path string) error {
	r, err := runs.Open(state.OS{}, path, false)
	if err != nil {
		return nil
	}
	r.Close()
	if r, err = runs.Open(state.OS{}, path, true); err == nil {
		r.Close()
	}
	return err
}
