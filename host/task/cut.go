package task

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/operators"
)

// cut is this task's part of one checkpoint while it is being written.
type cut struct {
	barrier checkpoint.Barrier
	pending []operators.Pending
	names   []string // operator of each
	snap    checkpoint.TaskSnapshot
	clock   *clocklog.Parts // nil: nothing was logged
	keep    func(context.Context, []byte) (string, int64, error)
	err     error
	written chan struct{} // closed when snap or err is there
}

// ErrBusy says that a task can't cut yet: it has not done with a checkpoint that was given up.
var ErrBusy = errors.New("is still writing")

// snapshot makes the task's cut at a barrier: the barrier goes on first, so that the tasks behind align
// early; then every operator freezes, and the writing is left to the background.
func (t *Task) snapshot(b checkpoint.Barrier) error {
	if b.Final {
		t.final = b.ID
	}
	for _, w := range t.writers {
		if err := w.barrier(b); err != nil {
			return err
		}
	}
	if t.cut != nil {
		t.decline(b.ID, fmt.Errorf("task %s %w checkpoint %d", t.cfg.ID, ErrBusy, t.cut.barrier.ID))
		return nil
	}
	crashpoint.Hit(crashpoint.AfterFlush)
	c := &cut{barrier: b, written: make(chan struct{}), snap: checkpoint.TaskSnapshot{
		Vertex: t.cfg.ID.Vertex, Task: t.cfg.ID.Index, Parallelism: t.cfg.Parallelism, Watermarks: slices.Clone(t.wms)}}
	if len(t.wms) > 0 {
		c.snap.Idle, c.snap.Ahead = t.idleChannels(), checkpoint.Ahead(t.merged, minOf(t.wms))
	}
	if t.cfg.Source != nil {
		c.snap.Finished = t.ended
		c.snap.Operators = append(c.snap.Operators, checkpoint.OperatorSnapshot{
			Operator: t.cfg.Stages[0].Node.ID, Splits: t.cfg.Source.Positions()})
	}
	c.clock, c.keep = t.cutClock(b.ID), t.cfg.Keep
	for _, s := range t.snaps {
		p, err := s.op.Barrier(b)
		if err != nil {
			t.decline(b.ID, fmt.Errorf("operator %s: %w", s.stage.Node.ID, err))
			return nil
		}
		c.pending = append(c.pending, p)
		c.names = append(c.names, s.stage.Node.ID)
	}
	t.swap(b.ID)
	t.cut = c
	go c.await(t.acks)
	return nil
}

// await gathers the operators' results as they become durable.
func (c *cut) await(acks chan<- *cut) {
	for i, p := range c.pending {
		<-p.Done()
		s, err := p.Result()
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("operator %s: %w", c.names[i], err)
		}
		c.snap.Operators = append(c.snap.Operators, s)
	}
	if c.clock != nil && c.err == nil {
		c.err = c.keepClock()
	}
	close(c.written)
	acks <- c
}

// acknowledge reports a cut that is written.
func (t *Task) acknowledge(c *cut) {
	t.cut = nil
	if c.err != nil {
		t.decline(c.barrier.ID, c.err)
		return
	}
	t.cfg.Report(Event{Task: t.cfg.ID, Kind: Ack, ID: c.barrier.ID, Snapshot: c.snap})
}

func (t *Task) decline(id checkpoint.ID, err error) {
	t.cfg.Report(Event{Task: t.cfg.ID, Kind: Decline, ID: id, Err: err})
}

// step lets operators do a bounded piece of what a cut left to this goroutine.
func (t *Task) step() (busy bool, err error) {
	for _, s := range t.snaps {
		b, err := s.op.Step()
		if err != nil {
			return false, fmt.Errorf("operator %s: %w", s.stage.Node.ID, err)
		}
		busy = busy || b
	}
	return busy, nil
}
