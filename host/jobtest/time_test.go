package jobtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
)

const twoInputs = `name: inputs
batch: 4
linger: 0ms
checkpoint: {interval: 0s}
operators:
  - {id: p0, source: generator, kind: counter}
  - {id: p1, source: generator, kind: counter}
  - {id: both, union: [p0, p1]}
  - id: logic
    process: {module: "@effects", function: effects}
  - {id: out, sink: file, path: out/, envelope: true}
`

// inputs is a job over two live inputs, each of one split that is idle after 500 ms of its clock.
type inputs struct {
	*World
	clock *manual
	p     [2]*Feed
	log   bytes.Buffer
	run   *Run
}

func newInputs(t *testing.T, text string) *inputs {
	in := &inputs{World: New(t, text), clock: &manual{}}
	in.clock.now.Store(1_700_000_000_000)
	for i := range in.p {
		id := fmt.Sprint("p", i)
		in.p[i] = in.Feed(id)
	}
	for _, n := range in.Graph.Nodes {
		if n.Source != nil {
			n.Source.Time = &operators.TimeSettings{Quantum: operators.DefaultQuantum, Idle: 500 * time.Millisecond, MaxFutureSkew: operators.DefaultFutureSkew}
		}
	}
	in.Log = slog.New(slog.NewTextHandler(&in.log, nil))
	in.Options = func(o *job.Options) { o.Clock = in.clock }
	return in
}

// pass lets time pass, and the sources see it.
func (in *inputs) pass(ms int64) {
	in.clock.now.Add(ms)
	in.settle()
}

// settle lets everything that is there come out and be committed.
func (in *inputs) settle() {
	in.T.Helper()
	for range 3 {
		in.Checkpoint(in.run)
	}
}

func (in *inputs) expect(what string, want ...string) {
	in.T.Helper()
	if got := in.Values("out/", "k"); !slices.Equal(got, want) {
		in.T.Fatalf("%s: got %q, expected %q", what, got, want)
	}
}

// TestC006IdleInput: an input that never gave a record stops nothing for longer than its time; what it gives
// then comes behind the watermark, which does not go back.
func TestC006IdleInput(t *testing.T) {
	t.Parallel()
	in := newInputs(t, twoInputs)
	in.p[0].Push(Text("k", 1000, "timer 1999 w"), Text("k", 2000, "out seen"))
	in.run = in.Start()
	in.settle()
	in.pass(250)
	in.pass(249)
	in.expect("before 500 ms", "seen")
	in.pass(1)
	got := []string{"seen", "fired 1999 w at watermark 1999"}
	in.expect("after 500 ms", got...)
	in.p[1].Push(Text("k", 1500, "wm"))
	in.settle()
	got = append(got, "watermark 1999")
	in.expect("p1 is back", got...)
	in.p[1].Push(Text("k", 2500, "timer 2998 w2;wm"))
	in.p[0].Push(Text("k", 9000, "wm"))
	in.settle()
	if all := in.Values("out/", "k"); len(all) != 5 || strings.Contains(strings.Join(all[3:], ""), "fired") {
		t.Fatalf("p1 is active and holds the watermark: got %q", all)
	}
	in.p[1].Push(Text("k", 3000, "wm"))
	in.settle()
	if all := in.Values("out/", "k"); all[len(all)-1] != "fired 2998 w2 at watermark 2999" {
		t.Fatalf("p1 has moved on: got %q", all)
	}
	in.p[0].End()
	in.p[1].End()
	in.Finish(in.run)
	if n := strings.Count(in.log.String(), "split is idle"); n < 1 {
		t.Errorf("nothing is logged: %s", in.log.String())
	}
}

// TestIdleInputAcrossARestart: that an input is idle is in the snapshot, so the watermark goes on without
// waiting anew, and does not go back where one had come back behind it.
func TestIdleInputAcrossARestart(t *testing.T) {
	t.Parallel()
	for _, back := range []bool{false, true} {
		for _, p := range []int{1, 3} {
			in := newInputs(t, twoInputs)
			node(in.Graph, "logic").Parallelism = 1
			in.p[0].Push(Text("k", 5000, "out seen"))
			in.run = in.Start()
			in.settle()
			in.pass(250)
			in.pass(250)
			want := []string{"seen"}
			if back {
				in.p[1].Push(Text("k", 1000, "wm"))
				want = append(want, "watermark 4999")
			}
			in.settle()
			in.expect("before the crash", want...)
			in.run.Crash()

			node(in.Graph, "logic").Parallelism = p
			in.p[0].Push(Text("k", 7000, "wm"))
			in.run = in.Start()
			in.settle()
			in.p[0].Push(Text("k", 7001, "wm"))
			in.settle()
			want = append(want, "watermark 4999")
			if back {
				want = append(want, "watermark 4999")
			} else {
				want = append(want, "watermark 6999")
			}
			in.expect(fmt.Sprintf("parallelism %d, back %v, after the crash", p, back), want...)
			in.p[0].End()
			in.p[1].End()
			in.Finish(in.run)
		}
	}
}

