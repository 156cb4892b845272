package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/job"
)

// Remote is a worker at the other end of a pair of pipes, in a process of its own.
type Remote struct {
	w     wire
	close func() error
	log   *slog.Logger
	event func(job.Event)

	mu      sync.Mutex
	seq     uint64
	waiting map[uint64]chan message
	gone    chan struct{}
	err     error
}

// NewRemote talks over in and out; close is called by Close.
func NewRemote(in io.Reader, out io.Writer, close func() error, o Options) *Remote {
	r := &Remote{w: wire{out: out, in: bufio.NewReader(in)}, close: close, log: o.Log, event: o.Event,
		waiting: map[uint64]chan message{}, gone: make(chan struct{})}
	go r.read()
	return r
}

func (r *Remote) read() {
	for {
		m, err := r.w.receive()
		if err != nil {
			r.mu.Lock()
			r.err = &Error{KindGone, fmt.Sprintf("the worker process has ended: %v", err)}
			r.mu.Unlock()
			close(r.gone)
			return
		}
		switch {
		case m.Event != nil && r.event != nil:
			r.event(*m.Event)
		case m.Log != nil && r.log != nil:
			r.logged(m.Log)
		case m.Seq != 0:
			r.mu.Lock()
			c := r.waiting[m.Seq]
			delete(r.waiting, m.Seq)
			r.mu.Unlock()
			if c != nil {
				c <- m
			}
		}
	}
}

func (r *Remote) logged(l *logLine) {
	var level slog.Level
	if level.UnmarshalText([]byte(l.Level)) != nil {
		level = slog.LevelInfo
	}
	attrs := make([]any, 0, 2*len(l.Attrs))
	for k, v := range l.Attrs {
		attrs = append(attrs, k, v)
	}
	r.log.Log(context.Background(), level, l.Text, attrs...)
}

// call sends one request and waits for its answer.
func (r *Remote) call(ctx context.Context, name string, body, answer any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	c := make(chan message, 1)
	r.mu.Lock()
	r.seq++
	seq := r.seq
	r.waiting[seq] = c
	r.mu.Unlock()
	if err := r.w.send(message{Seq: seq, Call: name, Body: b}); err != nil {
		select {
		case <-r.gone:
			return r.err
		default:
			return &Error{KindGone, fmt.Sprintf("the worker process does not listen: %v", err)}
		}
	}
	select {
	case m := <-c:
		if answer != nil && len(m.Body) > 0 {
			if err := json.Unmarshal(m.Body, answer); err != nil {
				return err
			}
		}
		if m.Error != nil {
			return m.Error
		}
		return nil
	case <-r.gone:
		return r.err
	case <-ctx.Done():
		r.mu.Lock()
		delete(r.waiting, seq)
		r.mu.Unlock()
		return ctx.Err()
	}
}

// Deploy implements Worker.
func (r *Remote) Deploy(ctx context.Context, d Deploy) error { return r.call(ctx, callDeploy, d, nil) }

// Stats implements Worker.
func (r *Remote) Stats(ctx context.Context) (s job.Stats, err error) {
	err = r.call(ctx, callStats, nil, &s)
	return s, err
}

// Barrier implements Worker.
func (r *Remote) Barrier(ctx context.Context) (id checkpoint.ID, err error) {
	err = r.call(ctx, callBarrier, nil, &id)
	return id, err
}

// Savepoint implements Worker.
func (r *Remote) Savepoint(ctx context.Context, q job.SavepointRequest) (sp job.Savepoint, err error) {
	err = r.call(ctx, callSavepoint, q, &sp)
	return sp, err
}

// ChangeSnapshots implements Worker.
func (r *Remote) ChangeSnapshots(ctx context.Context, c storechange.Change) (out storechange.Changed, err error) {
	err = r.call(ctx, callSnapshots, c, &out)
	return out, err
}

// Change implements Worker.
func (r *Remote) Change(ctx context.Context, c Change) (out Changed, err error) {
	err = r.call(ctx, callChange, c, &out)
	return out, err
}

// Canary implements Worker.
func (r *Remote) Canary(ctx context.Context, c Canary) (out CanaryDone, err error) {
	err = r.call(ctx, callCanary, c, &out)
	return out, err
}

// Stop implements Worker.
func (r *Remote) Stop(ctx context.Context, s Stop) error { return r.call(ctx, callStop, s, nil) }

// Wait implements Worker.
func (r *Remote) Wait(ctx context.Context) (res job.Result, err error) {
	err = r.call(ctx, callWait, nil, &res)
	return res, err
}

// Close ends the connection; the process is the opener's.
func (r *Remote) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

var _ Worker = (*Remote)(nil)

// Gone says that err means the worker process is no longer there.
func Gone(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == KindGone
}
