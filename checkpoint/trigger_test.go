package checkpoint

import (
	"fmt"
	"testing"
)

func TestTriggerStartsOneAtOnce(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) { o.IntervalMS = 0 })
	d.expect(10, Trigger{}, "barrier 1")
	d.expect(11, Tick{}, "")
	d.acks(12, 1)
	d.expect(13, ManifestWritten{ID: 1}, "complete 1")
	d.expect(9000, Tick{}, "")
	d.expect(9001, Trigger{}, "barrier 2")
}

// What was asked for while one is under way starts after it, once, however often it was asked for.
func TestTriggerDuringACheckpointWaitsForIt(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(10, Trigger{}, "barrier 1")
	d.expect(11, Trigger{}, "")
	d.expect(11, Trigger{}, "")
	d.acks(12, 1)
	d.expect(13, ManifestWritten{ID: 1}, "complete 1, barrier 2")
	d.expect(14, Decline{ID: 2, Task: TaskID{"in", 0}, Reason: ErrTimeout}, "abort 2")
	if at, ok := d.c.NextWake(); !ok || at != 1013 {
		t.Errorf("next wake at %d, %v: a triggered checkpoint that failed is not tried again by itself", at, ok)
	}
}

func TestTriggerWhileStoppingIsServedByTheFinalOne(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(10, Trigger{}, "barrier 1")
	d.expect(11, Trigger{}, "")
	d.expect(12, Stop{}, "")
	d.acks(12, 1)
	d.expect(12, ManifestWritten{ID: 1}, "complete 1, barrier 2 final")
	d.acks(13, 2)
	d.expect(14, ManifestWritten{ID: 2}, "complete 2, done 2 finished=false")
	d.expect(15, Trigger{}, "")
}

// A savepoint is one cut of its own kind; the checkpoints around it stay checkpoints, and each names the
// snapshot before it, of whatever kind.
func TestTriggerOfASavepoint(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) { o.IntervalMS = 0 })
	parent := ID(0)
	round := func(id ID, ev Event, want Kind) {
		t.Helper()
		d.expect(int64(id), ev, fmt.Sprint("barrier ", id))
		d.acks(int64(id), id)
		if d.m.Kind != want || d.m.Parent != parent {
			t.Errorf("snapshot %d: kind %v, parent %d; want %v, %d", id, d.m.Kind, d.m.Parent, want, parent)
		}
		d.expect(int64(id), ManifestWritten{ID: id}, fmt.Sprint("complete ", id))
		parent = id
	}
	round(1, Trigger{}, KindCheckpoint)
	round(2, Trigger{Savepoint: true}, KindSavepoint)
	round(3, Trigger{}, KindCheckpoint)
}

// One that was asked for as a checkpoint and as a savepoint is a savepoint; one that fails is not retried.
func TestTriggerOfASavepointIsSharedAndNotRepeated(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) { o.IntervalMS = 0 })
	d.expect(1, Trigger{}, "barrier 1")
	d.expect(2, Trigger{Savepoint: true}, "")
	d.expect(2, Trigger{}, "")
	d.acks(3, 1)
	if d.m.Kind != KindCheckpoint {
		t.Error("a checkpoint under way became a savepoint")
	}
	d.expect(4, ManifestWritten{ID: 1}, "complete 1, barrier 2")
	d.expect(5, Decline{ID: 2, Task: TaskID{"in", 0}, Reason: ErrTimeout}, "abort 2")
	d.expect(6, Trigger{}, "barrier 3")
	d.acks(7, 3)
	if d.m.Kind != KindCheckpoint {
		t.Error("a savepoint that failed came again unasked")
	}
}