func node(g *operators.Graph, id string) *operators.Node {
	return g.Nodes[slices.IndexFunc(g.Nodes, func(n *operators.Node) bool { return n.ID == id })]
}

// TestC006PausedInput: an input that waits for the sink with unread records is not idle, and none of its
// records comes behind the watermark.
func TestC006PausedInput(t *testing.T) {
	t.Parallel()
	in := newInputs(t, strings.Replace(twoInputs, "batch: 4", "batch: 16", 1))
	gate := &gated{open: make(chan struct{})}
	in.Wrap = func(n *operators.Node, op Native) operators.Operator {
		if n.ID != "out" {
			return op
		}
		gate.Native = op
		return gate
	}
	in.run = in.Start()
	pad := ";forward;" + strings.Repeat(" ", 20_000)
	const records = 400
	for i := range records {
		in.p[1].Push(Text("k", int64(1000+i), "wm"+pad))
	}
	in.p[0].Push(Text("k", 100_000, "wm"))
	stalled, last := 0, int64(-1)
	for stalled < 30 { // until nothing moves: the exchanges are full
		time.Sleep(10 * time.Millisecond)
		in.p[1].mu.Lock()
		taken := in.p[1].taken
		in.p[1].mu.Unlock()
		if stalled++; taken != last {
			stalled, last = 0, taken
		}
	}
	if last >= records {
		t.Fatal("p1 was read to its end in spite of the closed sink")
	}
	for range 40 {
		in.clock.now.Add(250)
		in.p[0].Push()
		in.p[1].Push()
		time.Sleep(time.Millisecond)
	}
	close(gate.open)
	in.settle()
	seen := 0
	for _, e := range in.Envelopes("out/") {
		var wm int64
		if n, _ := fmt.Sscanf(string(*e.Value), "watermark %d", &wm); n == 1 && *e.Time < 100_000 {
			if seen++; wm >= *e.Time {
				t.Fatalf("the record of %d came at the watermark %d", *e.Time, wm)
			}
		}
	}
	if seen != records {
		t.Errorf("%d records of p1, expected %d", seen, records)
	}
	in.p[0].End()
	in.p[1].End()
	in.Finish(in.run)
}

// gated lets nothing through until it is open.
type gated struct {
	Native
	open chan struct{}
}

func (g *gated) Batch(input int, b *abi.Batch, out operators.Collector) error {
	<-g.open
	return g.Native.Batch(input, b, out)
}

// TestC006MoreReadersThanSplits: a task without a split holds nothing back and shows no final watermark before
// the end; then each shows it once.
func TestC006MoreReadersThanSplits(t *testing.T) {
	t.Parallel()
	w := New(t, `name: readers
linger: 0ms
checkpoint: {interval: 20ms}
operators:
  - {id: in, source: generator, kind: counter, parallelism: 4}
  - {id: logic, process: {module: "@effects", function: effects}, parallelism: 1}
  - {id: out, sink: file, path: out/, envelope: true}
  - {id: copy, sink: file, path: copy/, from: in, parallelism: 4}
`)
	w.Sources["in"] = [][]abi.Record{
		{Text("k", 1000, "timer 1999 w"), Text("k", 3000, "out a")},
		{Text("k", 3000, "out b"), Text("k", 3001, "out c"), Text("k", 3200, "out d")}}
	var mu sync.Mutex
	finals := map[operators.Operator]int{}
	count := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range finals {
			n += c
		}
		return n
	}
	w.Wrap = func(n *operators.Node, op Native) operators.Operator {
		if n.ID != "copy" {
			return op
		}
		return &finalSeen{op, func(o operators.Operator) {
			mu.Lock()
			finals[o]++
			mu.Unlock()
		}}
	}
	release := make(chan struct{})
	var with atomic.Int32
	w.Polled = func(_ string, records int) {
		if records > 0 && with.Add(1) <= 2 {
			<-release
		}
	}
	r := w.Start()
	<-r.Ready()
	time.Sleep(100 * time.Millisecond) // the readers without a split have long been polled
	if n := count(); n != 0 {
		t.Errorf("%d tasks show the final watermark while two still read", n)
	}
	close(release)
	w.Finish(r)
	if n := count(); n != 4 || len(finals) != 4 {
		t.Errorf("%d final watermarks at %d tasks, expected one at each of 4", n, len(finals))
	}
	if got := beforeWatermark(w.Values("out/", "k")); !slices.Contains(got, "fired 1999 w") || len(got) != 5 {
		t.Errorf("got %q", got)
	}
}

