package operators

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors that people meet by name.
var (
	// ErrStorageFull says that a disk has no room for output. The task fails; nothing published is harmed.
	ErrStorageFull = errors.New("storage full")
	// ErrNotOurs says that there is output at the sink's place that this job did not write.
	ErrNotOurs = errors.New("output that is not this job's")
	// ErrOutputLost says that a staged file of a checkpoint is neither staged nor published.
	ErrOutputLost = errors.New("staged output lost")
	// ErrStdout says that standard output takes no more: its reader is gone, or its disk is full.
	ErrStdout = errors.New("standard output takes no more")
	// ErrInputChanged says that an input is not the one the checkpoint was made over.
	ErrInputChanged = errors.New("input changed")
)

// Policies of ErrorPolicy.
const (
	PolicyStop       = "stop"
	PolicySkip       = "skip"
	PolicyDeadLetter = "dead_letter"
)

// Kinds of dead letters that no guest is involved in.
const (
	KindMalformed = "malformed"
	// KindPunctuation: the watermark function failed at it.
	KindPunctuation = "watermark function"
	KindNullKey     = "null key"
	KindFuture      = "future"
)

// RecordError is a record's error under the policy stop.
type RecordError struct {
	Operator string
	Position string
	Err      error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("operator %q: record at %s: %v", e.Operator, e.Position, e.Err)
}

func (e *RecordError) Unwrap() error { return e.Err }

// DiskError adds ErrStorageFull to errors for lack of space or quota.
func DiskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrStorageFull, err)
	}
	return err
}
