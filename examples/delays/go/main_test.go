package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestAnHourIsDelayedAndAnUnknownDelayIsNot(t *testing.T) {
	h := millrace.NewHarness(Module, "delayed")
	for _, d := range []any{int64(59), int64(60), nil, int64(-5), int64(200)} {
		h.Send(millrace.InRow("", 0, d))
	}
	if n := len(h.Outputs()); n != 2 {
		t.Errorf("%d flights are delayed, want 2", n)
	}
}
