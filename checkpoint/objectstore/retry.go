package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Timing is the time of retries, so that tests need not wait.
type Timing interface {
	// Sleep returns after d, or earlier with ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
	// After calls f in a goroutine after d, unless stop is called before.
	After(d time.Duration, f func()) (stop func())
}

// Real is the time of the machine.
type Real struct{}

// Sleep implements Timing.
func (Real) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// After implements Timing.
func (Real) After(d time.Duration, f func()) (stop func()) {
	t := time.AfterFunc(d, f)
	return func() { t.Stop() }
}

// ErrStalled: an attempt took longer than it may.
var ErrStalled = errors.New("no answer in time")

// RetryOptions limit retries. Zero values mean the defaults.
type RetryOptions struct {
	Attempts int           // 6
	First    time.Duration // pause after the first failure, doubled each time: 100 ms
	Longest  time.Duration // pause: 10 s
	// Stall is how long an attempt may take, and how long a body may be without a byte: 20 s; for a Put
	// that plus a second per MiB.
	Stall  time.Duration
	Timing Timing // Real
}

// Retry repeats what fails for reasons that may go away. Of an uncertain Put with onlyNew the repetition says
// ErrExists where the first attempt had succeeded: the caller looks whose it is.
func Retry(s Store, o RetryOptions) Store {
	if o.Attempts == 0 {
		o.Attempts = 6
	}
	if o.First == 0 {
		o.First = 100 * time.Millisecond
	}
	if o.Longest == 0 {
		o.Longest = 10 * time.Second
	}
	if o.Stall == 0 {
		o.Stall = 20 * time.Second
	}
	if o.Timing == nil {
		o.Timing = Real{}
	}
	return &retry{s, o}
}

type retry struct {
	inner Store
	o     RetryOptions
}

func permanent(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrExists) || errors.Is(err, ErrRefused)
}

// do repeats f until it succeeds, fails for good, or too often.
func (r *retry) do(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	pause := r.o.First
	for n := 1; ; n++ {
		err := r.attempt(ctx, limit, f)
		if err == nil || permanent(err) || ctx.Err() != nil {
			return err
		}
		if n == r.o.Attempts {
			return fmt.Errorf("after %d attempts: %w", n, err)
		}
		if err := r.o.Timing.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, r.o.Longest)
	}
}

func (r *retry) attempt(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	try, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := r.o.Timing.After(limit, func() { cancel(fmt.Errorf("%w: %v", ErrStalled, limit)) })
	defer stop()
	err := f(try)
	if err != nil && ctx.Err() == nil && context.Cause(try) != nil {
		return context.Cause(try)
	}
	return err
}

// Put implements Store.
func (r *retry) Put(ctx context.Context, key string, body io.ReaderAt, size int64, onlyNew bool) error {
	limit := r.o.Stall + time.Duration(size>>20)*time.Second
	return r.do(ctx, limit, func(ctx context.Context) error { return r.inner.Put(ctx, key, body, size, onlyNew) })
}

// Get implements Store. A body that fails is not read again: see ReadAll and the mirror's downloads, which
// begin anew.
func (r *retry) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	var body io.ReadCloser
	pause := r.o.First
	for n := 1; ; n++ {
		// The attempt's context lives as long as the body.
		try, cancel := context.WithCancelCause(ctx)
		stall := func() func() {
			return r.o.Timing.After(r.o.Stall, func() { cancel(fmt.Errorf("%w: %v", ErrStalled, r.o.Stall)) })
		}
		stop := stall()
		b, err := r.inner.Get(try, key)
		stop()
		if err == nil {
			body = &watched{b, try, cancel, stall}
			return body, nil
		}
		if ctx.Err() == nil && context.Cause(try) != nil {
			err = context.Cause(try)
		}
		cancel(nil)
		if permanent(err) || ctx.Err() != nil {
			return nil, err
		}
		if n == r.o.Attempts {
			return nil, fmt.Errorf("after %d attempts: %w", n, err)
		}
		if err := r.o.Timing.Sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, r.o.Longest)
	}
}

// watched gives a body up that stalls.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	stall  func() (stop func())
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	stop := w.stall()
	defer stop()
	n, err := w.ReadCloser.Read(p)
	if err != nil && err != io.EOF && context.Cause(w.ctx) != nil {
		err = context.Cause(w.ctx)
	}
	return n, err
}

// Close implements io.Closer.
func (w *watched) Close() error {
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}

// List implements Store.
func (r *retry) List(ctx context.Context, prefix string) (out []Entry, err error) {
	err = r.do(ctx, r.o.Stall*3, func(ctx context.Context) error {
		out, err = r.inner.List(ctx, prefix)
		return err
	})
	return out, err
}

// Delete implements Store.
func (r *retry) Delete(ctx context.Context, key string) error {
	return r.do(ctx, r.o.Stall, func(ctx context.Context) error { return r.inner.Delete(ctx, key) })
}
