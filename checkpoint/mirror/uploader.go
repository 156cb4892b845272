package mirror

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
)

// UploaderOptions configure an uploader.
type UploaderOptions struct {
	Mirror *Mirror
	Local  *snapstore.Store
	// Retain is how many checkpoints the mirror keeps; 0: all.
	Retain int
	// GCEvery is after how many uploads unused files are removed; 0: never.
	GCEvery int
	// Report hears of each upload; nil: nobody. Called from Run's goroutine.
	Report func(Uploaded)
}

// Uploaded is one upload, or why there was none. A failed one is not repeated: the next snapshot brings what it
// needs of it.
type Uploaded struct {
	Pushed
	Err error
	// Behind is how many checkpoints were passed over since the last upload, because newer ones were there.
	Behind int
}

// Uploader copies snapshots into a mirror as they become complete, behind the job: of checkpoints that come
// faster than uploads only the newest, of savepoints each.
type Uploader struct {
	o    UploaderOptions
	wake chan struct{} // cap 1

	mu      sync.Mutex
	queue   []offered
	skipped int
	closed  bool
}

// offered is a snapshot that waits, with the lease that keeps it.
type offered struct {
	id    checkpoint.ID
	kind  checkpoint.Kind
	lease *snapstore.Lease
}

// ErrClosed: the uploader takes nothing any more.
var ErrClosed = errors.New("the uploader has ended")

// NewUploader makes an uploader; it does nothing before Run.
func NewUploader(o UploaderOptions) *Uploader {
	return &Uploader{o: o, wake: make(chan struct{}, 1)}
}

// Offer hands over a complete snapshot and does not wait for its upload. A lease keeps it from expiring until
// then. Errors: those of Store.Lease; ErrClosed.
func (u *Uploader) Offer(id checkpoint.ID, kind checkpoint.Kind) error {
	lease, err := u.o.Local.Lease("upload", id)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return errors.Join(ErrClosed, lease.Release())
	}
	rest := u.queue[:0]
	for _, q := range u.queue {
		if q.kind == checkpoint.KindSavepoint || kind == checkpoint.KindSavepoint {
			rest = append(rest, q)
			continue
		}
		u.skipped++
		err = errors.Join(err, q.lease.Release())
	}
	u.queue = append(rest, offered{id, kind, lease})
	select {
	case u.wake <- struct{}{}:
	default:
	}
	return err
}

// Run uploads until ctx is cancelled, which ends an upload under way: what it stored is removed by a later GC.
func (u *Uploader) Run(ctx context.Context) {
	defer u.close()
	for done := 0; ; {
		next, behind, ok := u.take()
		if !ok {
			select {
			case <-u.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		out := Uploaded{Behind: behind}
		out.Pushed, out.Err = u.o.Mirror.Push(ctx, u.o.Local, next.id)
		out.ID = next.id
		if out.Err == nil {
			done++
			out.Err = u.tidy(ctx, done)
		}
		out.Err = errors.Join(out.Err, next.lease.Release())
		if u.o.Report != nil {
			u.o.Report(out)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (u *Uploader) tidy(ctx context.Context, done int) error {
	if u.o.Retain > 0 {
		if _, err := u.o.Mirror.Retain(ctx, u.o.Retain); err != nil {
			return err
		}
	}
	if u.o.GCEvery > 0 && done%u.o.GCEvery == 0 {
		_, err := u.o.Mirror.GC(ctx)
		return err
	}
	return nil
}

func (u *Uploader) take() (next offered, behind int, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) == 0 {
		return next, 0, false
	}
	next, behind = u.queue[0], u.skipped
	u.queue, u.skipped = u.queue[1:], 0
	return next, behind, true
}

// close lets go of what was not uploaded.
func (u *Uploader) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, q := range u.queue {
		_ = q.lease.Release()
	}
	u.queue = nil
}
