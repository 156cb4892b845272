package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

// windowsOf are the windows that hold a time, in order of start.
func windowsOf(t *testing.T, s operators.WindowShape, ms int64) []span {
	t.Helper()
	a, err := newAssigner(&s)
	if err != nil {
		t.Fatal(err)
	}
	ws := a.windows(ms, nil)
	slices.SortFunc(ws, func(a, b span) int { return int(a.start - b.start) })
	return ws
}

func TestC001NegativeTimesAndOffsets(t *testing.T) {
	for _, c := range []struct {
		s    operators.WindowShape
		ms   int64
		want []span
	}{
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, -11, []span{{-20, -10}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, -10, []span{{-10, 0}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, -1, []span{{-10, 0}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, 0, []span{{0, 10}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, 10, []span{{10, 20}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, -8, []span{{-17, -7}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, -7, []span{{-7, 3}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, 2, []span{{-7, 3}}},
		{operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, 3, []span{{3, 13}}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 5, Offset: 2}, -4, []span{{-13, -3}, {-8, 2}}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 5, Offset: 2}, -3, []span{{-8, 2}, {-3, 7}}},
		// C002
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 4}, -1, []span{{-8, 2}, {-4, 6}}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 4}, 0, []span{{-8, 2}, {-4, 6}, {0, 10}}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 4}, 2, []span{{-4, 6}, {0, 10}}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 1600, Slide: 700}, 1709315512577,
			[]span{{1709315511400, 1709315513000}, {1709315512100, 1709315513700}}},
	} {
		if got := windowsOf(t, c.s, c.ms); !slices.Equal(got, c.want) {
			t.Errorf("%+v, %d: %v, expected %v", c.s, c.ms, got, c.want)
		}
	}
}

func TestC001Property(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		s := operators.WindowShape{Type: operators.WindowSliding, Size: 1 + rng.Int64N(1<<40), Slide: 1 + rng.Int64N(1<<40)}
		s.Size = min(s.Size, 20*s.Slide)
		s.Offset = rng.Int64N(2*s.Slide-1) - s.Slide + 1
		ms := int64(rng.Uint64()) / 4
		n := int64(0)
		for _, w := range windowsOf(t, s, ms) {
			if n++; ms < w.start || ms >= w.end || w.end-w.start != s.Size || floorMod(w.start-s.Offset, s.Slide) != 0 {
				t.Fatalf("%+v, %d: %v", s, ms, w)
			}
		}
		if n != s.Size/s.Slide && n != (s.Size+s.Slide-1)/s.Slide {
			t.Fatalf("%+v, %d: in %d windows", s, ms, n)
		}
	}
	for _, ms := range []int64{math.MinInt64, math.MinInt64 + 5, math.MaxInt64 - 5, math.MaxInt64} {
		if w := windowsOf(t, operators.WindowShape{Type: operators.WindowTumbling, Size: 10, Offset: 3}, ms)[0]; w.start > ms || w.end < ms {
			t.Errorf("%d: %v", ms, w)
		}
	}
}

// play runs a script, one step per batch: records of key "a" with value 1, or watermarks.
type play struct {
	t *testing.T
	*world
}

func script(t *testing.T, w *operators.WindowNode) *play {
	return &play{t, newWorld(t, w, "memory", 1)}
}

func (p *play) at(times ...int64) *play {
	for _, ms := range times {
		r := record(windowtest.Rec{Key: "a", Time: ms, V: 1})
		p.tasks[0].Push(r)
	}
	return p
}

func (p *play) wm(w int64) *play { p.tasks[0].Watermark(w); return p }

// want checks results as "[start, end)=count", with " rev n" if there are revisions, and late times.
func (p *play) want(results []string, late ...int64) {
	p.t.Helper()
	defer p.close()
	var got []string
	for _, r := range p.results(0) {
		x := resultOf(p.t, p.w, r)
		s := fmt.Sprintf("[%d,%d)=%d", x.Start, x.End, x.Count)
		if p.w.Revision {
			s += fmt.Sprintf(" rev %d", x.revision)
		}
		got = append(got, s)
	}
	if !slices.Equal(got, results) {
		p.t.Errorf("results %v, expected %v", got, results)
	}
	var times []int64
	for _, r := range p.results(1) {
		times = append(times, r.Time)
	}
	if !slices.Equal(times, late) || p.late() != int64(len(late)) {
		p.t.Errorf("late %v, counter %d, expected %v", times, p.late(), late)
	}
}

func counted(s operators.WindowShape) *operators.WindowNode { return node(s, statsOf()...) }

func TestC002EndOfInput(t *testing.T) {
	p := script(t, counted(operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 5}))
	for ms := int64(0); ms < 40; ms += 2 {
		p.at(ms)
	}
	p.wm(abi.MaxWatermark).want([]string{"[-5,5)=3", "[0,10)=5", "[5,15)=5", "[10,20)=5", "[15,25)=5", "[20,30)=5", "[25,35)=5", "[30,40)=5", "[35,45)=2"})
}

// TestC003Sessions. Rule a is Flink's: touching sessions merge, unless the earlier has fired.
func TestC003Sessions(t *testing.T) {
	session := func(gap int64) *operators.WindowNode {
		return counted(operators.WindowShape{Type: operators.WindowSession, Gap: gap})
	}
	script(t, session(2)).at(1).wm(2).at(3).wm(9).want([]string{"[1,3)=1", "[3,5)=1"})
	script(t, session(2)).at(1, 3).wm(9).want([]string{"[1,5)=2"})
	p := script(t, session(20)).at(100, 130, 115).wm(200)
	s := p.tasks[0].Op.(*Op).Counters()
	if s["timers"] != 0 || s["state entries"] != 0 {
		t.Errorf("%d timers and %d entries are left, expected none", s["timers"], s["state entries"])
	}
	p.want([]string{"[100,150)=3"})
	for _, o := range [][]int64{{0, 9, 18}, {0, 18, 9}, {9, 0, 18}, {9, 18, 0}, {18, 0, 9}, {18, 9, 0}} {
		script(t, session(10)).at(o...).wm(60).want([]string{"[0,28)=3"})
	}
}

