package operators_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/memory"
	"github.com/millrace-io/millrace/operators/operatortest"
)

// splits is a generator with n splits, idle after 500 ms.
func splits(n int) *operators.Watermarks {
	w := operators.NewWatermarks(&operators.TimeSettings{Idle: 500 * time.Millisecond})
	for i := range n {
		w.Add(checkpoint.SplitPosition{Split: fmt.Sprint(i)})
	}
	w.Settle()
	return w
}

// look is a poll at now that finds split s at its present end.
func look(w *operators.Watermarks, s int, now int64) (mark int64, moved, became bool) {
	w.SetNow(now)
	return w.CaughtUp(s)
}

// TestC006IdleSplit: a split that never gave a record is excused after its time; what it gives then behind
// the watermark is late, and the watermark does not go back.
func TestC006IdleSplit(t *testing.T) {
	w := splits(2)
	w.Observe(0, 1000)
	w.Observe(0, 2000)
	for _, now := range []int64{0, 250, 499} {
		if _, moved, became := look(w, 1, now); moved || became {
			t.Fatalf("idle after %d ms", now)
		}
	}
	if at, ok := w.NextLook(); !ok || at != 500 {
		t.Errorf("wants a look at %d (%v), not at 500", at, ok)
	}
	if m, moved, became := look(w, 1, 500); !moved || !became || m != 1999 {
		t.Fatalf("after 500 ms: watermark %d, moved %v, idle %v", m, moved, became)
	}
	w.Observe(1, 1500)
	if late, _ := w.Late(); late != 1 || w.Current() != 1999 {
		t.Errorf("1500 came: %d late, watermark %d", late, w.Current())
	}
	if m, ok := w.Observe(0, 9000); ok {
		t.Errorf("split 1 is back and holds the watermark, it went to %d", m)
	}
	if m, ok := w.Observe(1, 2500); !ok || m != 2499 {
		t.Errorf("2500 came: watermark %d (%v), expected 2499", m, ok)
	}
	if late, _ := w.Late(); late != 1 {
		t.Errorf("%d late", late)
	}
}

// TestC006PausedIsNotIdle: time in which nobody looked is not time in which nothing came.
func TestC006PausedIsNotIdle(t *testing.T) {
	w := splits(2)
	w.Observe(0, 5000)
	look(w, 1, 0)
	look(w, 0, 0)
	if _, _, became := look(w, 1, 10_000); became { // the task was held up for 10 s
		t.Fatal("idle by the first look after a pause")
	}
	if m, ok := w.Observe(1, 1000); !ok || m != 999 {
		t.Errorf("the first record after the pause: watermark %d (%v)", m, ok)
	}
	if late, _ := w.Late(); late != 0 {
		t.Errorf("%d late", late)
	}
	// a record between two looks starts the time anew
	look(w, 1, 10_000)
	look(w, 1, 10_250)
	w.Observe(1, 1100)
	for _, now := range []int64{10_500, 10_750, 10_999} {
		if _, _, became := look(w, 1, now); became {
			t.Fatalf("idle at %d, the record came after 10250", now)
		}
	}
	if _, _, became := look(w, 1, 11_000); !became {
		t.Error("not idle 500 ms after the look that found it quiet")
	}
}

// TestAllIdleHolds: when the last split that counts becomes idle the watermark is that of the foremost,
// whichever was idle first, and stays there; the first that comes back moves it.
func TestAllIdleHolds(t *testing.T) {
	w := splits(2)
	w.Observe(0, 5000)
	w.Observe(1, 3000)
	for now := int64(0); now <= 500; now += 250 {
		look(w, 0, now)
	}
	if w.Idle() || w.Current() != 2999 {
		t.Fatalf("one of two is idle: %v, watermark %d", w.Idle(), w.Current())
	}
	for now := int64(500); now <= 5000; now += 250 {
		look(w, 0, now)
		m, moved, became := look(w, 1, now)
		if became != (now == 1000) || moved != became || moved && m != 4999 {
			t.Errorf("at %d: idle %v, watermark %d (%v)", now, became, m, moved)
		}
	}
	if !w.Idle() || w.Current() != 4999 {
		t.Errorf("all idle: %v, watermark %d", w.Idle(), w.Current())
	}
	if m, ok := w.Observe(0, 6000); !ok || m != 5999 || w.Idle() {
		t.Errorf("back: watermark %d (%v), idle %v", m, ok, w.Idle())
	}
	if m, ok := w.Finish(0); ok {
		t.Errorf("the only one that counted ended, the watermark went to %d", m)
	}
	if !w.Idle() {
		t.Error("one ended, one idle: the task counts")
	}
	w.Finish(1)
	if w.Idle() {
		t.Error("all have ended, and it says idle")
	}
}

