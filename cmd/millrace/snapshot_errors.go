package main

import (
	"errors"
	"io/fs"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// refusals are what a store refuses to do: nothing was changed, and trying again does not help.
var refusals = []error{
	snapstore.ErrTagTaken, snapstore.ErrBadTag, snapstore.ErrNoTag, snapstore.ErrNoCheckpoint, snapstore.ErrNewest,
	snapstore.ErrTagged, snapstore.ErrIDTaken, snapstore.ErrNotEmpty, snapstore.ErrOnProbation, snapstore.ErrNotStore, snapstore.ErrNewerFormat,
	snapstore.ErrDamaged, checkpoint.ErrInvalid, checkpoint.ErrCorrupt, checkpoint.ErrNewerFormat,
	archive.ErrNotArchive, archive.ErrDamaged, archive.ErrSealed, fs.ErrNotExist, fs.ErrExist,
}

func refusedByStore(err error) bool {
	for _, e := range refusals {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// storeError gives an error of a snapshot store its exit code.
func storeError(err error) error {
	var locked *snapstore.LockedError
	var x *exitError
	switch {
	case err == nil || errors.As(err, &x):
		return err
	case errors.As(err, &locked), errors.Is(err, snapstore.ErrLeased):
		return &exitError{code: exitBusy, kind: "locked", err: err}
	case errors.Is(err, snapstore.ErrDamaged), errors.Is(err, archive.ErrDamaged):
		return &exitError{code: exitRefused, kind: "damaged", err: err}
	case refusedByStore(err):
		return refused(err)
	}
	return &exitError{code: exitFailed, kind: "failed", err: err}
}
