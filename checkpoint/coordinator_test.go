package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func twoVertices(change func(*CoordinatorOptions)) CoordinatorOptions {
	opt := CoordinatorOptions{
		Template: Manifest{Job: "j"},
		Vertices: []Vertex{{"in", 2, true}, {"count", 1, false}}, IntervalMS: 1000, TimeoutMS: 5000,
	}
	if change != nil {
		change(&opt)
	}
	return opt
}

func snap(vertex string, task, parallelism int) TaskSnapshot {
	return TaskSnapshot{Vertex: vertex, Task: task, Parallelism: parallelism}
}

// driver steps a coordinator and writes effects down as text.
type driver struct {
	t *testing.T
	c *Coordinator
	m *Manifest // last one to write
}

func newDriver(t *testing.T, change func(*CoordinatorOptions)) *driver {
	c, err := NewCoordinator(twoVertices(change))
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, c: c}
	d.expect(0, Tick{}, "reserve 16")
	d.expect(0, IDsReserved{First: 1, N: 16}, "")
	return d
}

func (d *driver) expect(ms int64, ev Event, want string) {
	d.t.Helper()
	var words []string
	for _, e := range d.c.Step(Instant{MonoMS: ms, WallMS: ms + 1e12}, ev) {
		switch e := e.(type) {
		case ReserveIDs:
			words = append(words, fmt.Sprint("reserve ", e.N))
		case InjectBarrier:
			words = append(words, strings.TrimSuffix(fmt.Sprintf("barrier %d final", e.Barrier.ID), map[bool]string{false: " final"}[e.Barrier.Final]))
		case AbortCheckpoint:
			words = append(words, fmt.Sprint("abort ", e.ID))
		case WriteManifest:
			d.m = e.Manifest
			if _, err := Encode(e.Manifest); err != nil {
				d.t.Errorf("manifest %d: %v", e.Manifest.ID, err)
			}
			words = append(words, fmt.Sprint("write ", e.Manifest.ID))
		case NotifyComplete:
			words = append(words, fmt.Sprint("complete ", e.ID))
		case JobDone:
			words = append(words, fmt.Sprintf("done %d finished=%v", e.ID, e.Finished))
		case FailJob:
			words = append(words, "fail")
		}
	}
	if got := strings.Join(words, ", "); got != want {
		d.t.Fatalf("at %d ms %T%+v: got %q, want %q", ms, ev, ev, got, want)
	}
}

// acks acknowledges id for all three tasks.
func (d *driver) acks(ms int64, id ID) {
	d.t.Helper()
	d.expect(ms, Ack{id, snap("in", 0, 2)}, "")
	d.expect(ms, Ack{id, snap("count", 0, 1)}, "")
	d.expect(ms, Ack{id, snap("in", 1, 2)}, fmt.Sprint("write ", id))
}

func TestCheckpointsFollowTheInterval(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(999, Tick{}, "")
	d.expect(1000, Tick{}, "barrier 1")
	if at, ok := d.c.NextWake(); !ok || at != 6000 {
		t.Errorf("wake at %d %v, want the time-out", at, ok)
	}
	d.acks(1500, 1)
	d.expect(2500, Tick{}, "") // never two at a time
	d.expect(2600, ManifestWritten{ID: 1}, "complete 1, barrier 2")
	d.acks(2700, 2)
	d.expect(2700, ManifestWritten{ID: 2}, "complete 2")
	if at, ok := d.c.NextWake(); !ok || at != 3600 {
		t.Errorf("wake at %d %v, want a second after the last start", at, ok)
	}
}

// TestC024FailuresDoNotPoison: 3 of 6 fails to be written, the rest completes; declines and time-outs
// too; failures in a row are counted and the first good one resets the count.
func TestC024FailuresDoNotPoison(t *testing.T) {
	d := newDriver(t, nil)
	for id := ID(1); id <= 6; id++ {
		at := int64(id) * 1000
		d.expect(at, Tick{}, fmt.Sprint("barrier ", id))
		d.acks(at, id)
		if id == 3 {
			d.expect(at, ManifestWritten{ID: 3, Err: errors.New("disk full")}, "abort 3")
			continue
		}
		d.expect(at, ManifestWritten{ID: id}, fmt.Sprint("complete ", id))
	}
	d.expect(7000, Tick{}, "barrier 7")
	d.expect(7100, Decline{7, TaskID{"count", 0}, errors.New("no")}, "abort 7")
	d.expect(7200, Ack{7, snap("in", 0, 2)}, "")
	d.expect(8000, Tick{}, "barrier 8")
	d.expect(13000, Tick{}, "abort 8, barrier 9")
	s := d.c.Stats()
	if s.ConsecutiveFailures != 2 || s.Failed != 3 || !errors.Is(s.LastFailure, ErrTimeout) ||
		!strings.Contains(s.LastFailure.Error(), "no word from in/0, in/1, count/0") {
		t.Errorf("%+v", s)
	}
	d.acks(13100, 9)
	d.expect(13100, ManifestWritten{ID: 9}, "complete 9")
	if s := d.c.Stats(); s.ConsecutiveFailures != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTooManyFailuresInARowFailTheJob(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) { o.MaxFailures = 2 })
	d.expect(1000, Tick{}, "barrier 1")
	d.expect(1000, Decline{1, TaskID{"in", 0}, errors.New("no")}, "abort 1")
	d.expect(2000, Tick{}, "barrier 2")
	d.expect(2000, Decline{2, TaskID{"in", 0}, errors.New("no")}, "abort 2, fail")
	d.expect(9000, Tick{}, "")
}

