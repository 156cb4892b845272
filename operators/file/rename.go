package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/millrace-io/millrace/operators"
)

// renameChecked is the second best: between the look and the rename another process could come.
func renameChecked(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// notOurs explains a rename that found something in its place.
func notOurs(err error, path string) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s came while this job was running; does another pipeline write to the same place?", operators.ErrNotOurs, path)
	}
	return err
}
