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

	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators/stateview"
)

// Serve answers calls from in on out until in ends, which ends the pipeline too: a worker does not outlive
// whoever started it. Options.Log and Event are replaced by messages.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	w := &wire{out: out, in: bufio.NewReader(in)}
	o.Event = func(e job.Event) { _ = w.send(message{Event: &e}) }
	o.Log = slog.New(&wireLog{w: w})
	l := NewLocal(o)
	defer l.Close()
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		m, err := w.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		calls.Go(func() { _ = w.send(answer(ctx, l, m)) })
	}
}

func answer(ctx context.Context, l *Local, m message) message {
	out := message{Seq: m.Seq}
	body, err := dispatch(ctx, l, m)
	if body != nil {
		b, merr := json.Marshal(body)
		out.Body = b
		err = errors.Join(err, merr)
	}
	if err != nil {
		out.Error = &Error{Classify(err), err.Error()}
	}
	return out
}

func dispatch(ctx context.Context, l *Local, m message) (any, error) {
	switch m.Call {
	case callDeploy:
		var d Deploy
		if err := json.Unmarshal(m.Body, &d); err != nil {
			return nil, err
		}
		return nil, l.Deploy(ctx, d)
	case callStats:
		return l.Stats(ctx)
	case callBarrier:
		return l.Barrier(ctx)
	case callSavepoint:
		var r job.SavepointRequest
		if err := json.Unmarshal(m.Body, &r); err != nil {
			return nil, err
		}
		return l.Savepoint(ctx, r)
	case callSnapshots:
		var c storechange.Change
		if err := json.Unmarshal(m.Body, &c); err != nil {
			return nil, err
		}
		return l.ChangeSnapshots(ctx, c)
	case callChange:
		var c Change
		if err := json.Unmarshal(m.Body, &c); err != nil {
			return nil, err
		}
		return l.Change(ctx, c)
	case callCanary:
		var c Canary
		if err := json.Unmarshal(m.Body, &c); err != nil {
			return nil, err
		}
		return l.Canary(ctx, c)
	case callQuery:
		var q stateview.Request
		if err := json.Unmarshal(m.Body, &q); err != nil {
			return nil, err
		}
		return l.Query(ctx, q)
	case callStop:
		var s Stop
		if err := json.Unmarshal(m.Body, &s); err != nil {
			return nil, err
		}
		return nil, l.Stop(ctx, s)
	case callWait:
		return l.Wait(ctx)
	}
	return nil, fmt.Errorf("unknown call %q", m.Call)
}

func isRefused(err error) bool {
	var r *engine.Refused
	return errors.As(err, &r)
}

// wireLog sends log records to the other side.
type wireLog struct {
	w     *wire
	attrs []slog.Attr
}

// Enabled implements slog.Handler: the other side decides.
func (h *wireLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h *wireLog) Handle(_ context.Context, r slog.Record) error {
	l := &logLine{Level: r.Level.String(), Text: r.Message, Attrs: map[string]any{}}
	for _, a := range h.attrs {
		l.Attrs[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		l.Attrs[a.Key] = a.Value.String()
		return true
	})
	return h.w.send(message{Log: l})
}

// WithAttrs implements slog.Handler.
func (h *wireLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &wireLog{w: h.w, attrs: append(append([]slog.Attr(nil), h.attrs...), attrs...)}
}

// WithGroup implements slog.Handler; groups are flattened.
func (h *wireLog) WithGroup(string) slog.Handler { return h }
