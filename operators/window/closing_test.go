package window

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace-io/millrace/operators"
)

// What Closing says is the end of the last of all windows that hold the time.
func TestClosingIsTheLastWindowsEnd(t *testing.T) {
	const hour = 3_600_000
	shapes := []operators.WindowShape{
		{Type: operators.WindowTumbling, Size: 7000, Offset: 300},
		{Type: operators.WindowTumbling, Size: 6 * hour, Zone: "Europe/Berlin"},
		{Type: operators.WindowTumbling, Size: 24 * hour, Zone: "Australia/Lord_Howe"},
		{Type: operators.WindowSliding, Size: 10_000, Slide: 4000},
		{Type: operators.WindowSliding, Size: 10_000, Slide: 5000, Offset: -1},
		{Type: operators.WindowSliding, Size: 4000, Slide: 10_000},
		{Type: operators.WindowSliding, Size: 72 * hour, Slide: 24 * hour, Zone: "America/New_York"},
		{Type: operators.WindowCumulate, Size: 10_000, Step: 2500},
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, s := range shapes {
		w := &operators.WindowNode{Window: s, Time: operators.TimeEvent, Lateness: 500}
		last, err := Closing(w)
		if err != nil {
			t.Fatal(err)
		}
		a, err := newAssigner(&s)
		if err != nil {
			t.Fatal(err)
		}
		for range 20_000 {
			ms := rng.Int64N(4_000_000_000_000) - 1_000_000_000_000
			want := ms // in no window: late at its own time
			for _, sp := range a.windows(ms, nil) {
				want = max(want, sp.last())
			}
			if got := last(ms); got != want+500 {
				t.Fatalf("%+v: a record of %d is taken up to %d, want %d", s, ms, got, want+500)
			}
		}
	}
}

func TestClosingOfWindowsWithoutEnd(t *testing.T) {
	for _, w := range []operators.WindowNode{
		{Time: operators.TimeEvent, Window: operators.WindowShape{Type: operators.WindowGlobal}},
		{Time: operators.TimeEvent, Window: operators.WindowShape{Type: operators.WindowCount, Count: 3}},
		{Time: operators.TimeEvent, Window: operators.WindowShape{Type: operators.WindowSession, GapField: "gap"}},
		{Time: operators.TimeProcessing, Window: operators.WindowShape{Type: operators.WindowTumbling, Size: 10}},
	} {
		last, err := Closing(&w)
		if err != nil || last(5) != operators.Never {
			t.Errorf("%+v: %d, %v", w.Window, last(5), err)
		}
	}
	last, err := Closing(&operators.WindowNode{Time: operators.TimeEvent, Lateness: 7, Window: operators.WindowShape{Type: operators.WindowSession, Gap: 100}})
	if err != nil || last(1000) != 1106 {
		t.Errorf("session: %d, %v", last(1000), err)
	}
}
