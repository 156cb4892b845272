package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestStatsOfParts(t *testing.T) {
	h := millrace.NewHarness(Module, "stats")
	var a, b millrace.Accumulator
	h.Add(&a, millrace.InRow("k", 0, 5), millrace.InRow("k", 0, nil))
	h.Add(&b, millrace.InRow("k", 0, -7))
	h.Merge(&a, b)
	h.Result(a, millrace.TestWindow{End: 10})
	if out, want := h.Outputs(), millrace.InRow("", 0, 3, -2, -7, 5); string(out[0].Value) != string(want.Value) {
		t.Errorf("result %x, expected %x", out[0].Value, want.Value)
	}
}

func TestMedian(t *testing.T) {
	h := millrace.NewHarness(Module, "median")
	h.FireWindow(millrace.TestWindow{Start: 0, End: 10}, millrace.InRow("", 1, 9), millrace.InRow("", 2, 1), millrace.InRow("", 3, 2))
	out := h.Outputs()
	if len(out) != 2 || string(out[0].Value) != "3" || string(out[1].Value) != string(millrace.InRow("", 0, 0, 10, 3, 2.0).Value) {
		t.Errorf("outputs %+v", out)
	}
}
