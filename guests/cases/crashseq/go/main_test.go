package main

import (
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestCountsAndXors(t *testing.T) {
	h := millrace.NewHarness(Module, "crashseq")
	h.Send(millrace.In("a", "a 1", 0), millrace.In("a", "a 2", 0), millrace.In("b", "b 7", 0), millrace.In("a", "a x", 0))
	if got := h.Texts()[1]; got != `{"key":"a","count":2,"n":2,"xor":3}` || len(h.Failures()) != 1 {
		t.Errorf("output %s", got)
	}
}

func TestTheSameFromRows(t *testing.T) {
	h := millrace.NewHarness(Module, "count")
	h.Send(millrace.InRow("a", 0, "a", 1), millrace.InRow("a", 0, "a", 2), millrace.InRow("a", 0, "a", 3))
	if got := h.Texts()[2]; got != `{"key":"a","count":3,"n":3,"xor":0}` {
		t.Errorf("output %s", got)
	}
}
