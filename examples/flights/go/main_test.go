package main

import (
	"slices"
	"testing"

	millrace "github.com/millrace-io/millrace/sdk/go"
)

func flight(origin string, delay, time int64) millrace.Input {
	return millrace.InRow(origin, time, delay, time)
}

func TestEachDayEndsByItsTimerInAnyOrderOfFlights(t *testing.T) {
	h := millrace.NewHarness(Module, "flights")
	const jan1 = 978_307_200_000 // 2001-01-01
	h.Send(flight("ATL", 7, jan1+dayMS), flight("ATL", -3, jan1), flight("JFK", 1, jan1), flight("ATL", 5, jan1+1))
	h.Watermark(jan1 + dayMS - 2)
	if got := h.Outputs(); len(got) != 0 {
		t.Errorf("outputs %v before the day's end", got)
	}
	h.Watermark(jan1 + dayMS - 1)
	want := []string{
		`{"origin":"ATL","day":"2001-01-01","flights":2,"mean_delay":1.000}`,
		`{"origin":"JFK","day":"2001-01-01","flights":1,"mean_delay":1.000}`,
	}
	if got := h.Texts(); !slices.Equal(got, want) {
		t.Errorf("outputs %q", got)
	}
	h.Send(flight("ATL", 99, jan1+2))
	if got := h.Outputs(); len(got) != 1 || got[0].Output != 1 {
		t.Errorf("%v, expected one late flight", got)
	}
	h.End()
	want = []string{`{"origin":"ATL","day":"2001-01-02","flights":1,"mean_delay":7.000}`}
	if got := h.Texts(); !slices.Equal(got, want) {
		t.Errorf("outputs %q", got)
	}
	if h.StateEntries() != 0 || h.Timers() != 0 {
		t.Errorf("%d entries, %d timers left", h.StateEntries(), h.Timers())
	}
}

func TestMeansAreRoundedHalfAwayFromZero(t *testing.T) {
	for _, c := range [][3]int64{{1, 3, 333}, {2, 3, 667}, {-2, 3, -667}, {1, 2000, 1}, {-1, 2000, -1}, {-1, 2001, 0}, {0, 5, 0}, {-5, 1, -5000}} {
		if got := thousandths(c[0], c[1]); got != c[2] {
			t.Errorf("%d / %d: %d, expected %d", c[0], c[1], got, c[2])
		}
	}
}

func TestDaysBefore1970(t *testing.T) {
	for _, c := range [][2]int64{{0, 0}, {dayMS - 1, 0}, {dayMS, 1}, {-1, -1}, {-dayMS, -1}, {-dayMS - 1, -2}} {
		if got := floorDiv(c[0], dayMS); got != c[1] {
			t.Errorf("day of %d: %d, expected %d", c[0], got, c[1])
		}
	}
}
