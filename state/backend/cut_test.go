package backend

import (
	"errors"
	"runtime"
	"testing"
)

// TestAFailedCutIsOverWithItsError: an owner that saw a failed cut as over, but not yet its error, took all
// that was in it for written, and lost it.
func TestAFailedCutIsOverWithItsError(t *testing.T) {
	full := errors.New("full")
	for range 20_000 {
		sp := &spill{held: true}
		c := &cut{bg: &background{}, name: "x", spills: []*spill{sp}, done: make(chan struct{})}
		go c.fail(full)
		for !c.over.Load() {
			runtime.Gosched()
		}
		if !errors.Is(c.err, full) || sp.held {
			t.Fatalf("over with error %v and its spill held: %v", c.err, sp.held)
		}
		<-c.done
	}
}