// TestC025FinishedTasksStandStill: a finished source blocks nothing, is recorded as finished, and the end
// of all tasks makes a last checkpoint without a barrier.
func TestC025FinishedTasksStandStill(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(500, TaskFinished{Snapshot: snap("in", 0, 2)}, "")
	d.expect(1000, Tick{}, "barrier 1")
	d.expect(1000, Ack{1, snap("in", 1, 2)}, "")
	d.expect(1000, Ack{1, snap("count", 0, 1)}, "write 1")
	if !d.m.Tasks[0].Finished || d.m.Tasks[1].Finished || d.m.Finished {
		t.Errorf("%+v", d.m)
	}
	d.expect(1000, ManifestWritten{ID: 1}, "complete 1")
	d.expect(2000, Tick{}, "barrier 2")
	d.expect(2100, TaskFinished{Snapshot: snap("in", 1, 2)}, "")
	d.expect(2200, TaskFinished{Snapshot: snap("count", 0, 1)}, "write 2")
	if !d.m.Finished {
		t.Error("a checkpoint of finished tasks only is not called finished")
	}
	d.expect(2300, ManifestWritten{ID: 2}, "complete 2, done 2 finished=true")
}

// TestFinishBeforeTheAcknowledgement: a task cut, went on, and ended while its snapshot was being written.
func TestFinishBeforeTheAcknowledgement(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(1000, Tick{}, "barrier 1")
	d.expect(1000, Ack{1, snap("in", 1, 2)}, "")
	d.expect(1000, Ack{1, snap("count", 0, 1)}, "")
	d.expect(1100, TaskFinished{Snapshot: snap("in", 0, 2), LastCut: 1}, "")
	d.expect(1200, Ack{1, snap("in", 0, 2)}, "write 1")
	if d.m.Tasks[0].Finished {
		t.Error("the end of a task stands for its cut before it")
	}
}

func TestSourcesFinishedAndTheRestDraining(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(100, TaskFinished{Snapshot: snap("in", 0, 2)}, "")
	d.expect(100, TaskFinished{Snapshot: snap("in", 1, 2)}, "")
	d.expect(5000, Tick{}, "") // no one could send a barrier
	d.expect(5100, TaskFinished{Snapshot: snap("count", 0, 1)}, "write 1")
	d.expect(5100, ManifestWritten{ID: 1, Err: errors.New("disk full")}, "abort 1")
	if at, ok := d.c.NextWake(); !ok || at != 5600 {
		t.Errorf("wake at %d %v", at, ok)
	}
	d.expect(5600, Tick{}, "write 2")
	d.expect(5600, ManifestWritten{ID: 2}, "complete 2, done 2 finished=true")
}

func TestStopMakesAFinalCheckpoint(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(1000, Tick{}, "barrier 1")
	d.expect(1100, Stop{}, "") // the one under way ends first
	d.acks(1150, 1)
	d.expect(1150, ManifestWritten{ID: 1}, "complete 1, barrier 2 final")
	d.acks(1200, 2)
	if d.m.Finished {
		t.Error("a stopped job is called finished")
	}
	d.expect(1200, ManifestWritten{ID: 2}, "complete 2, done 2 finished=false")
}

func TestInputEndedMakesAFinishedOne(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) { o.IntervalMS = 0 })
	d.expect(90_000, Tick{}, "")
	d.expect(90_000, InputEnded{}, "barrier 1 final")
	d.acks(90_000, 1)
	d.expect(90_000, ManifestWritten{ID: 1}, "complete 1, done 1 finished=true")
	if !d.m.Finished {
		t.Error("not called finished")
	}
}

func TestFinalCheckpointGivesUpAfterThreeFailures(t *testing.T) {
	d := newDriver(t, nil)
	no := errors.New("no")
	d.expect(0, Stop{}, "barrier 1 final")
	d.expect(10, Decline{1, TaskID{"in", 0}, no}, "abort 1")
	d.expect(510, Tick{}, "barrier 2 final")
	d.expect(510, Decline{2, TaskID{"in", 0}, no}, "abort 2")
	d.expect(1010, Tick{}, "barrier 3 final")
	d.expect(1010, Decline{3, TaskID{"in", 0}, no}, "abort 3, fail")
}

func TestUncertainManifestFailsTheJob(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(1000, Tick{}, "barrier 1")
	d.acks(1000, 1)
	d.expect(1000, ManifestWritten{ID: 1, Err: errors.New("?"), Uncertain: true}, "fail")
}

func TestReusedIDsFailTheJob(t *testing.T) {
	m := sample()
	c, err := NewCoordinator(twoVertices(func(o *CoordinatorOptions) { o.Restored = m }))
	if err != nil {
		t.Fatal(err)
	}
	c.Step(Instant{}, Tick{})
	effects := c.Step(Instant{}, IDsReserved{First: m.ID, N: 16})
	if len(effects) != 1 {
		t.Fatalf("%v", effects)
	}
	if _, ok := effects[0].(FailJob); !ok {
		t.Errorf("%v", effects)
	}
}
