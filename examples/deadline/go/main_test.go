package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func event(payment, kind string, time int64) millrace.Input {
	return millrace.InRow(payment, time, kind, int64(990))
}

func TestEachWayAPaymentCanGo(t *testing.T) {
	const alert, late = `{"payment":"p1","amount":990,"authorised":1000,"deadline":601000}`, `unmatched: {"payment":"p1","settled":601001}`
	for name, c := range map[string]struct {
		in   []millrace.Input
		want []string
	}{
		"settled at the deadline": {[]millrace.Input{event("p1", "authorised", 1000), event("p1", "settled", 601_000)}, nil},
		"settlement comes first":  {[]millrace.Input{event("p1", "settled", 5000), event("p1", "authorised", 1000)}, nil},
		"no settlement":           {[]millrace.Input{event("p1", "authorised", 1000)}, []string{alert}},
		"too late":                {[]millrace.Input{event("p1", "settled", 601_001), event("p1", "authorised", 1000)}, []string{alert, late}},
	} {
		h := millrace.NewHarness(Module, "deadline")
		h.Send(c.in...)
		h.Watermark(600_999)
		if n := len(h.Outputs()); n != 0 {
			t.Errorf("%s: %d outputs before the deadline", name, n)
		}
		h.Watermark(1_000_000)
		if got := h.Texts(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if h.StateEntries() != 0 || h.Timers() != 0 {
			t.Errorf("%s: %d entries, %d timers left", name, h.StateEntries(), h.Timers())
		}
	}
}

func TestWhatMakesNoSenseFailsAlone(t *testing.T) {
	h := millrace.NewHarness(Module, "deadline")
	h.Send(event("p1", "authorised", 0), event("p1", "authorised", 5), event("p2", "refunded", 5))
	h.Watermark(600_000)
	if len(h.Failures()) != 2 || len(h.Outputs()) != 1 {
		t.Errorf("failures %v, outputs %v", h.Failures(), h.Outputs())
	}
}
