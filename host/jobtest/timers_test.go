package jobtest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

const effectsText = `name: effects
batch: 4
linger: 0ms
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter}
  - id: logic
    process: {module: "@effects", function: effects, clock: processing}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
  - {id: sides, sink: file, path: sides/, envelope: true, from: logic.side}
`

// effectsWorld feeds records to the effects guest.
func effectsWorld(t *testing.T, records ...abi.Record) *World {
	w := New(t, effectsText)
	w.Sources["in"] = [][]abi.Record{records}
	return w
}

func fired(times ...string) (out []string) {
	for _, s := range times {
		out = append(out, "fired "+s)
	}
	return out
}

// beforeWatermark cuts " at watermark N" off, which the cases do not speak of.
func beforeWatermark(lines []string) (out []string) {
	for _, l := range lines {
		s, _, _ := strings.Cut(l, " at watermark")
		out = append(out, s)
	}
	return out
}

func (w *World) expectValues(key string, want ...string) {
	w.T.Helper()
	if got := beforeWatermark(w.Values("out/", key)); !slices.Equal(got, want) {
		w.T.Errorf("key %q: got %q, expected %q", key, got, want)
	}
}

// TestC012TimerOrder: a jump of the watermark fires 10, 15, 20, 5, and it goes downstream after all four.
func TestC012TimerOrder(t *testing.T) {
	t.Parallel()
	w := effectsWorld(t,
		Text("k", 1, "timer 20 do timer 5 late;timer 10 do timer 15 between"),
		Text("other", 101, "out moved"), // takes the watermark from 0 to 100
		Text("k", 102, "wm"))
	var atSink []string
	w.Wrap = func(n *operators.Node, op Native) operators.Operator {
		if n.ID != "out" {
			return op
		}
		return &watched{op, &atSink}
	}
	w.RunToEnd()
	w.expectValues("k", append(fired("10 do timer 15 between", "15 between", "20 do timer 5 late", "5 late"), "watermark 100")...)
	var seen []string
	for _, s := range atSink {
		if strings.HasPrefix(s, "k ") || s == "mark 100" {
			seen = append(seen, s)
		}
	}
	if i := slices.Index(seen, "mark 100"); i != 4 {
		t.Errorf("the sink saw %q, expected the mark 100 after the four timers", seen)
	}
}

// watched notes the records and marks that a sink gets.
type watched struct {
	Native
	log *[]string
}

func (s *watched) Batch(input int, b *abi.Batch, out operators.Collector) error {
	marks := b.Marks
	for i := 0; i <= b.Len(); i++ {
		for len(marks) > 0 && int(marks[0].Index) == i {
			*s.log = append(*s.log, fmt.Sprint("mark ", marks[0].Watermark))
			marks = marks[1:]
		}
		if i < b.Len() {
			*s.log = append(*s.log, fmt.Sprintf("%s %s", b.Frame(i).Key(), b.Frame(i).Value()))
		}
	}
	return s.Native.Batch(input, b, out)
}

// TestC013TimerIdentity: the same timer once, deletion at once, also by a callback of the same round.
func TestC013TimerIdentity(t *testing.T) {
	t.Parallel()
	records := []abi.Record{
		Text("thrice", 1, "timer 50 t;timer 50 t"), Text("thrice", 2, "timer 50 t"),
		Text("deleted", 3, "timer 30 do untimer 40 t;timer 40 t"),
		Text("absent", 4, "untimer 77 none;out fine"),
	}
	for i := range 1000 {
		s := fmt.Sprintf("timer %d m", 5+i+1000)
		if i > 0 {
			s = fmt.Sprintf("untimer %d m;%s", 4+i+1000, s)
		}
		records = append(records, Text("moved", int64(5+i), s))
	}
	w := effectsWorld(t, records...)
	res := w.RunToEnd()
	w.expectValues("thrice", fired("50 t")...)
	w.expectValues("deleted", fired("30 do untimer 40 t")...)
	w.expectValues("absent", "fine")
	w.expectValues("moved", fired("2004 m")...)
	if n := res.Stats.Total("logic", "timers"); n != 3 {
		t.Errorf("%d timers fired, expected 3", n)
	}
	if n := res.Stats.Total("logic", "timers set"); n != 0 {
		t.Errorf("%d timers are left at the end", n)
	}
}

// manual is a clock that stands until it is moved; monotonic time goes on.
type manual struct{ now atomic.Int64 }

func (c *manual) NowMS() int64 { return c.now.Load() }
func (c *manual) Mono() int64  { return int64(time.Since(epoch)) }

var epoch = time.Now()

// TestC014ProcessingTimersAcrossARestart: overdue ones fire once, in deadline order, before the first new
// record of their key; the others at their time.
func TestC014ProcessingTimersAcrossARestart(t *testing.T) {
	t.Parallel()
	const T = 1_700_000_000_000
	clk := &manual{}
	clk.now.Store(T)
	w := New(t, effectsText)
	w.Options = func(o *job.Options) { o.Clock = clk }
	f := w.Feed("in")
	f.Push(Text("k", 1, fmt.Sprintf("ptimer %d second;ptimer %d first;ptimer %d third", T+2000, T+1000, T+60_000)))
	r := w.Start()
	w.Checkpoint(r)
	f.Push(Text("lost", 2, fmt.Sprintf("ptimer %d lost", T)), Text("k", 3, "out back"))
	r.Crash()

	clk.now.Store(T + 5000)
	r = w.Start()
	w.Checkpoint(r)
	early := append(fired(fmt.Sprint(T+1000, " first"), fmt.Sprint(T+2000, " second")), "back")
	w.expectValues("k", early...)
	clk.now.Store(T + 59_999)
	w.Checkpoint(r)
	w.expectValues("k", early...)
	clk.now.Store(T + 60_000)
	w.Checkpoint(r) // wakes the task, which looks at its clock
	w.Checkpoint(r) // commits what came of that
	w.expectValues("k", append(early, fired(fmt.Sprint(T+60_000, " third"))...)...)
	f.End()
	w.Finish(r)
	w.expectValues("k", append(early, fired(fmt.Sprint(T+60_000, " third"))...)...)
	w.expectValues("lost", fired(fmt.Sprint(T, " lost"))...)
}
