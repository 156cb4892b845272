package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/checkpoint/archive"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/checkpoint/storechange"
	"github.com/millrace-io/millrace/host/control"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/worker"
)

// served is the pipeline of this process as other processes see it.
type served struct {
	w       worker.Worker
	info    control.Info // all but code and Stats
	stopped atomic.Bool  // at once, by another process

	mu     sync.Mutex
	server *control.Server
	closed bool
}

func newServed(w worker.Worker, d worker.Deploy) *served {
	p := &served{w: w, info: control.Info{PID: os.Getpid(), Version: job.Version, Pipeline: d.Graph.Name, File: d.Graph.File,
		StateDir: d.StateDir, StartedMS: time.Now().UnixMilli()}}
	if abs, err := filepath.Abs(d.StateDir); err == nil {
		p.info.StateDir = abs
	}
	return p
}

// serve starts to answer, once the pipeline runs and so has its state folder.
func (p *served) serve(stateDir string, t *talk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	var err error
	if p.server, err = control.Serve(stateDir, p); err != nil {
		t.line("note: other processes can't talk to this run: %v", err)
	}
}

// close ends that; before the state folder is given up.
func (p *served) close(t *talk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; p.server == nil {
		return
	}
	if err := p.server.Close(); err != nil {
		t.line("note: control socket: %v", err)
	}
	p.server = nil
}

// Info implements control.Pipeline.
func (p *served) Info(ctx context.Context) (control.Info, error) {
	st, err := p.w.Stats(ctx)
	if err != nil {
		return control.Info{}, controlError(err)
	}
	in := p.info
	in.Digest = st.Pipeline
	for _, m := range st.Modules {
		in.Modules = append(in.Modules, control.Module{Operator: m.Operator, Path: m.Path, Digest: m.Digest})
	}
	in.Stats = control.Stats{Read: st.Read, Watermark: st.Watermark, Checkpoint: st.Checkpoint, CheckpointAgeMS: st.CheckpointAge,
		Checkpoints: st.Checkpoints, Failed: st.Failed, LastFailure: st.LastFailure, FailuresInARow: st.FailuresInARow,
		Restarts: st.Restarts, Paused: st.Paused, QueuedBytes: st.QueuedBytes}
	for _, o := range st.Operators {
		in.Stats.Operators = append(in.Stats.Operators, control.OperatorStats{ID: o.ID, Kind: o.Kind, Counters: o.Counters, Watermark: o.Watermark, Unanswered: o.Unanswered, LagMS: lag(o.Watermark)})
	}
	if r := st.Remote; r != nil {
		in.Stats.Remote = &control.Remote{URL: r.URL, Uploaded: r.Uploaded, UploadedMS: r.UploadedMS, Uploading: r.Uploading, Behind: r.Behind,
			Uploads: r.Uploads, Bytes: r.Bytes, Failures: r.Failures, LastFailure: r.LastFailure}
	}
	inForce(&in, &st)
	return in, nil
}

// Savepoint implements control.Pipeline.
func (p *served) Savepoint(ctx context.Context, r control.SavepointRequest) (control.Savepoint, error) {
	start := time.Now()
	sp, err := p.w.Savepoint(ctx, job.SavepointRequest{Tag: r.Tag, Note: r.Note, Stop: r.Stop})
	if err != nil {
		return control.Savepoint{}, controlError(err)
	}
	out := control.Savepoint{ID: sp.ID, Tag: r.Tag, CreatedMS: sp.CreatedMS, Millis: time.Since(start).Milliseconds(),
		Bytes: sp.Bytes, StoredBytes: sp.StoredBytes}
	if r.Stop { // the answer is to come when the state folder is free
		_, err := p.w.Wait(ctx)
		out.Stopped = err == nil
	}
	return out, nil
}

// ChangeSnapshots implements control.Pipeline.
func (p *served) ChangeSnapshots(ctx context.Context, c storechange.Change) (storechange.Changed, error) {
	out, err := p.w.ChangeSnapshots(ctx, c)
	if err != nil {
		return out, controlError(err)
	}
	return out, nil
}

// Stop implements control.Pipeline.
func (p *served) Stop(ctx context.Context, r control.StopRequest) (control.Stopped, error) {
	if r.Now {
		p.stopped.Store(true)
	}
	if err := p.w.Stop(ctx, worker.Stop{Now: r.Now}); err != nil {
		return control.Stopped{}, controlError(err)
	}
	res, err := p.w.Wait(ctx)
	if err != nil && !r.Now {
		return control.Stopped{}, controlError(err)
	}
	return control.Stopped{Checkpoint: res.Checkpoint, Complete: res.Complete}, nil
}

// errStoppedAtOnce is how a run ends that another process stopped so.
var errStoppedAtOnce = errors.New("stopped at once by another process, without a checkpoint")

// controlKinds translates a worker's errors.
var controlKinds = map[worker.ErrorKind]control.Kind{
	worker.KindRefused: control.KindRefused, worker.KindDamaged: control.KindDamaged, worker.KindGuest: control.KindGuest,
	worker.KindGone: control.KindEnded,
}

// controlError gives an error its kind for the other side.
func controlError(err error) error {
	kind, ok := controlKinds[worker.Classify(err)]
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the other side went
		kind = control.KindFailed
	case errors.Is(err, snapstore.ErrLeased), errors.Is(err, job.ErrBusy):
		kind = control.KindBusy
	case errors.Is(err, snapstore.ErrDamaged), errors.Is(err, archive.ErrDamaged):
		kind = control.KindDamaged
	case refusedByStore(err):
		kind = control.KindRefused
	case errors.Is(err, job.ErrEnded):
		kind = control.KindEnded
	case !ok:
		kind = control.KindFailed
	}
	return &control.Error{Kind: kind, Message: err.Error()}
}

var _ control.Pipeline = (*served)(nil)
