package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func pay(card string, amount, time int64) millrace.Input { return millrace.InRow(card, time, amount) }

func TestSmallThenLargeWithinAMinuteIsAnAlert(t *testing.T) {
	h := millrace.NewHarness(Module, "fraud")
	h.Send(pay("c1", 80, 1000), pay("c2", 60_000, 2000), pay("c1", 70_000, 61_000))
	want := []string{`{"card":"c1","small":80,"large":70000,"after_ms":60000,"time":61000}`}
	if got := h.Texts(); !slices.Equal(got, want) {
		t.Errorf("alerts %q", got)
	}
}

func TestSuspicionEndsWithTheTimer(t *testing.T) {
	h := millrace.NewHarness(Module, "fraud")
	h.Send(pay("c1", 80, 1000))
	h.Watermark(61_000)
	h.Send(pay("c1", 70_000, 61_001))
	if got := h.Texts(); !slices.Equal(got, []string{`cleared: {"card":"c1","time":61000}`}) {
		t.Errorf("outputs %q", got)
	}
	if h.StateEntries() != 0 || h.Timers() != 0 {
		t.Errorf("%d entries, %d timers left", h.StateEntries(), h.Timers())
	}
}

func TestTooLateIsNoAlertEvenBeforeTheWatermark(t *testing.T) {
	h := millrace.NewHarness(Module, "fraud")
	h.Send(pay("c1", 80, 1000), pay("c1", 70_000, 61_001), pay("c1", 70_000, 999))
	if got := h.Outputs(); len(got) != 0 {
		t.Errorf("outputs %v", got)
	}
}

func TestANegativeAmountFailsAlone(t *testing.T) {
	h := millrace.NewHarness(Module, "fraud")
	h.Send(pay("c1", 80, 0), pay("c1", -1, 1), pay("c1", 70_000, 2))
	f := h.Failures()
	if len(f) != 1 || f[0].Message != "amount -1, expected cents from 0 on" || len(h.Outputs()) != 1 {
		t.Errorf("failures %v", f)
	}
}
