package window

import (
	"fmt"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

func tumbling(change func(w *operators.WindowNode)) *operators.WindowNode {
	w := counted(operators.WindowShape{Type: operators.WindowTumbling, Size: 10})
	change(w)
	return w
}

func TestEarlyOnlyIfChanged(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) {
		w.Trigger.Every, w.Trigger.IfChanged, w.Revision = 3, true, true
	})
	script(t, w).at(0).wm(3).wm(6).at(1).wm(8).wm(9).want([]string{"[0,10)=1 rev 1", "[0,10)=2 rev 2"})
	script(t, w).at(0).wm(3).at(5).wm(6).wm(9).want([]string{"[0,10)=1 rev 1", "[0,10)=2 rev 2", "[0,10)=2 rev 3"})
	script(t, w).at(0, 11).wm(12).want([]string{"[0,10)=1 rev 1", "[0,10)=1 rev 2", "[10,20)=1 rev 1"})
}

func TestEveryFiresForEachMultiple(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) { w.Trigger.Every = 3 })
	script(t, w).at(0).wm(7).at(1).wm(40).want([]string{"[0,10)=1", "[0,10)=1", "[0,10)=2"})
}

// TestLateEvery: late records wait for the next multiple, or the window's end with its lateness.
func TestLateEvery(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) { w.Lateness, w.Trigger.LateEvery, w.Revision = 20, 5, true })
	script(t, w).at(1).wm(9).at(2, 3).wm(9).wm(10).wm(11).at(4).wm(14).want([]string{"[0,10)=1 rev 1", "[0,10)=3 rev 2"})
	script(t, w).at(1).wm(11).at(2).wm(14).at(3).wm(15).want([]string{"[0,10)=1 rev 1", "[0,10)=3 rev 2"})
	// the window goes at 29: what waits for 30 comes then
	script(t, w).at(1).wm(26).at(2).wm(28).wm(29).at(3).want([]string{"[0,10)=1 rev 1", "[0,10)=2 rev 2"}, 3)
}

func TestDiscarding(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) {
		w.Accumulation, w.Trigger.Count, w.Lateness = operators.Discarding, 2, 5
	})
	script(t, w).at(1, 2, 3).wm(9).at(4).wm(14).at(5).want([]string{"[0,10)=2", "[0,10)=1", "[0,10)=1"}, 5)
	script(t, w).at(1, 2).wm(9).want([]string{"[0,10)=2"}) // nothing came since
}

// TestRetractingSessions: what sessions gave before they merged is taken back.
func TestRetractingSessions(t *testing.T) {
	w := counted(operators.WindowShape{Type: operators.WindowSession, Gap: 5})
	w.Accumulation, w.Trigger.Count = operators.Retracting, 1
	p := script(t, w).at(0, 8, 4)
	defer p.close()
	var got []string
	for _, r := range p.results(0) {
		x := resultOf(t, w, r)
		got = append(got, fmt.Sprintf("%d [%d,%d)=%d", x.op, x.Start, x.End, x.Count))
	}
	want := []string{"0 [0,5)=1", "0 [8,13)=1", "3 [8,13)=1", "3 [0,5)=1", "0 [0,13)=3"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, expected %v", got, want)
	}
}

func TestTimeout(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) {
		w.Window.Size = 1000
		w.Trigger = operators.WindowTrigger{Count: 3, Timeout: 20}
	})
	p := script(t, w).at(1, 2)
	p.clock(19)
	p.clock(20)
	p.at(3)
	p.clock(100) // the one time-out is spent until a firing by count
	p.at(4, 5, 6)
	p.at(7)
	p.clock(130)
	p.want([]string{"[0,1000)=2", "[0,1000)=3", "[0,1000)=6", "[0,1000)=7"})
}

// listed runs records of key "a" and returns the lists that came.
func listed(t *testing.T, w *operators.WindowNode, steps ...step) (got []string) {
	t.Helper()
	x := newWorld(t, w, "memory", 1)
	defer x.close()
	x.run(steps, 3, nil)
	for _, r := range x.results(0) {
		row, err := abi.CheckRow(r.Value, Schema(w))
		if err != nil {
			t.Fatal(err)
		}
		list, _ := row.Bytes(2)
		n, _ := row.Int64(3)
		got = append(got, fmt.Sprintf("%s %d", list, n))
	}
	return got
}

func at(ms, v int64) step {
	return step{kind: 'r', rec: &windowtest.Rec{Key: "a", Time: ms, V: v}}
}

// TestContents: contents are in order of arrival, over slices and merged sessions too.
func TestContents(t *testing.T) {
	as := []operators.WindowAggregate{{Name: "l", Kind: operators.AggCollect, Field: "v"}, {Name: "u", Kind: operators.AggDistinct, Field: "v"}}
	for _, c := range []struct {
		s     operators.WindowShape
		steps []step
		want  []string
	}{
		{operators.WindowShape{Type: operators.WindowSession, Gap: 5}, []step{at(0, 7), at(8, 9), at(4, 7), at(30, 1)}, []string{"[7,9,7] 2", "[1] 1"}},
		{operators.WindowShape{Type: operators.WindowSliding, Size: 10, Slide: 5}, []step{at(7, 3), at(1, 4), at(6, 3), at(12, 5)}, []string{"[4] 1", "[3,4,3] 2", "[3,3,5] 2", "[5] 1"}},
		{operators.WindowShape{Type: operators.WindowCumulate, Size: 10, Step: 5}, []step{at(7, 3), at(1, 4)}, []string{"[4] 1", "[3,4] 2"}},
	} {
		if got := listed(t, node(c.s, as...), c.steps...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.s.Type, got, c.want)
		}
	}
	w := node(operators.WindowShape{Type: operators.WindowTumbling, Size: 10}, as...)
	w.Evictor = &operators.WindowEvictor{Span: 3}
	if got := listed(t, w, at(1, 1), at(9, 2), at(6, 3), at(7, 2)); !slices.Equal(got, []string{"[2,2] 1"}) {
		t.Errorf("evicted: %v", got)
	}
}

// TestTimeoutClearTakesTheEndBack: as in Flink, until the next record.
func TestTimeoutClearTakesTheEndBack(t *testing.T) {
	w := tumbling(func(w *operators.WindowNode) { w.Trigger.Timeout, w.Trigger.TimeoutClear = 20, true })
	p := script(t, w).at(1)
	p.clock(20)
	p.wm(9).want([]string{"[0,10)=1"})
	p = script(t, w).at(1)
	p.clock(20)
	p.at(2).wm(9).want([]string{"[0,10)=1", "[0,10)=2"})
}

// TestResultsComeBeforeTheMark: what a mark makes due comes before it, also within the batch that began the
// window.
func TestResultsComeBeforeTheMark(t *testing.T) {
	for _, s := range append(slices.Clone(shuffleShapes), operators.WindowShape{Type: operators.WindowSliding, Size: 9, Slide: 3}) {
		w := counted(s)
		x := newWorld(t, w, "memory", 1)
		x.run([]step{at(14, 1), {kind: 'w', wm: 40}, at(54, 1)}, 1024, nil)
		c := x.tasks[0].Output(0)
		late := 0
		for i, r := range c.Records {
			if r.Time <= 40 && i >= c.Marks[0].Records {
				late++
			}
		}
		if c.Marks[0].Watermark != 40 || late > 0 || c.Marks[0].Records == 0 && s.Slide != 10 {
			t.Errorf("%+v: %d results before the mark, %d behind it, marks %v", s, c.Marks[0].Records, late, c.Marks)
		}
		x.close()
	}
}
