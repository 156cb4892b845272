package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/task"
)

// ErrEnded says that the job has ended, or is ending, so that nothing can be asked of it any more.
var ErrEnded = errors.New("the job has ended")

// request is somebody who wants a checkpoint.
type request struct {
	id        checkpoint.ID     // that serves it; 0: it has not started
	savepoint *SavepointRequest // nil: a checkpoint will do
	unlabeled error             // why tag or note were not written
	done      chan answer       // cap 1
}

type answer struct {
	id  checkpoint.ID
	err error
}

// busyPause is how long a request waits for a task to be done with a checkpoint that was given up.
const busyPause = 10 * time.Millisecond

// Checkpoint makes a checkpoint that starts after the call and returns when it is complete: its manifest is
// durable and the tasks are told to publish. A job that is not running yet, or restarts, is waited for.
// Errors: why the checkpoint was given up; ErrEnded; why the job failed; ctx's.
func (j *Job) Checkpoint(ctx context.Context) (checkpoint.ID, error) {
	return j.snapshot(ctx, &request{done: make(chan answer, 1)})
}

// snapshot asks until no task is held up by an earlier checkpoint: that one's failure is not this one's.
func (j *Job) snapshot(ctx context.Context, r *request) (checkpoint.ID, error) {
	for {
		id, err := j.ask(ctx, r)
		if !errors.Is(err, task.ErrBusy) {
			return id, err
		}
		select {
		case <-time.After(busyPause):
			r.id = 0
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (j *Job) ask(ctx context.Context, r *request) (checkpoint.ID, error) {
	select {
	case j.requests <- r:
	case <-j.ended:
		return 0, ErrEnded
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case a := <-r.done:
		return a.id, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// assign lets checkpoint id, which starts now, serve all who wait for one.
func (d *driver) assign(id checkpoint.ID) {
	for _, r := range d.asked {
		if r.id == 0 {
			r.id = id
		}
	}
}

// answer tells those whom checkpoint id serves how it went.
func (d *driver) answer(id checkpoint.ID, err error) {
	rest := d.asked[:0]
	for _, r := range d.asked {
		switch {
		case r.id != id:
			rest = append(rest, r)
		case err != nil && r.ends(): // the last checkpoint is tried again
			r.id = 0
			rest = append(rest, r)
		case err == nil:
			r.done <- answer{id, r.unlabeled}
		default:
			r.done <- answer{id, err}
		}
	}
	clear(d.asked[len(rest):])
	d.asked = rest
}

// refuse tells those who still wait that this attempt has ended.
func (d *driver) refuse(err error) {
	if err == nil {
		err = ErrEnded
	} else {
		err = fmt.Errorf("no checkpoint: %w", err)
	}
	for _, r := range d.asked {
		r.done <- answer{0, err}
	}
	d.asked = nil
}
