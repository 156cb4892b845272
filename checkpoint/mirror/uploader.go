package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// UploaderOptions configure an uploader. Zero values mean the defaults.
type UploaderOptions struct {
	Mirror *Mirror
	Local  *snapstore.Store
	// Retain is how many checkpoints the mirror keeps; 0: all.
	Retain int
	// GCEvery is after how many uploads unused files are removed; 0: never.
	GCEvery int
	// Interval is the least time between the beginnings of two checkpoints' uploads.
	Interval time.Duration
	// First is the pause after a failed upload, doubled by each further one: 1 s. Longest: 1 min.
	First, Longest time.Duration
	Timing         objectstore.Timing // objectstore.Real
	// Report hears of each upload; nil: nobody. Called from Run's goroutine.
	Report func(Uploaded)
}

// Offered is a complete snapshot whose output is published.
type Offered struct {
	ID   checkpoint.ID
	Kind checkpoint.Kind
}

// Uploaded is one upload, or why there was none.
type Uploaded struct {
	Pushed
	Err error
	// Again: it is tried again, or a newer one in its place.
	Again bool
	// Passed is how many checkpoints were passed over since the last upload, because newer ones were there.
	Passed int
	// Tidy is why older snapshots could not be removed from the mirror, although this one is there.
	Tidy error
}

// Status is how far the mirror is behind. It is serialisable.
type Status struct {
	Uploaded    checkpoint.ID `json:"uploaded"`            // the newest of this run that is there; 0: none
	UploadedMS  int64         `json:"uploaded_ms"`         // when, since 1970
	Uploading   checkpoint.ID `json:"uploading,omitempty"` // 0: none
	Behind      int           `json:"behind"`              // snapshots completed since that are not there
	Uploads     int           `json:"uploads"`             // of this run
	Bytes       int64         `json:"bytes"`               // stored by them
	Failures    int           `json:"failures"`            // in a row
	LastFailure string        `json:"last_failure,omitempty"`
}

// Uploader copies snapshots into a mirror as they become complete, behind the job: of checkpoints that come
// faster than uploads only the newest, of savepoints each. What fails is tried again. Whatever happens to an
// upload, the job hears of it by Report and Status only.
type Uploader struct {
	o    UploaderOptions
	wake chan struct{} // cap 1

	mu      sync.Mutex
	queue   []queued
	seq     uint64 // of the newest offer
	there   uint64 // newest offer that is in the mirror
	status  Status
	passed  int
	resting bool // a checkpoint has to wait for the interval
	paused  bool // after a failure
	pauseNo int  // which pause: one that was cut short does not end the next
	caught  bool // savepoints of earlier runs were looked for
	ending  bool
	closed  bool
	settled chan struct{} // cap 1: something was uploaded or given up
}

// queued is a snapshot that waits.
type queued struct {
	Offered
	seq uint64
}

var (
	// ErrClosed: the uploader takes nothing any more.
	ErrClosed = errors.New("the uploader has ended")
	// ErrBehind: there are snapshots that the mirror does not have.
	ErrBehind = errors.New("the mirror is behind")
)

// NewUploader makes an uploader; it does nothing before Run.
func NewUploader(o UploaderOptions) *Uploader {
	if o.First == 0 {
		o.First = time.Second
	}
	if o.Longest == 0 {
		o.Longest = time.Minute
	}
	if o.Timing == nil {
		o.Timing = objectstore.Real{}
	}
	return &Uploader{o: o, wake: make(chan struct{}, 1), settled: make(chan struct{}, 1)}
}

// Offer hands over a snapshot and waits for nothing. A lease keeps it while it is being uploaded; before that a
// checkpoint may expire, since a newer one has been offered then. Errors: ErrClosed.
func (u *Uploader) Offer(o Offered) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return ErrClosed
	}
	rest := u.queue[:0]
	for _, q := range u.queue {
		switch {
		case q.ID == o.ID: // again
		case q.Kind == checkpoint.KindSavepoint || o.Kind == checkpoint.KindSavepoint:
			rest = append(rest, q)
		default:
			u.passed++
		}
	}
	u.seq++
	u.queue = append(rest, queued{o, u.seq})
	u.status.Behind = int(u.seq - u.there)
	u.signal()
	return nil
}

// hurry ends pauses; mu is held.
func (u *Uploader) hurry() { u.resting, u.paused = false, false }