// TestIdleIsInThePosition: at any point a restored generator has the watermark and the idle splits of the one
// it was taken from, also where the watermark is ahead of a split that came back; it never goes back.
func TestIdleIsInThePosition(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 2))
	idle, ahead := 0, 0
	for round := range 200 {
		n := 1 + rnd.IntN(4)
		w := splits(n)
		now, last := int64(0), abi.MinWatermark
		for step := range 200 {
			now += rnd.Int64N(300)
			w.SetNow(now)
			if s := rnd.IntN(n); rnd.IntN(3) > 0 && s > 0 {
				w.CaughtUp(s)
			} else {
				w.Observe(s, now+rnd.Int64N(2000)-1000)
			}
			if w.Current() < last {
				t.Fatalf("seed %d, round %d: watermark went from %d to %d", seed, round, last, w.Current())
			}
			last = w.Current()
			if step%10 != 9 {
				continue
			}
			r := restored(w, n)
			if r.Current() != last || r.Idle() != w.Idle() {
				t.Fatalf("seed %d, round %d, step %d: watermark %d, idle %v; restored %d, %v", seed, round, step, last, w.Idle(), r.Current(), r.Idle())
			}
			for i := range n {
				var was, is checkpoint.SplitPosition
				w.Put(i, &was)
				r.Put(i, &is)
				if was != is {
					t.Fatalf("seed %d, round %d, step %d: split %d was %+v, is %+v", seed, round, step, i, was, is)
				}
				if was.Idle {
					idle++
				} else if was.Ahead > 0 && w.Current() > was.Mark {
					ahead++
				}
			}
			w = r // goes on from the position, where only the time of quiet starts anew
		}
	}
	if idle < 100 || ahead < 10 {
		t.Errorf("seed %d: only %d idle splits, %d that came back behind", seed, idle, ahead)
	}
}

func restored(w *operators.Watermarks, n int) *operators.Watermarks {
	r := operators.NewWatermarks(&operators.TimeSettings{Idle: 500 * time.Millisecond})
	for i := range n {
		p := checkpoint.SplitPosition{Split: fmt.Sprint(i)}
		w.Put(i, &p)
		r.Add(p)
	}
	r.Settle()
	return r
}

// TestC007Future: a time far ahead of the clock does not move the watermark, nor make what follows late.
func TestC007Future(t *testing.T) {
	const now, decade = 1_700_000_000_000, 10 * 365 * 86_400_000
	in := times(now, now+decade, now+1000, now+2000)
	for policy, want := range map[string]struct{ records, dead int }{"": {4, 0}, operators.PolicySkip: {3, 0}, operators.PolicyDeadLetter: {3, 1}} {
		n := memoryNode(0, 0)
		n.Source.Time.MaxFutureSkew, n.Source.Time.OnFuture.Policy = 5*time.Minute, policy
		ctx := operatortest.Context(t, "in", "")
		ctx.Clock.(*operatortest.Clock).Set(now)
		src := memory.NewSource(n, in)
		r := operatortest.OpenSource(t, src, ctx).Drain(2)
		if len(r.Out.Records) != want.records || len(r.Rejected.Records) != want.dead {
			t.Errorf("policy %q: %d records, %d dead letters, expected %v", policy, len(r.Out.Records), len(r.Rejected.Records), want)
		}
		for _, m := range r.Out.Marks {
			if m.Watermark > now+2000 {
				t.Errorf("policy %q: watermark %d", policy, m.Watermark)
			}
		}
		c := src.Counters()
		if c[operators.CounterFuture] != 1 || c[operators.CounterLate] != 0 {
			t.Errorf("policy %q: counters %v", policy, c)
		}
		if want.dead == 1 {
			var b abi.Batch
			b.Append(&r.Rejected.Records[0])
			_, d := operators.SplitDeadLetter(b.Frame(0))
			if d.Kind != operators.KindFuture || !strings.Contains(d.Error, "2033-11-1") || d.Position != "slice 0, record 1" {
				t.Errorf("dead letter %+v", d)
			}
		}
	}
}

