package snapstore

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
)

// Errors for callers to tell apart.
var (
	// ErrNoCheckpoint: the store has no complete checkpoint, or not the one asked for.
	ErrNoCheckpoint = errors.New("no such checkpoint")
	// ErrNotStore: the directory holds something else.
	ErrNotStore = errors.New("not a snapshot store")
	// ErrNewerFormat: a later build wrote the store.
	ErrNewerFormat = errors.New("snapshot store has a newer format")
	// ErrReadOnly: the store was opened for reading.
	ErrReadOnly = errors.New("snapshot store is open for reading only")
	// ErrDamaged: what is on disk is not what was written; a *DamageError says what.
	ErrDamaged = errors.New("snapshot is damaged")
	// ErrReferenced: a checkpoint needs the object.
	ErrReferenced = errors.New("object is part of a checkpoint")
)

// LockedError says that another process writes to the store.
type LockedError struct {
	Path string
	PID  int // 0 if unknown
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Path)
	}
	return fmt.Sprintf("%s is locked by process %d", e.Path, e.PID)
}

// DamageError is one thing that is wrong with a file of the store.
type DamageError struct {
	Checkpoint checkpoint.ID // 0: none in particular
	Path       string        // the file
	Object     string        // digest, if it is an object
	Where      string        // what the object is in the checkpoint
	Problem    error
}

// Error implements error.
func (e *DamageError) Error() string {
	s := ErrDamaged.Error()
	if e.Checkpoint != 0 {
		s = fmt.Sprintf("checkpoint %d is damaged", e.Checkpoint)
	}
	if e.Where != "" {
		s += ": " + e.Where
	}
	return fmt.Sprintf("%s: file %s: %v", s, e.Path, e.Problem)
}

// Unwrap implements errors.Is for ErrDamaged and the problem.
func (e *DamageError) Unwrap() []error { return []error{ErrDamaged, e.Problem} }

// DamagedCheckpointError stops a start: the newest complete checkpoint cannot be used, and taking the
// one before it silently would double what has been published since.
type DamagedCheckpointError struct {
	ID       checkpoint.ID
	Previous checkpoint.ID // newest good one before it; 0: none
	Damage   error
}

// Error implements error.
func (e *DamagedCheckpointError) Error() string {
	if e.Previous == 0 {
		return fmt.Sprintf("%v; there is no good checkpoint before %d", e.Damage, e.ID)
	}
	return fmt.Sprintf("%v; the newest good checkpoint before it is %d: --restore %d starts from there",
		e.Damage, e.Previous, e.Previous)
}

// Unwrap implements errors.Is and As.
func (e *DamagedCheckpointError) Unwrap() error { return e.Damage }

// UncertainError says that a manifest may or may not be durable, so that neither "complete" nor
// "aborted" may be said: the job has to fail and to look again when it restarts.
type UncertainError struct {
	ID  checkpoint.ID
	Err error
}

// Error implements error.
func (e *UncertainError) Error() string {
	return fmt.Sprintf("checkpoint %d: it is not known whether its manifest is durable: %v", e.ID, e.Err)
}

// Unwrap implements errors.Is and As.
func (e *UncertainError) Unwrap() error { return e.Err }
