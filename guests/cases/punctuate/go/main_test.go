package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestItSaysWhatTheRecordSays(t *testing.T) {
	h := millrace.NewHarness(Module, "told")
	got := h.Watermarks(millrace.In("", "a", 0), millrace.In("", "b#17", 0), millrace.In("", "c#fail", 0), millrace.In("", "d#-4", 0), millrace.In("", "e#x", 0))
	if want := []millrace.Said{{}, {MS: 17, OK: true}, {}, {MS: -4, OK: true}, {}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if n := len(h.Failures()); n != 2 {
		t.Errorf("%d failures, want 2", n)
	}
}

func TestAFlagEndsATime(t *testing.T) {
	h := millrace.NewHarness(Module, "flagged")
	got := h.Watermarks(millrace.InRow("", 0, 5, false), millrace.InRow("", 0, 7, true), millrace.InRow("", 0, nil, true))
	if want := []millrace.Said{{}, {MS: 7, OK: true}, {}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
