package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/task"
)

// driver runs one attempt: it carries the coordinator's effects out and tells it what happens.
type driver struct {
	*attempt
	coord    *checkpoint.Coordinator
	ended    int // source tasks that have read everything
	opened   int
	commits  map[checkpoint.ID]int // tasks that have committed it
	kinds    map[checkpoint.ID]checkpoint.Kind
	finished int
	written  chan checkpoint.ManifestWritten
	last     *checkpoint.JobDone
	started  map[checkpoint.ID]int64 // Mono
	timer    *time.Timer
	asked    []*request // for checkpoints
	writers  sync.WaitGroup
	swap     *swapRequest   // under way, nil: none
	change   *changeRequest // that ends the attempt, nil: none
}

// drive returns when every task has ended: nil after the final checkpoint.
func (d *driver) drive(ctx context.Context) error {
	run, cancel := context.WithCancel(ctx)
	wait := d.start(run)
	err := d.loop(run)
	cancel()
	for _, g := range d.guests {
		g.Stop()
	}
	for _, w := range d.windows {
		w.Stop()
	}
	go func() { // tasks that end still report
		for range d.events {
		}
	}()
	wait()
	close(d.events)
	// A manifest still being written may become complete: the next attempt has to see it, or it would
	// start from an older one and remove what that one staged.
	d.writers.Wait()
	d.refuse(err)
	d.job.undone = d.dropSwap(ctx, err)
	if d.change != nil {
		d.job.change = d.change
	}
	return err
}