func TestC004LateForOneWindow(t *testing.T) {
	script(t, counted(operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 5})).
		at(6).wm(9).at(7).wm(14).at(3).want([]string{"[0,10)=1", "[5,15)=2"}, 3)
}

func TestC005Revisions(t *testing.T) {
	w := counted(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	w.Lateness, w.Revision = 5, true
	p := script(t, w).at(2).wm(9).at(4).wm(13).at(8).wm(14)
	if s := p.tasks[0].Op.(*Op).Counters(); s["state entries"] != 0 {
		t.Errorf("%d entries are left, expected none", s["state entries"])
	}
	p.at(9).want([]string{"[0,10)=1 rev 1", "[0,10)=2 rev 2", "[0,10)=3 rev 3"}, 9)
}

// TestC008BatchesDontShow: what is late does not depend on batches.
func TestC008BatchesDontShow(t *testing.T) {
	for size := 1; size <= 4; size++ {
		w := counted(operators.WindowShape{Type: operators.WindowTumbling, Size: 1000})
		x := newWorld(t, w, "memory", 1)
		var steps []step
		for _, ms := range []int64{1000, 1000, 1000, 1999} {
			steps = append(steps, step{kind: 'r', rec: &windowtest.Rec{Key: "a", Time: ms, V: 1}}, step{kind: 'w', wm: ms - 1})
		}
		x.run(steps, size, nil)
		(&play{t, x}).want([]string{"[1000,2000)=4"})
	}
}

func TestC009EndAndCancel(t *testing.T) {
	w := counted(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	script(t, w).at(1, 2, 3).wm(abi.MaxWatermark).want([]string{"[0,10)=3"})
	script(t, w).at(1, 2, 3).want(nil)
}

// TestC010LocalDays: one record per hour of each local day.
func TestC010LocalDays(t *testing.T) {
	utc := func(s string) int64 {
		x, err := time.Parse("2006-01-02T15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return x.UnixMilli()
	}
	for _, c := range []struct {
		zone, from, to string
	}{
		{"Europe/Berlin", "2026-03-28T23:00", "2026-03-29T22:00"},       // 23 h
		{"Europe/Berlin", "2026-10-24T22:00", "2026-10-25T23:00"},       // 25 h
		{"Australia/Lord_Howe", "2026-04-04T13:00", "2026-04-05T13:30"}, // 24.5 h
		{"America/Sao_Paulo", "2018-11-04T03:00", "2018-11-05T02:00"},   // midnight does not exist
		{"America/Havana", "2026-11-01T04:00", "2026-11-02T05:00"},      // the clock goes back after midnight
		{"Asia/Beirut", "2026-10-23T21:00", "2026-10-24T22:00"},         // ... at midnight: the hour before it comes twice
		{"America/St_Johns", "2010-11-06T02:30", "2010-11-07T03:30"},    // ... a minute after midnight
		{"Pacific/Apia", "2011-12-29T10:00", "2011-12-30T10:00"},        // the day behind it was left out
		{"UTC", "2026-10-25T00:00", "2026-10-26T00:00"},
	} {
		lo, hi := utc(c.from), utc(c.to)
		for _, ms := range []int64{lo, lo + 1, (lo + hi) / 2, hi - 1} {
			s := operators.WindowShape{Type: operators.WindowTumbling, Size: dayMS, Zone: c.zone}
			if w := windowsOf(t, s, ms)[0]; w.start != lo || w.end != hi {
				t.Errorf("%s: the day of %v is [%v, %v), expected [%s, %s)", c.zone, time.UnixMilli(ms).UTC(),
					time.UnixMilli(w.start).UTC(), time.UnixMilli(w.end).UTC(), c.from, c.to)
			}
		}
		w := counted(operators.WindowShape{Type: operators.WindowTumbling, Size: dayMS, Zone: c.zone})
		p := script(t, w)
		n := 0
		for ms := lo; ms < hi; ms += 3600_000 {
			p.at(ms)
			n++
		}
		p.wm(abi.MaxWatermark).want([]string{fmt.Sprintf("[%d,%d)=%d", lo, hi, n)})
	}
}

// TestZoneProperty: local days and their parts follow each other without gaps.
func TestZoneProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, name := range []string{"Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Beirut", "America/St_Johns", "Pacific/Apia", "Africa/Cairo"} {
		for _, s := range []operators.WindowShape{{Type: operators.WindowTumbling, Size: dayMS}, {Type: operators.WindowTumbling, Size: dayMS, Offset: 6 * 3600_000},
			{Type: operators.WindowTumbling, Size: 7 * dayMS}, {Type: operators.WindowTumbling, Size: 3600_000}, {Type: operators.WindowSliding, Size: 3 * dayMS, Slide: dayMS}} {
			s.Zone = name
			a, err := newAssigner(&s)
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				ms := rng.Int64N(60*365*dayMS) - 10*365*dayMS
				for range 4 {
					w := a.windows(ms, nil)[0]
					if ms < w.start || ms >= w.end || s.Size < dayMS && w.end-w.start > s.Size {
						t.Fatalf("%s: %d is not in %v", name, ms, w)
					}
					if s.Type == operators.WindowTumbling {
						if next := a.windows(w.end, nil)[0]; next.start != w.end {
							t.Fatalf("%s: behind %v comes %v", name, w, next)
						}
					}
					ms = w.end
				}
			}
		}
	}
}
