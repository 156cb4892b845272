package task

import "github.com/millrace-io/millrace/checkpoint"

// Swap is what a task changes at the barrier of checkpoint At, right after its cut.
type Swap struct {
	At    checkpoint.ID
	Apply func() // by the task's goroutine; takes microseconds
}

// Arm tells the task of a swap. It comes before the barrier is injected, so that every task knows when the
// barrier reaches it. From any goroutine; nil: none any more.
func (t *Task) Arm(s *Swap) { t.armed.Store(s) }

// swap does what is armed for the cut that was just made.
func (t *Task) swap(id checkpoint.ID) {
	if s := t.armed.Load(); s != nil && s.At == id {
		t.armed.Store(nil)
		s.Apply()
		t.swapped()
	}
}