func (u *Uploader) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Status takes stock.
func (u *Uploader) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// Run uploads until ctx is cancelled, which ends an upload under way: what it stored is removed by a later GC.
func (u *Uploader) Run(ctx context.Context) {
	defer u.close()
	for {
		next, passed, ok := u.take()
		if !ok {
			select {
			case <-u.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		u.upload(ctx, next, passed)
		select {
		case u.settled <- struct{}{}:
		default:
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// take is the next to upload, if it is time.
func (u *Uploader) take() (next queued, passed int, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.paused {
		return next, 0, false
	}
	for i, q := range u.queue {
		if u.resting && q.Kind != checkpoint.KindSavepoint && !u.ending {
			continue
		}
		u.queue = append(u.queue[:i:i], u.queue[i+1:]...)
		u.status.Uploading = q.ID
		passed, u.passed = u.passed, 0
		return q, passed, true
	}
	return next, 0, false
}

// upload makes one attempt and notes how it went.
func (u *Uploader) upload(ctx context.Context, next queued, passed int) {
	if next.Kind != checkpoint.KindSavepoint && u.o.Interval > 0 {
		u.rest()
	}
	out := Uploaded{Passed: passed}
	if out.Err = u.catchUp(ctx, next.ID); out.Err == nil {
		out.Pushed, out.Err = u.o.Mirror.Push(ctx, u.o.Local, next.ID)
	}
	out.ID = next.ID
	if out.Err == nil {
		out.Tidy = u.tidy(ctx)
	}
	u.note(&out, next)
	if u.o.Report != nil {
		u.o.Report(out)
	}
}

// rest holds checkpoints back for the interval.
func (u *Uploader) rest() {
	u.mu.Lock()
	u.resting = true
	u.mu.Unlock()
	u.o.Timing.After(u.o.Interval, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.resting = false
		u.signal()
	})
}

// note keeps the result; what failed goes back into the queue unless something newer is there or it can't help.
func (u *Uploader) note(out *Uploaded, next queued) {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.status
	s.Uploading = 0
	if out.Err == nil {
		u.there = max(u.there, next.seq)
		s.Uploaded, s.UploadedMS = max(s.Uploaded, next.ID), u.o.Mirror.o.NowMS()
		s.Uploads++
		s.Bytes += out.Bytes
		s.Behind, s.Failures, s.LastFailure = int(u.seq-u.there), 0, ""
		if out.Tidy != nil {
			s.LastFailure = out.Tidy.Error()
		}
		return
	}
	newer := false
	for _, q := range u.queue {
		newer = newer || q.Kind != checkpoint.KindSavepoint && next.Kind != checkpoint.KindSavepoint
	}
	switch {
	case newer:
		u.passed, out.Again = u.passed+1, true
	case !hopeless(out.Err):
		u.queue, out.Again = append([]queued{next}, u.queue...), true
	}
	if newer && errors.Is(out.Err, snapstore.ErrNoCheckpoint) { // it expired before its turn came
		return
	}
	s.Failures++
	s.LastFailure = out.Err.Error()
	u.pause(s.Failures)
}

// pause waits before the next attempt; mu is held.
func (u *Uploader) pause(failures int) {
	d := u.o.First
	for range min(failures-1, 20) {
		d = min(2*d, u.o.Longest)
	}
	u.paused = true
	u.pauseNo++
	no := u.pauseNo
	u.o.Timing.After(d, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.pauseNo == no {
			u.paused = false
			u.signal()
		}
	})
}

// hopeless says that the same snapshot fails again, whatever happens to the object store.
func hopeless(err error) bool {
	for _, e := range []error{ErrIDTaken, ErrOtherJob, snapstore.ErrNoCheckpoint, snapstore.ErrDamaged, checkpoint.ErrUnsigned, checkpoint.ErrSignature} {
		if errors.Is(err, e) && !errors.Is(err, ErrDamaged) {
			return true
		}
	}
	return false
}

// catchUp offers savepoints that an earlier run made and did not come to upload: those newer than all that the
// mirror has, but for the one that is being uploaded now.
func (u *Uploader) catchUp(ctx context.Context, now checkpoint.ID) error {
	if u.caught {
		return nil
	}
	c, err := u.o.Mirror.Catalog(ctx)
	if err != nil {
		return err
	}
	infos, err := u.o.Local.List()
	if err != nil {
		return err
	}
	u.caught = true
	for _, i := range infos {
		if i.Err == nil && i.Kind == checkpoint.KindSavepoint && !i.Withdrawn && i.ID > c.newest() && i.ID != now {
			_ = u.Offer(Offered{ID: i.ID, Kind: i.Kind})
		}
	}
	return nil
}

func (u *Uploader) tidy(ctx context.Context) error {
	if u.o.Retain > 0 {
		if _, err := u.o.Mirror.Retain(ctx, u.o.Retain); err != nil {
			return err
		}
	}
	if u.o.GCEvery > 0 && (u.Status().Uploads+1)%u.o.GCEvery == 0 {
		_, err := u.o.Mirror.GC(ctx)
		return err
	}
	return nil
}

// lastTries is how often an upload may fail while the end of a run waits for it.
const lastTries = 3

// Finish waits until everything offered is uploaded, and hurries. It gives up with ErrBehind when nothing has
// moved for the time given, or uploads failed three times; or with ctx.
func (u *Uploader) Finish(ctx context.Context, patience time.Duration) error {
	u.mu.Lock()
	u.ending = true
	u.hurry()
	failed := u.status.Failures
	u.signal()
	u.mu.Unlock()
	for {
		left, status := u.left()
		switch {
		case left == 0 && status.Uploading == 0:
			if status.Failures > 0 {
				return fmt.Errorf("%w: %s", ErrBehind, status.LastFailure)
			}
			return nil
		case status.Failures >= failed+lastTries:
			return fmt.Errorf("%w: after %d attempts: %s", ErrBehind, lastTries, status.LastFailure)
		}
		before := u.o.Mirror.moved.Load()
		late := make(chan struct{})
		stop := u.o.Timing.After(patience, func() { close(late) })
		select {
		case <-u.settled:
		case <-ctx.Done():
			stop()
			return fmt.Errorf("%w: %w", ErrBehind, context.Cause(ctx))
		case <-late:
			if u.o.Mirror.moved.Load() == before {
				return fmt.Errorf("%w: nothing moved for %v; %s", ErrBehind, patience, status.LastFailure)
			}
		}
		stop()
	}
}

func (u *Uploader) left() (int, Status) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.queue), u.status
}

// close lets go of what was not uploaded.
func (u *Uploader) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	u.queue = nil
}
