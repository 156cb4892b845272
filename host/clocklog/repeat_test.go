package clocklog_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/jobtest"
	"github.com/millrace-io/millrace/host/task"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/stateview"
)

var (
	seedFlag = flag.Uint64("seed", 1, "first seed of TestRepeat")
	seeds    = flag.Uint64("seeds", 0, "how many; 0: 240, without -short 600")
)

func TestMain(m *testing.M) {
	code := m.Run()
	jobtest.Cleanup()
	os.Exit(code)
}

// hands is a clock that a test moves.
type hands struct{ now atomic.Int64 }

func (c *hands) NowMS() int64 { return c.now.Load() }
func (c *hands) Mono() int64  { return int64(time.Since(epoch)) }

var epoch = time.Now()

// feed is a source's input of two splits, read by one task in the order in which it was given.
type feed struct {
	mu      sync.Mutex
	records []abi.Record
	split   []int
	taken   int
	end     int // most that is given; 0: all
	ready   chan struct{}
}

func (f *feed) push(split int, r abi.Record) {
	f.mu.Lock()
	f.records, f.split = append(f.records, r), append(f.split, split)
	f.mu.Unlock()
	select {
	case f.ready <- struct{}{}:
	default:
	}
}

func (f *feed) limit() int {
	if f.end > 0 {
		return min(f.end, len(f.records))
	}
	return len(f.records)
}

func (f *feed) drained() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken == f.limit()
}

type feedSource struct {
	feed *feed
	node *operators.Node
	in   *operators.Intake
	pos  [2]checkpoint.SplitPosition
}

func (s *feedSource) Open(ctx *operators.Context) error {
	s.in = operators.NewIntake(s.node, ctx, s.Describe)
	for i := range s.pos {
		s.pos[i] = checkpoint.SplitPosition{Split: fmt.Sprint("split ", i), Index: uint32(i + 7), MaxTime: abi.NoTime, Mark: abi.MinWatermark}
	}
	for _, r := range ctx.Restored {
		copy(s.pos[:], r.Splits)
	}
	for i := range s.pos {
		s.in.AddSplit(s.pos[i])
	}
	s.feed.mu.Lock()
	s.feed.taken = -1
	s.feed.mu.Unlock()
	return nil
}

func (s *feedSource) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	s.in.Begin()
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	at := s.pos[0].Offset
	for ; at < int64(f.limit()) && !b.Full(most); at++ {
		r, split := f.records[at], f.split[at]
		r.Pos = abi.Position{Split: s.pos[split].Index, Offset: uint64(at)}
		if err := s.in.Decoded(b, split, &r, nil, nil); err != nil {
			return operators.PollMore, err
		}
	}
	s.pos[0].Offset, s.pos[1].Offset = at, at
	f.taken = int(at)
	if at < int64(f.limit()) {
		return operators.PollMore, nil
	}
	s.in.CaughtUp(b, 0)
	s.in.CaughtUp(b, 1)
	return operators.PollIdle, nil
}

func (s *feedSource) Intake() *operators.Intake      { return s.in }
func (s *feedSource) Rejected() *abi.Batch           { return s.in.Rejected() }
func (s *feedSource) Ready() <-chan struct{}         { return s.feed.ready }
func (s *feedSource) Close() error                   { return nil }
func (s *feedSource) Describe(p abi.Position) string { return fmt.Sprint("record ", p.Offset) }
func (s *feedSource) Positions() []checkpoint.SplitPosition {
	for i := range s.pos {
		s.in.Put(i, &s.pos[i])
	}
	return slices.Clone(s.pos[:])
}

const text = `name: clocks
batch: %d
linger: 0ms
checkpoint: {interval: 0s, retain: 1000}
operators:
  - {id: in, source: generator, kind: counter}
  - id: logic
    process:
      module: "@effects"
      function: effects
      clock: processing
      state_ttl: {small: {after: 300ms, domain: processing}, map: {after: 500ms, domain: processing, refresh: read}, list: 2s}
    on_error: {policy: dead_letter, path: dead/}
  - {id: out, sink: file, path: out/, envelope: true}
  - {id: per, window: {type: tumbling, size: 1s}, trigger: {early_clock: 200ms}, aggregates: {n: count}, from: in}
  - {id: perout, sink: file, path: perout/, envelope: true}
  - {id: waits, window: {type: sliding, size: 2s, slide: 1s}, trigger: {count: 7, timeout: 150ms}, aggregates: {n: count}, from: in}
  - {id: waitsout, sink: file, path: waitsout/, envelope: true}
  - {id: clocked, window: {type: tumbling, size: 500ms, time: processing}, aggregates: {n: count}, from: logic}
  - {id: clockedout, sink: file, path: clockedout/, envelope: true}
  - {id: same, map: {module: "@identity", function: identity}, from: in}
  - {id: sameout, sink: file, path: sameout/, envelope: true}
`

