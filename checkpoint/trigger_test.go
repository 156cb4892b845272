package checkpoint

import "testing"

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