// TestGenerators: monotonic is a bound of 0, none gives no mark.
func TestGenerators(t *testing.T) {
	n := memoryNode(time.Hour, 0)
	n.Source.Time.Watermarks = operators.WatermarksMonotonic
	if got := drain(t, 100, n, times(1000, 2000)).Marks; fmt.Sprint(got) != fmt.Sprint(marks(1, 999, 2, 1999)) {
		t.Errorf("monotonic: %v", got)
	}
	n.Source.Time.Watermarks = operators.WatermarksNone
	if got := drain(t, 100, n, times(1000, 2000)).Marks; len(got) != 0 {
		t.Errorf("none: %v", got)
	}
}

// TestIngestionTime: records have the time of their arrival, the watermark follows the clock also without
// records, is always behind the next record, and does not go back with the clock.
func TestIngestionTime(t *testing.T) {
	n := memoryNode(0, 0)
	n.Source.Time.Source = operators.TimeIngestion
	ctx := operatortest.Context(t, "in", "")
	clk := ctx.Clock.(*operatortest.Clock)
	src := memory.NewSource(n, times(5, 5, 5, 5, 5, 5, 5))
	if err := src.Open(ctx); err != nil {
		t.Fatal(err)
	}
	current := abi.MinWatermark
	for i, c := range []struct{ now, stamp, mark int64 }{{1000, 1000, 999}, {1050, 1050, 0}, {1100, 1100, 1099}, {400, 1100, 0}, {1250, 1250, 1249}} {
		clk.Set(c.now)
		var b abi.Batch
		if _, err := src.Poll(&b, 1); err != nil {
			t.Fatal(err)
		}
		src.Intake().End(&b)
		if got := b.Frame(0).Time(); got != c.stamp || got <= current {
			t.Errorf("poll %d at %d: the record's time is %d, expected %d, watermark %d", i, c.now, got, c.stamp, current)
		}
		if n := len(b.Marks); (c.mark != 0) != (n == 1) || n == 1 && b.Marks[0] != (abi.Mark{Index: 1, Watermark: c.mark}) {
			t.Errorf("poll %d at %d: marks %v, expected %d", i, c.now, b.Marks, c.mark)
		}
		if len(b.Marks) > 0 {
			current = b.Marks[0].Watermark
		}
	}
	if at, ok := src.Intake().NextLook(); !ok || at != 1300 {
		t.Errorf("wants to be polled at %d (%v), expected 1300", at, ok)
	}
}

// TestSameLateness: how batches are cut changes nothing in which records of a split are late.
func TestSameLateness(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 3))
	var ts []int64
	for i := range 20_000 {
		ts = append(ts, int64(i)*3+rnd.Int64N(2000)-1000)
	}
	var want string
	for _, max := range []int{1024, 1, 7, 256} {
		n := memoryNode(500*time.Millisecond, 0)
		src := memory.NewSource(n, times(ts...))
		r := operatortest.OpenSource(t, src, operatortest.Context(t, "in", "")).Drain(max)
		var late []int
		for i, m, wm := 0, r.Out.Marks, abi.MinWatermark; i < len(ts); i++ {
			for len(m) > 0 && m[0].Records <= i {
				wm, m = m[0].Watermark, m[1:]
			}
			if ts[i] <= wm {
				late = append(late, i)
			}
		}
		if got := fmt.Sprint(late); want == "" {
			want = got
		} else if got != want {
			t.Errorf("seed %d: batches of %d: other records are late", seed, max)
		}
		if c := src.Counters()[operators.CounterLate]; c != int64(len(late)) || c == 0 {
			t.Errorf("seed %d: counted %d late, there are %d", seed, c, len(late))
		}
	}
}