// wall is a guest that asks its own clock.
const wall = `  - {id: wall, process: {module: "@goguest-go", function: clock, clock: processing}, from: in}
  - {id: wallout, sink: file, path: wallout/, envelope: true}
`

// scene is a job whose clock and input a test moves.
type scene struct {
	*jobtest.World
	rng   *rand.Rand
	clock *hands
	feed  *feed
	run   *jobtest.Run
	at    int64 // event time
	most  int64 // of the clock
	// forward: the clock is not set back, because of a restart: see Reader.
	forward bool
	seed    uint64
}

func newScene(t *testing.T, yaml string, seed uint64, times operators.TimeSettings) *scene {
	s := &scene{World: jobtest.New(t, yaml), clock: &hands{}, feed: &feed{ready: make(chan struct{}, 1)}, seed: seed}
	s.rng = rand.New(rand.NewPCG(seed, 6))
	s.clock.now.Store(1_700_000_000_000)
	s.at = s.clock.NowMS()
	for _, n := range s.Graph.Nodes {
		if n.Source != nil {
			x := times
			n.Source.Time = &x
		}
		if n.Sink != nil && n.Sink.DeadLetter { // the source has letters too
			letters, sink := *n, *n.Sink
			letters.ID, sink.Path = "letters", "letters/"
			letters.Inputs, letters.Sink = []operators.Edge{{From: "in", Output: operators.OutputDeadLetter}}, &sink
			s.Graph.Nodes = append(s.Graph.Nodes, &letters)
		}
	}
	s.Options = func(o *job.Options) {
		o.Clock, o.Restarts = s.clock, -1
		o.Source = func(n *operators.Node) (operators.Source, error) { return &feedSource{feed: s.feed, node: n}, nil }
	}
	return s
}

func timesOf(rng *rand.Rand) operators.TimeSettings {
	x := operators.TimeSettings{Quantum: 100 * time.Millisecond}
	if rng.IntN(4) == 0 {
		x.Source = operators.TimeIngestion
	} else {
		x.OutOfOrderness = time.Duration(rng.IntN(3)) * 100 * time.Millisecond
		x.MaxFutureSkew = time.Second
		if rng.IntN(2) == 0 {
			x.OnFuture.Policy = operators.PolicyDeadLetter
		}
	}
	if rng.IntN(3) > 0 {
		x.Idle = time.Duration(50+rng.IntN(400)) * time.Millisecond
	}
	return x
}

// drain waits until the source has read everything.
func (s *scene) drain() {
	s.T.Helper()
	for i := 0; !s.feed.drained(); i++ {
		select {
		case <-s.run.Done():
			_, err := s.run.Wait()
			s.T.Fatalf("seed %d: the run has ended: %v", s.seed, err)
		case <-time.After(100 * time.Microsecond):
		}
		if i > 100_000 {
			s.T.Fatalf("seed %d: the feed is not read", s.seed)
		}
	}
}

func (s *scene) checkpoint() checkpoint.ID {
	s.T.Helper()
	s.drain()
	return s.World.Checkpoint(s.run)
}

// act does something at random.
func (s *scene) act() {
	rng := s.rng
	switch n := rng.IntN(10); {
	case n < 5:
		for range 1 + rng.IntN(8) {
			s.push()
		}
	case n < 8:
		s.clock.now.Add(rng.Int64N(300))
		s.most = max(s.most, s.clock.NowMS())
	case n < 9:
		if d := rng.Int64N(3000) - 500; d > 0 || !s.forward {
			s.clock.now.Add(d)
		}
		s.most = max(s.most, s.clock.NowMS())
	default:
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
	}
	if rng.IntN(3) == 0 {
		s.drain()
	}
}

