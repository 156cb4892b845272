package checkpoint

import (
	"errors"
	"testing"
)

// next is another code for the job of twoVertices.
func next() *Next {
	return &Next{Modules: []ModuleRef{{Operator: "count", Digest: digestOf("new"), Path: "new.wasm"}}}
}

func digestOf(s string) string {
	const hex = "0123456789abcdef"
	d := make([]byte, 64)
	for i := range d {
		d[i] = hex[(i+len(s))%16]
	}
	return string(d)
}

// The checkpoint of the change names the old code and the next; those behind it name the new one alone.
func TestACheckpointCarriesTheNextCode(t *testing.T) {
	d := newDriver(t, func(o *CoordinatorOptions) {
		o.Template.Modules = []ModuleRef{{Operator: "count", Digest: digestOf("o"), Path: "old.wasm"}}
	})
	d.expect(1000, Tick{}, "barrier 1")
	d.expect(1001, Trigger{Next: next()}, "") // one under way is finished first, without it
	d.acks(1100, 1)
	if d.m.Next != nil {
		t.Error("a checkpoint that had begun carries the change")
	}
	d.expect(1200, ManifestWritten{ID: 1}, "complete 1, barrier 2")
	d.acks(1300, 2)
	if d.m.Next == nil || d.m.Modules[0].Path != "old.wasm" || d.m.InForce().Modules[0].Path != "new.wasm" {
		t.Errorf("manifest of the change: modules %v, next %v", d.m.Modules, d.m.Next)
	}
	d.expect(1400, ManifestWritten{ID: 2}, "complete 2")
	d.expect(2200, Tick{}, "barrier 3")
	d.acks(2300, 3)
	if d.m.Next != nil || d.m.Modules[0].Path != "new.wasm" {
		t.Errorf("manifest behind the change: modules %v, next %v", d.m.Modules, d.m.Next)
	}
}

// Tasks that have changed can't go back: the job starts again from the checkpoint before.
func TestAChangeThatIsGivenUpFailsTheAttempt(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(10, Trigger{Next: next()}, "barrier 1")
	d.expect(20, Decline{ID: 1, Task: TaskID{"in", 0}, Reason: errors.New("disk")}, "abort 1, fail")
	d = newDriver(t, nil)
	d.expect(10, Trigger{Next: next()}, "barrier 1")
	d.acks(20, 1)
	d.expect(30, ManifestWritten{ID: 1, Err: errors.New("disk")}, "abort 1, fail")
	effects := newDriver(t, nil)
	effects.c.Step(Instant{MonoMS: 10}, Trigger{Next: next()})
	for _, e := range effects.c.Step(Instant{MonoMS: 20}, Decline{ID: 1, Reason: errors.New("disk")}) {
		if f, ok := e.(FailJob); ok && !errors.Is(f.Reason, ErrChangeGivenUp) {
			t.Errorf("reason %v", f.Reason)
		}
	}
}

// A stop comes before a change that has not begun.
func TestAStoppingJobChangesNothing(t *testing.T) {
	d := newDriver(t, nil)
	d.expect(10, Stop{}, "barrier 1 final")
	d.expect(11, Trigger{Next: next()}, "")
	d.acks(20, 1)
	if d.m.Next != nil {
		t.Error("the last checkpoint of a stop carries a change")
	}
}
