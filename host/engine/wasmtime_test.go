//go:build wasmtime

package engine

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators/guestop"
)

var (
	stackTold = regexp.MustCompile(`, stack .*`)
	refused   = regexp.MustCompile(`out of memory at (\d+): .*; then: (.*)`)
)

// TestWasmtimeIsTheSame: but for the frames of the stack, and a refused memory.grow being told.
func TestWasmtimeIsTheSame(t *testing.T) {
	sameAs(t, Options{Wasmtime: true}, func(told string) string {
		return refused.ReplaceAllString(stackTold.ReplaceAllString(told, ""), "trap at $1: $2")
	})
}

// TestWasmtimeFaults: the stack has names, Stop and spent fuel end it.
func TestWasmtimeFaults(t *testing.T) {
	k := newKitchen(t, Options{Wasmtime: true}, guestop.InstanceOptions{FuelPerRecord: 1 << 40})
	f := k.fault(guestop.FaultTrap, 1, "c", "b")
	if f.Message != "unreachable" || len(f.Stack) < 2 || !strings.HasPrefix(f.Stack[0], "explode(") {
		t.Errorf("fault %v", f)
	}
	k.Guest.Stop()
	if f := k.fault(guestop.FaultStopped, -1, "c"); f.Message == "" {
		t.Errorf("fault %v", f)
	}
	done := time.AfterFunc(20*time.Second, func() { panic("a record with much fuel did not end") })
	defer done.Stop()
	small := newKitchen(t, Options{Wasmtime: true}, guestop.InstanceOptions{FuelPerRecord: 1 << 20})
	small.fault(guestop.FaultFuel, 0, "l")
}

// TestWasmtimeAdopts: an image is the same thing for both engines.
func TestWasmtimeAdopts(t *testing.T) {
	captureAndAdopt(t, Options{}, Options{Wasmtime: true})
	captureAndAdopt(t, Options{Wasmtime: true}, Options{})
	ledgersGoOn(t, Options{}, Options{Wasmtime: true})
	ledgersGoOn(t, Options{Wasmtime: true}, Options{})
}