// finalSeen notes final watermarks.
type finalSeen struct {
	Native
	seen func(operators.Operator)
}

func (s *finalSeen) Batch(input int, b *abi.Batch, out operators.Collector) error {
	for _, m := range b.Marks {
		if m.Watermark == abi.MaxWatermark {
			s.seen(s)
		}
	}
	return s.Native.Batch(input, b, out)
}

// TestFollowedFilesFewerThanTasks: the watermark moves though two of four readers have no file; a file far
// ahead waits for a slow one until that is idle.
func TestFollowedFilesFewerThanTasks(t *testing.T) {
	t.Parallel()
	w := New(t, `name: followed
linger: 0ms
checkpoint: {interval: 20ms}
operators:
  - {id: in, source: file, path: "*.ndjson", follow: true, time: {field: t, idle: 300ms, align: 5s}, parallelism: 4}
  - {id: out, sink: file, path: out/, parallelism: 1}
`)
	line := func(ms int64) string { return fmt.Sprintf(`{"k":"k","t":%d}`+"\n", ms) }
	var fast strings.Builder
	for i := range int64(2000) {
		fast.WriteString(line(1000 + 50*i)) // 100 s: far more than the bound ahead
	}
	w.File("a.ndjson", fast.String())
	w.File("b.ndjson", line(1000))
	r := w.Start()
	deadline := time.Now().Add(time.Minute)
	for r.Stats().Watermark < 100_000 {
		if time.Now().After(deadline) {
			t.Fatalf("the watermark stands at %d", r.Stats().Watermark)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if wm := r.Stats().Watermark; wm != 100_899 { // at the last crossing of a quantum
		t.Errorf("watermark %d, expected 100899", wm)
	}
	f, err := os.OpenFile(filepath.Join(w.Dir, "b.ndjson"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, line(200_000))
	f.Close()
	for r.Stats().Read < 2002 {
		if time.Now().After(deadline) {
			t.Fatalf("%d records read", r.Stats().Read)
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.Stop()
	if _, err := r.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestC009EndOfInput: the end of input fires what is left, once, through an idle input too; one that ends
// early holds nothing; a stop or a crash fires nothing.
func TestC009EndOfInput(t *testing.T) {
	t.Parallel()
	finite := func(w *inputs) {
		w.p[0].Push(Text("k", 1, "timer 9 w"), Text("k", 2, ""), Text("k", 3, ""))
		w.run = w.Start()
		w.settle()
	}
	fired := fmt.Sprintf("fired 9 w at watermark %d", abi.MaxWatermark)
	t.Run("one idle", func(t *testing.T) {
		in := newInputs(t, twoInputs)
		finite(in)
		in.pass(250)
		in.pass(250)
		in.expect("before the end")
		in.p[0].End()
		in.settle()
		in.expect("an idle input has not ended")
		in.p[1].End()
		in.Finish(in.run)
		in.expect("at the end", fired)
	})
	t.Run("early end", func(t *testing.T) {
		in := newInputs(t, twoInputs)
		finite(in)
		in.p[1].End()
		in.settle()
		in.expect("p0 is at 3")
		in.p[0].Push(Text("k", 200, "wm"))
		in.settle()
		in.expect("p0 alone moves it", "watermark 0", "fired 9 w at watermark 199")
		in.p[0].End()
		in.Finish(in.run)
		in.expect("at the end", "watermark 0", "fired 9 w at watermark 199")
	})
	t.Run("stopped", func(t *testing.T) {
		in := newInputs(t, twoInputs)
		finite(in)
		in.run.Stop()
		if _, err := in.run.Wait(); err != nil {
			t.Fatal(err)
		}
		in.expect("after a stop")
	})
	t.Run("crashed", func(t *testing.T) {
		in := newInputs(t, twoInputs)
		finite(in)
		in.run.Crash()
		in.expect("after a crash")
	})
}

// TestC007FutureRecord: one wrong clock makes no other record late; the summary and the log say so.
func TestC007FutureRecord(t *testing.T) {
	t.Parallel()
	in := newInputs(t, twoInputs)
	now := in.clock.now.Load()
	const decade = 10 * 365 * 86_400_000
	in.p[1].End()
	in.run = in.Start()
	in.settle()
	in.p[0].Push(Text("k", now, fmt.Sprintf("timer %d w", now+999)), Text("k", now+decade, "wm"), Text("k", now+1000, "wm"), Text("k", now+2000, "wm"))
	in.p[0].End()
	in.Finish(in.run)
	got := in.Values("out/", "k")
	want := []string{fmt.Sprintf("watermark %d", now-1), fmt.Sprintf("watermark %d", now-1),
		fmt.Sprintf("fired %d w at watermark %d", now+999, now+999), fmt.Sprintf("watermark %d", now+999)}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nexpected %q", got, want)
	}
	if n := strings.Count(in.log.String(), "in the future"); n != 1 || !strings.Contains(in.log.String(), "feed, record 1") {
		t.Errorf("%d warnings: %s", n, in.log.String())
	}

}

// TestIngestionTimeOfAJob: records have the clock's time, and the watermark follows it without records.
func TestIngestionTimeOfAJob(t *testing.T) {
	t.Parallel()
	in := newInputs(t, twoInputs)
	for _, n := range in.Graph.Nodes {
		if n.Source != nil {
			n.Source.Time = &operators.TimeSettings{Source: operators.TimeIngestion, Quantum: operators.DefaultQuantum}
		}
	}
	now := in.clock.now.Load()
	in.p[0].Push(Text("k", 5, fmt.Sprintf("timer %d w;forward", now+999)))
	in.run = in.Start()
	in.settle()
	in.pass(999)
	if e := in.Envelopes("out/"); len(e) != 1 || e[0].Time == nil || *e[0].Time != now {
		t.Errorf("after 999 ms: %+v, expected one record of %d", e, now)
	}
	in.pass(1)
	if got := in.Values("out/", "k"); len(got) != 2 || got[1] != fmt.Sprintf("fired %d w at watermark %d", now+999, now+999) {
		t.Errorf("after 1,000 ms: got %q", got)
	}
	in.p[0].End()
	in.p[1].End()
	in.Finish(in.run)
}

const windowed = `name: windowed
batch: 4
linger: 0ms
checkpoint: {interval: 0s}
operators:
  - {id: p0, source: generator, kind: counter}
  - {id: p1, source: generator, kind: counter}
  - {id: both, union: [p0, p1]}
  - {id: w, window: {type: tumbling, size: 1s}, aggregates: {n: count}}
  - {id: out, sink: file, path: out/}
  - {id: late, sink: file, path: late/, from: w.late, envelope: true}
`

// windows is the committed results as start=count.
func (in *inputs) windows() string {
	in.T.Helper()
	var all []string
	for _, l := range in.Lines("out/") {
		var r struct {
			Start int64 `json:"window_start"`
			N     int64 `json:"n"`
		}
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			in.T.Fatalf("%q: %v", l, err)
		}
		all = append(all, fmt.Sprintf("%d=%d", r.Start, r.N))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestWindowsOfIdleInputs: C006 and C007 as windows show them.
func TestWindowsOfIdleInputs(t *testing.T) {
	t.Parallel()
	in := newInputs(t, windowed)
	expect := func(what, windows string, late int) {
		t.Helper()
		in.settle()
		if got := in.windows(); got != windows || len(in.Lines("late/")) != late {
			t.Fatalf("%s: %q, %d late, expected %q, %d late", what, got, len(in.Lines("late/")), windows, late)
		}
	}
	in.p[0].Push(Text("k", 1000, ""), Text("k", 2000, ""))
	in.run = in.Start()
	expect("at once", "", 0)
	in.pass(250)
	in.pass(249)
	expect("before 500 ms", "", 0)
	in.pass(1)
	expect("after 500 ms", "1000=1", 0)
	in.p[1].Push(Text("k", 1500, ""))
	expect("p1 gave 1500", "1000=1", 1)
	in.p[1].Push(Text("k", 2500, ""))
	in.p[0].Push(Text("k", in.clock.now.Load()+10*365*86_400_000, "")) // moves nothing
	expect("p1 gave 2500", "1000=1", 1)
	in.p[0].Push(Text("k", 3000, ""))
	in.p[1].Push(Text("k", 3000, ""))
	expect("both gave 3000", "1000=1 2000=2", 1)
	in.p[0].End()
	in.p[1].End()
	in.Finish(in.run)
	if got := in.windows(); got != "1000=1 2000=2 2015360000000=1 3000=2" || len(in.Lines("late/")) != 1 {
		t.Errorf("at the end: %q", got)
	}
}
