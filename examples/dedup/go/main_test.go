package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func TestFirstOfAKeyPassesTheRestIsSetAside(t *testing.T) {
	h := millrace.NewHarness(Module, "dedup")
	h.Send(millrace.In("a", "1", 0), millrace.In("b", "2", 0), millrace.In("a", "3", 5))
	if got := h.Texts(); !slices.Equal(got, []string{"1", "2", "duplicates: 3"}) {
		t.Errorf("outputs %q", got)
	}
}

func TestASilentKeyIsForgotten(t *testing.T) {
	h := millrace.NewHarness(Module, "dedup")
	h.Send(millrace.In("a", "1", 0))
	h.Send(millrace.In("a", "2", 1000)) // puts the expiry off
	h.Watermark(silenceMS)
	if h.StateEntries() != 1 || h.Timers() != 1 {
		t.Errorf("%d entries, %d timers, expected 1 of each", h.StateEntries(), h.Timers())
	}
	h.Watermark(silenceMS + 1000)
	if h.StateEntries() != 0 || h.Timers() != 0 {
		t.Errorf("%d entries, %d timers, expected none", h.StateEntries(), h.Timers())
	}
	h.Send(millrace.In("a", "3", silenceMS+2000))
	if got := h.Texts(); !slices.Equal(got, []string{"1", "duplicates: 2", "3"}) {
		t.Errorf("outputs %q", got)
	}
}

func TestAnOlderRecordDoesNotBringTheExpiryForward(t *testing.T) {
	h := millrace.NewHarness(Module, "dedup")
	h.Send(millrace.In("a", "1", 5000), millrace.In("a", "2", 0))
	h.Watermark(silenceMS + 4999)
	if h.StateEntries() != 1 {
		t.Error("forgotten too early")
	}
}