func (d *driver) loop(ctx context.Context) error {
	d.timer = time.NewTimer(time.Hour)
	defer d.timer.Stop()
	stop := d.job.stopped
	for d.finished < len(d.tasks) {
		d.sleepUntilWake()
		var requests chan *request
		var swaps chan *swapRequest
		var changes chan *changeRequest
		if d.opened == len(d.tasks) && d.change == nil {
			requests, swaps, changes = d.job.requests, d.job.swaps, d.job.changes
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-d.events:
			err = d.taskEvent(ctx, e)
		case w := <-d.written:
			err = d.step(ctx, w)
		case <-stop:
			stop = nil
			err = d.step(ctx, checkpoint.Stop{})
		case r := <-requests:
			if d.job.heldBack(r) {
				continue
			}
			d.asked = append(d.asked, r)
			err = d.step(ctx, r.trigger())
		case r := <-swaps:
			err = d.beginSwap(ctx, r)
		case r := <-changes:
			err = d.beginChange(ctx, r)
		case <-d.timer.C:
			err = d.step(ctx, checkpoint.Tick{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) sleepUntilWake() {
	wait := time.Hour
	if at, ok := d.coord.NextWake(); ok && d.opened == len(d.tasks) {
		wait = max(0, time.Duration(at-d.mono()/1e6)*time.Millisecond)
	}
	d.timer.Reset(wait)
}

func (d *driver) mono() int64 { return d.job.opts.Clock.Mono() }

// taskEvent turns what a task says into the coordinator's events.
func (d *driver) taskEvent(ctx context.Context, e task.Event) error {
	id := checkpoint.TaskID{Vertex: e.Task.Vertex, Task: e.Task.Index}
	switch e.Kind {
	case task.Opened:
		if d.opened++; d.opened == len(d.tasks) {
			d.running()
			return d.step(ctx, checkpoint.Tick{})
		}
	case task.Ack:
		return d.step(ctx, checkpoint.Ack{ID: e.ID, Snapshot: e.Snapshot})
	case task.Decline:
		return d.step(ctx, checkpoint.Decline{ID: e.ID, Task: id, Reason: e.Err})
	case task.InputEnded:
		if d.ended++; d.ended == len(d.sources) {
			return d.step(ctx, checkpoint.InputEnded{})
		}
	case task.Committed:
		d.committed(e.ID)
	case task.Finished:
		d.finished++
	case task.Failed:
		return fmt.Errorf("task %s: %w", e.Task, e.Err)
	}
	return nil
}

// committed notes that a task has committed a checkpoint.
func (d *driver) committed(id checkpoint.ID) {
	if d.commits[id]++; d.commits[id] == len(d.tasks) {
		delete(d.commits, id)
		d.job.published(id, d.kinds[id])
		delete(d.kinds, id)
		crashpoint.Hit(crashpoint.AfterCommit)
	}
}

func (d *driver) step(ctx context.Context, ev checkpoint.Event) error {
	queue := []checkpoint.Event{ev}
	for len(queue) > 0 {
		now := checkpoint.Instant{MonoMS: d.mono() / 1e6, WallMS: d.job.opts.Clock.NowMS()}
		effects := d.coord.Step(now, queue[0])
		queue = queue[1:]
		for _, fx := range effects {
			more, err := d.effect(ctx, fx)
			if err != nil {
				return err
			}
			if more != nil {
				queue = append(queue, more)
			}
		}
	}
	d.job.checkpoints(d.coord.Stats())
	return nil
}

// effect carries one effect out; answer is an event it gives rise to at once.
func (d *driver) effect(ctx context.Context, fx checkpoint.Effect) (answer checkpoint.Event, err error) {
	store := d.job.store
	switch fx := fx.(type) {
	case checkpoint.ReserveIDs:
		first, err := store.Reserve(fx.N)
		return checkpoint.IDsReserved{First: first, N: fx.N, Err: err}, nil
	case checkpoint.InjectBarrier:
		if fx.Barrier.Final {
			crashpoint.Hit(crashpoint.BeforeFinal)
		}
		store.Begin(fx.Barrier.ID)
		d.assign(fx.Barrier.ID)
		d.started[fx.Barrier.ID] = d.mono()
		if fx.Next != nil {
			if err := d.carried(ctx, fx.Barrier.ID); err != nil {
				return nil, err
			}
		}
		for _, t := range d.sources {
			t.Control(task.Control{Barrier: &fx.Barrier})
		}
	case checkpoint.AbortCheckpoint:
		store.Abandon(fx.ID)
		d.answer(fx.ID, fx.Reason)
		d.job.event(Event{Kind: EventAborted, Checkpoint: fx.ID, Message: fx.Reason.Error()})
		for _, t := range d.tasks {
			t.Control(task.Control{Abort: fx.ID})
		}
	case checkpoint.WriteManifest:
		fx.Manifest.States = StateRefs(d.job.opts.Graph) // as the code before the barrier declares them
		named := d.named(fx.Manifest.ID)
		d.kinds[fx.Manifest.ID] = fx.Manifest.Kind
		d.writers.Go(func() { d.write(ctx, fx.Manifest, named) })
	case checkpoint.NotifyComplete:
		d.job.event(Event{Kind: EventCheckpoint, Checkpoint: fx.ID, Millis: (d.mono() - d.started[fx.ID]) / 1e6})
		clear(d.started)
		for _, t := range d.tasks {
			t.Control(task.Control{Complete: fx.ID, Held: fx.Held})
		}
		d.answer(fx.ID, nil)
		d.swapped(fx.ID, fx.Held)
	case checkpoint.JobDone:
		d.last = &fx
	case checkpoint.FailJob:
		return nil, fx.Reason
	}
	return nil, nil
}

// write makes a checkpoint complete and drops what it makes superfluous.
func (d *driver) write(ctx context.Context, m *checkpoint.Manifest, named []*request) {
	err := d.job.store.WriteManifest(ctx, m)
	var uncertain *snapstore.UncertainError
	w := checkpoint.ManifestWritten{ID: m.ID, Err: err, Uncertain: errors.As(err, &uncertain)}
	if err == nil {
		for _, r := range named {
			r.unlabeled = d.job.label(m.ID, r.savepoint)
		}
		if _, rerr := d.job.store.Retain(ctx, d.job.opts.Graph.Checkpoint.Retain); rerr != nil {
			d.job.warn("old checkpoints can't be dropped: " + rerr.Error())
		}
	}
	select {
	case d.written <- w:
	case <-ctx.Done():
	}
}