func (s *scene) push() {
	rng := s.rng
	s.at += rng.Int64N(120)
	if rng.IntN(20) == 0 {
		s.at = max(s.at, s.clock.NowMS()-500)
	}
	at := s.at - rng.Int64N(200)
	if rng.IntN(15) == 0 {
		at = s.clock.NowMS() + 900 + rng.Int64N(200) // about where the future begins
	}
	now := s.clock.NowMS()
	commands := []string{"set x", "value", "put u y", "get u", "scan", "put w z", "now", "wm", "append e", "list", "random", "out x", "fail f",
		fmt.Sprintf("ptimer %d p do now", now+rng.Int64N(900)), fmt.Sprintf("ptimer %d q do value", now+rng.Int64N(2000)-100),
		fmt.Sprintf("timer %d e do now", at+rng.Int64N(500)), fmt.Sprintf("timer %d f do scan", at+rng.Int64N(1500))}
	var say []string
	for range 1 + rng.IntN(4) {
		say = append(say, commands[rng.IntN(len(commands))])
	}
	split := 0
	if rng.IntN(4) == 0 {
		split = 1
	}
	s.feed.push(split, jobtest.Text(fmt.Sprint("key-", rng.IntN(4)), at, strings.Join(say, ";")))
}

func (s *scene) store() *snapstore.Store {
	s.T.Helper()
	st, err := snapstore.Open(filepath.Join(s.StateDir(), "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { st.Close() })
	return st
}

// published is what the snapshots behind from, up to to, made visible, per sink.
func (s *scene) published(st *snapstore.Store, from, to checkpoint.ID) map[string]string {
	s.T.Helper()
	var line []*checkpoint.Manifest
	for id := to; id != from; {
		m, err := st.Load(id)
		if err != nil {
			s.T.Fatal(err)
		}
		line = append([]*checkpoint.Manifest{m}, line...)
		id = m.Parent
	}
	first, err := st.Load(from)
	if err != nil {
		s.T.Fatal(err)
	}
	seen, out := map[string]bool{}, map[string]string{}
	for _, m := range append([]*checkpoint.Manifest{first}, line...) {
		for _, t := range m.Tasks {
			for _, o := range t.Operators {
				for _, f := range o.Staged {
					if seen[f.Final] {
						continue
					}
					if seen[f.Final] = true; m == first {
						continue // a later one may name it again
					}
					b, err := os.ReadFile(f.Final)
					if err != nil {
						s.T.Fatalf("seed %d: %v", s.seed, err)
					}
					out[o.Operator] += string(b)
				}
			}
		}
	}
	return out
}

// state is everything that a snapshot holds of operators and sources, as text. What has expired by now and is
// still there for lack of a sweep is left out.
func (s *scene) state(st *snapstore.Store, id checkpoint.ID, now int64) string {
	s.T.Helper()
	m, err := st.Load(id)
	if err != nil {
		s.T.Fatal(err)
	}
	var rows []string
	_, err = stateview.Open(m, st).Scan(context.Background(), stateview.Query{}, func(row []byte) error {
		var r struct {
			Operator, State string
			Expires         *time.Time
		}
		if err := json.Unmarshal(row, &r); err != nil {
			return err
		}
		// Windows may have timers besides those that they wait for, by how batches were cut.
		if r.Expires != nil && r.Expires.UnixMilli() <= now || r.State == "timers" && r.Operator != "logic" {
			return nil
		}
		rows = append(rows, string(row))
		return nil
	})
	if err != nil {
		s.T.Fatalf("seed %d: %v", s.seed, err)
	}
	slices.Sort(rows)
	for _, t := range m.Tasks {
		rows = append(rows, fmt.Sprint(t.Vertex, t.Task, t.Watermarks, t.Idle, t.Ahead))
		for _, o := range t.Operators {
			delete(o.Numbers, "sequence") // of a sink's parts, which are cut where checkpoints are
			numbers, _ := json.Marshal(o.Numbers)
			splits, _ := json.Marshal(o.Splits)
			rows = append(rows, fmt.Sprintf("%s %s %s", o.Operator, numbers, splits))
		}
	}
	return strings.Join(rows, "\n")
}

// fork makes a scene of its own that starts from a snapshot and reads the input as far as end.
func (s *scene) fork(t *testing.T, st *snapstore.Store, from checkpoint.ID, yaml string, end int) *scene {
	t.Helper()
	r := newScene(t, yaml, s.seed, operators.TimeSettings{})
	for i, n := range s.Graph.Nodes {
		if n.Source != nil {
			r.Graph.Nodes[i].Source.Time = n.Source.Time
		}
	}
	r.feed.records, r.feed.split, r.feed.end = s.feed.records, s.feed.split, end
	own, err := snapstore.Open(filepath.Join(r.StateDir(), "snapshots"), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if _, err := own.Fork(context.Background(), st, from, ""); err != nil {
		t.Fatal(err)
	}
	return r
}

// repeat makes a fork do what the clock did, by a clock that shows nonsense.
func (r *scene) repeat(stretch *clocklog.Stretch) {
	r.clock.now.Store(4_000_000_000_000)
	before := r.Options
	r.Options = func(o *job.Options) {
		before(o)
		o.Clocks = func(id task.ID) *clocklog.Reader { return stretch.Reader(id.Vertex, id.Index).Hold() }
	}
}

// TestRepeat: whatever the clock does between two snapshots, and however often the job is checkpointed, stopped or
// killed there, a second job that has the log and no clock gives the same bytes and has the same state in the end.
func TestRepeat(t *testing.T) {
	n := *seeds
	if n == 0 {
		if n = 600; testing.Short() {
			n = 240
		}
	}
	var events, bytes atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for i := range n {
			t.Run(fmt.Sprint(*seedFlag+i), func(t *testing.T) {
				t.Parallel()
				e, b := repeatOne(t, *seedFlag+i)
				events.Add(int64(e))
				bytes.Add(int64(b))
			})
		}
	})
	t.Logf("%d stretches: %d lines repeated, %d bytes of logs", n, events.Load(), bytes.Load())
	if events.Load() < int64(n)*20 {
		t.Errorf("only %d lines in %d stretches: nothing is tested", events.Load(), n)
	}
}

func repeatOne(t *testing.T, seed uint64) (lines, size int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	yaml := text
	if seed%8 == 1 {
		yaml += wall
	}
	s := newScene(t, fmt.Sprintf(yaml, 1+rng.IntN(40)), seed, timesOf(rng))
	s.run = s.Start()
	for range rng.IntN(12) {
		s.act()
	}
	from := s.checkpoint()
	to := from
	for k := range 1 + rng.IntN(3) {
		for range rng.IntN(14) {
			s.act()
		}
		if k > 0 && rng.IntN(4) == 0 { // what came since the checkpoint is read again, at other times
			s.run.Crash()
			s.clock.now.Store(max(s.clock.NowMS(), s.most) + rng.Int64N(2000))
			s.forward = true
			s.run = s.Start()
		} else if rng.IntN(6) == 0 {
			s.run.Stop()
			if _, err := s.run.Wait(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			s.clock.now.Store(max(s.clock.NowMS(), s.most))
			s.forward = true
			s.run = s.Start()
		}
		for range 1 + rng.IntN(10) {
			s.act()
		}
		to = s.checkpoint()
	}
	end, now := len(s.feed.records), max(s.at, s.most)
	s.act() // behind it
	s.run.Crash()
	st := s.store()
	stretch, err := clocklog.Between(context.Background(), st, from, to)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	r := s.fork(t, st, from, fmt.Sprintf(yaml, 1+rng.IntN(40)), end)
	r.repeat(stretch)
	r.run = r.Start()
	for range rng.IntN(3) { // in the middle somewhere
		if _, err := r.run.Job.Checkpoint(context.Background()); err != nil {
			_, end := r.run.Wait()
			t.Fatalf("seed %d: %v: %v", seed, err, end)
		}
	}
	again := r.checkpoint()
	r.run.Crash()
	rst := r.store()
	want, got := s.published(st, from, to), r.published(rst, from, again)
	for sink := range got {
		want[sink] += ""
	}
	for sink := range want {
		if d := jobtest.Diff(got[sink], want[sink]); d != "" {
			t.Fatalf("seed %d, snapshot %d to %d: %s: %s", seed, from, to, sink, d)
		}
		lines += strings.Count(want[sink], "\n")
	}
	if d := jobtest.Diff(r.state(rst, again, now), s.state(st, to, now)); d != "" {
		t.Fatalf("seed %d, snapshot %d to %d: state: %s", seed, from, to, d)
	}
	m, err := st.Load(to)
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Tasks {
		if c := m.Tasks[i].Clock; c != nil {
			size += int(c.Size)
		}
	}
	return lines, size
}
