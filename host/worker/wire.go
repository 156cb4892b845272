package worker

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// message is one line of JSON in either direction: a call with its number, the answer with the same
// number, or something the worker says by itself.
type message struct {
	Seq   uint64          `json:"seq,omitempty"`
	Call  string          `json:"call,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Error *Error          `json:"error,omitempty"`
	Event *job.Event      `json:"event,omitempty"`
	Log   *logLine        `json:"log,omitempty"`
}

// Calls.
const (
	callDeploy    = "deploy"
	callStats     = "stats"
	callBarrier   = "barrier"
	callSavepoint = "savepoint"
	callSnapshots = "snapshots"
	callChange    = "change"
	callCanary    = "canary"
	callStop      = "stop"
	callWait      = "wait"
)

type logLine struct {
	Level string         `json:"level"`
	Text  string         `json:"text"`
	Attrs map[string]any `json:"attrs,omitempty"`
}

// ErrorKind classifies an error for whoever is on the other side of the wire.
type ErrorKind string

// Kinds of errors.
const (
	KindFailed  ErrorKind = "failed"
	KindLocked  ErrorKind = "locked"  // another run has the state folder
	KindRefused ErrorKind = "refused" // pipeline, module or state do not fit: nothing ran
	KindGuest   ErrorKind = "guest"   // a guest's fault under policy stop
	KindDamaged ErrorKind = "damaged" // the newest checkpoint is damaged
	KindGone    ErrorKind = "gone"    // the worker process has ended
)

// Error is an error that crossed the wire.
type Error struct {
	Kind    ErrorKind `json:"kind"`
	Message string    `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// Classify finds an error's kind.
func Classify(err error) ErrorKind {
	var sent *Error
	var locked *snapstore.LockedError
	var damaged *snapstore.DamagedCheckpointError
	var orphans *checkpoint.OrphanError
	switch {
	case errors.As(err, &sent):
		return sent.Kind
	case errors.As(err, &locked):
		return KindLocked
	case errors.As(err, &damaged):
		return KindDamaged
	case errors.Is(err, job.ErrUnfit), errors.Is(err, job.ErrRemote), errors.Is(err, job.ErrRefusedModule), errors.Is(err, job.ErrNeedsRestart), errors.Is(err, job.ErrNoProbation), errors.Is(err, job.ErrCanary), errors.Is(err, job.ErrNoCanary), errors.Is(err, job.ErrNotACanary), errors.Is(err, ErrStalePlan), errors.As(err, &orphans), errors.Is(err, checkpoint.ErrOtherJob), errors.Is(err, checkpoint.ErrInvalid), isRefused(err), isLeaky(err), unusable(err):
		return KindRefused
	case guestop.IsGuestFault(err):
		return KindGuest
	case queryKind(err) != "":
		return queryKind(err)
	}
	return KindFailed
}

// wire sends and receives messages; sending is safe for several goroutines.
type wire struct {
	mu  sync.Mutex
	out io.Writer
	in  *bufio.Reader
}

func (w *wire) send(m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(b, '\n'))
	return err
}

func (w *wire) receive() (message, error) {
	var m message
	line, err := w.in.ReadBytes('\n')
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("worker wire: %w", err)
	}
	return m, nil
}

// unusable says that input or output are not what the pipeline needs: no record was harmed, another attempt
// would not help.
func unusable(err error) bool {
	for _, e := range []error{fs.ErrNotExist, operators.ErrNotOurs, operators.ErrOutputLost, operators.ErrInputChanged} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
