package drive

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/bench/conform/corpus"
)

var (
	seedFlag = flag.Int64("seed", 0, "first seed of the random cases; 0: 1")
	number   = flag.Int("cases", 60, "random cases")
)

func modelled(t *testing.T, c *corpus.Case) (*corpus.Got, error) {
	t.Helper()
	m := &model{o: &windowCase{}}
	if err := strict(c.Operator, m.o); err != nil {
		t.Fatal(err)
	}
	err := m.run(c)
	return m.got, err
}

// The model fits every window case, so it may be asked about others.
func TestModelFitsTheCases(t *testing.T) {
	cases, err := corpus.Load(os.DirFS("../testdata/corpus"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range cases {
		if c.Kind() != "window" {
			continue
		}
		if err := c.Read(); err != nil {
			t.Fatal(err)
		}
		got, err := modelled(t, c)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		for _, bad := range corpus.Judge(&c.Expected, got) {
			t.Errorf("%s: %s", c.ID, bad)
		}
		n++
	}
	if n != 73 {
		t.Errorf("%d cases, the repository has 73", n)
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.Intn(len(of))] }

// randomTrigger is one that Flink takes for the windows of o.
func randomTrigger(r *rand.Rand, o *windowCase, depth int) *triggerCase {
	end := o.Time + "-time"
	kinds := []string{end, "count", "count"}
	if o.Window.Type == "global" {
		kinds = []string{"count"}
	}
	if o.Time == "event" && o.Window.Type != "global" {
		kinds = append(kinds, "continuous-event-time", "continuous-event-time")
	}
	if o.Time == "processing" || o.Window.Type == "global" {
		kinds = append(kinds, "continuous-processing-time")
	}
	if depth == 0 {
		kinds = append(kinds, "purging", "purging")
		if o.Window.Type != "session" && o.Window.Type != "session-dynamic" {
			kinds = append(kinds, "timeout", "timeout")
		}
	}
	t := &triggerCase{Type: pick(r, kinds...), N: 1 + r.Int63n(4), Interval: 2 + r.Int63n(9)}
	switch t.Type {
	case "timeout":
		t.Timeout, t.Reset, t.Clear = 1+r.Int63n(30), r.Intn(2) == 0, r.Intn(2) == 0
		// A time-out that resets takes away a continuous trigger's timer of the same time: of the two Flink
		// keeps one.
		if t.Of = randomTrigger(r, o, 1); t.Of.Type == "continuous-processing-time" {
			t.Of.Type = "count"
		}
	case "purging":
		t.Of = randomTrigger(r, o, 1)
	}
	return t
}

func randomCase(r *rand.Rand) *corpus.Case {
	o := &windowCase{Kind: "window", Keyed: r.Intn(8) > 0, Time: pick(r, "event", "event", "event", "processing"), Late: r.Intn(4) > 0}
	o.Window.Type = pick(r, "tumbling", "tumbling", "sliding", "sliding", "session", "session", "session-dynamic", "global", "count", "count-sliding")
	o.Window.Size = 2 + r.Int63n(30)
	switch o.Window.Type {
	case "tumbling":
		o.Window.Offset = r.Int63n(2*o.Window.Size-1) - o.Window.Size + 1
	case "sliding":
		o.Window.Slide = 1 + r.Int63n(20)
		o.Window.Offset = r.Int63n(2*o.Window.Slide-1) - o.Window.Slide + 1
	case "session":
		o.Window.Gap = 1 + r.Int63n(15)
	case "count", "count-sliding":
		o.Time, o.Window.Size, o.Window.Slide = "event", 1+r.Int63n(5), 1+r.Int63n(5)
	}
	o.Aggregate = pick(r, "ids", "stats")
	if o.Window.Type == "session" || o.Window.Type == "session-dynamic" {
		o.Aggregate = pick(r, "idset", "stats")
	}
	if o.Time == "event" && r.Intn(2) == 0 {
		o.Lateness = r.Int63n(40)
	}
	o.Trigger = &triggerCase{Type: "default"}
	if o.Window.Type != "count" && o.Window.Type != "count-sliding" {
		if o.Window.Type == "global" || r.Intn(4) > 0 {
			o.Trigger = randomTrigger(r, o, 0)
		}
		// Merged contents have no order, so nobody can say which of a session an evictor takes by count.
		if r.Intn(5) == 0 && !(o.Window.Type == "session" || o.Window.Type == "session-dynamic") {
			o.Evictor = &evictorCase{Type: pick(r, "count", "time"), N: 1 + r.Int63n(4), Size: 1 + r.Int63n(15), After: r.Intn(2) == 0}
		}
	}
	c := &corpus.Case{ID: "random", Family: "window"}
	c.Operator, _ = json.Marshal(o)
	ts, clock, wm := r.Int63n(40)-20, int64(0), int64(-1<<62)
	lag := r.Int63n(20)
	for i := range 20 + r.Intn(60) {
		switch k := r.Intn(10); {
		case k < 6:
			ts += r.Int63n(9) - 1
			at := ts - r.Int63n(25)*r.Int63n(2)
			key := pick(r, "a", "b")
			rec := &corpus.Record{TS: at, Value: json.RawMessage(fmt.Sprintf(`{"id":%d,"v":%d}`, i, 1+r.Intn(20)))}
			if o.Keyed {
				rec.Key = &key
			}
			c.Input = append(c.Input, corpus.Step{Record: rec})
		case k < 8:
			if w := ts - lag; w > wm {
				wm = w
				c.Input = append(c.Input, corpus.Step{Watermark: &w})
			}
		default:
			clock += 1 + r.Int63n(12)
			now := clock
			c.Input = append(c.Input, corpus.Step{Clock: &now})
		}
	}
	c.Input = append(c.Input, corpus.Step{End: true})
	return c
}

// order is per key unless several windows of a key may fire at one instant.
func order(c *corpus.Case) string {
	var o windowCase
	if json.Unmarshal(c.Operator, &o) != nil {
		return ""
	}
	for t := o.Trigger; t != nil; t = t.Of {
		if t.Type == "timeout" || strings.HasPrefix(t.Type, "continuous") {
			return corpus.PerStep
		}
	}
	return corpus.PerKey
}

// The operator gives what the model gives for random operators and streams, in all variants.
func TestRandomWindows(t *testing.T) {
	w, err := NewWorld(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	first := max(*seedFlag, 1)
	refused, failed := 0, 0
	for seed := first; seed < first+int64(*number); seed++ {
		r := rand.New(rand.NewSource(seed))
		c := randomCase(r)
		want, err := modelled(t, c)
		if err != nil {
			t.Fatalf("seed %d: the model: %v", seed, err)
		}
		got, err := w.Run(c, Plain(c))
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, c.Operator, err)
		}
		if got.Rejected != nil {
			refused++
			t.Logf("seed %d: %s refused: %v", seed, c.Operator, got.Rejected)
			continue
		}
		dropped := want.LateDropped
		e := &corpus.Expected{Order: order(c), Main: want.Main, Late: want.Late, LateDropped: &dropped}
		if bad := corpus.Judge(e, got); len(bad) > 0 {
			failed++
			t.Errorf("seed %d: %s:\n%v", seed, c.Operator, bad)
			if failed == 8 {
				t.FailNow()
			}
			continue
		}
		for _, v := range Variants(c, false, r) {
			again, err := w.Run(c, v)
			if err == nil {
				err = Same(got, again, v)
			}
			if err != nil {
				t.Errorf("seed %d: %s: %v", seed, c.Operator, err)
			}
		}
	}
	t.Logf("%d refused", refused)
}
