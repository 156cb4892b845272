package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// relay is a task that passes its channels' items on to one other.
type relay struct {
	t    *testing.T
	task *Task
	in   []*Channel
	out  *Inbox
}

func newRelay(t *testing.T, channels int, change func(*Config)) *relay {
	t.Helper()
	r := &relay{t: t, out: NewInbox()}
	box := NewInbox()
	for range channels {
		r.in = append(r.in, box.Channel(0))
	}
	s := &Stage{Node: &operators.Node{ID: "relay"}, Context: &operators.Context{}}
	s.Exchange(operators.OutputMain, NewWriter(Forward, []*Channel{r.out.Channel(0)}, state.Hasher{}, 256))
	cfg := Config{ID: ID{"relay", 0}, Parallelism: 1, Stages: []*Stage{s}, Inbox: box, Clock: clock.Wall{}, Report: func(Event) {}}
	if change != nil {
		change(&cfg)
	}
	r.task = New(cfg)
	for _, w := range r.task.writers {
		w.ctx, w.now = context.Background(), clock.Wall{}.Mono
	}
	if err := r.task.announce(); err != nil {
		t.Fatal(err)
	}
	return r
}

// send puts items on a channel ("idle", "active", or watermarks and records "5000 r6000 5999") and returns
// what comes out.
func (r *relay) send(ch int, text string) string {
	r.t.Helper()
	it := item{}
	switch text {
	case "idle":
		it.status = idle
	case "active":
		it.status = active
	default:
		it.batch = r.in[ch].take()
		for _, f := range strings.Fields(text) {
			var ms int64
			if f == "end" {
				it.batch.Mark(abi.MaxWatermark)
			} else if n, _ := fmt.Sscanf(f, "r%d", &ms); n == 1 {
				it.batch.Append(&abi.Record{Time: ms})
			} else if n, _ := fmt.Sscanf(f, "%d", &ms); n == 1 {
				it.batch.Mark(ms)
			}
		}
	}
	if err := r.in[ch].send(context.Background(), it); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.task.input(); err != nil {
		r.t.Fatal(err)
	}
	return r.came()
}

func (r *relay) came() string {
	r.t.Helper()
	for _, w := range r.task.writers {
		if err := w.flush(); err != nil {
			r.t.Fatal(err)
		}
	}
	var out []string
	for {
		c, it, ok := r.out.recv()
		if !ok {
			return strings.Join(out, " ")
		}
		if it.batch == nil {
			out = append(out, map[status]string{idle: "idle", active: "active"}[it.status])
			continue
		}
		marks := it.batch.Marks
		for i := 0; i <= it.batch.Len(); i++ {
			for ; len(marks) > 0 && int(marks[0].Index) == i; marks = marks[1:] {
				if w := marks[0].Watermark; w == abi.MaxWatermark {
					out = append(out, "end")
				} else {
					out = append(out, fmt.Sprint(w))
				}
			}
			if i < it.batch.Len() {
				out = append(out, fmt.Sprintf("r%d", it.batch.Frame(i).Time()))
			}
		}
		c.release(it.batch)
	}
}

// TestStatus: what a task with two or three inputs makes of their marks and states, item by item.
func TestStatus(t *testing.T) {
	type step struct {
		channel   int
		item, out string
	}
	for name, c := range map[string]struct {
		channels int
		steps    []step
	}{
		"the quiet one first":          {2, []step{{0, "1999", ""}, {1, "idle", "1999"}, {0, "2999", "2999"}, {0, "idle", "idle"}}},
		"the quiet one last":           {2, []step{{0, "1999", ""}, {0, "idle", ""}, {1, "idle", "1999 idle"}}},
		"back before its records":      {2, []step{{0, "1999", ""}, {0, "idle", ""}, {1, "idle", "1999 idle"}, {1, "active", "active"}, {1, "r1500 1499", "r1500"}, {0, "active", ""}, {0, "9999", ""}, {1, "r3000 2999", "r3000 2999"}}},
		"one channel":                  {1, []step{{0, "100", "100"}, {0, "idle", "idle"}, {0, "active", "active"}, {0, "end", "end"}}},
		"end of an idle one":           {2, []step{{0, "1000", ""}, {1, "idle", "1000"}, {1, "active", ""}, {1, "end", ""}, {0, "2000", "2000"}, {0, "end", "end"}}},
		"end of the last that counted": {2, []step{{0, "1000", ""}, {1, "idle", "1000"}, {0, "end", "idle"}, {1, "active", "active"}, {1, "500", ""}, {1, "end", "end"}}},
		"of three":                     {3, []step{{0, "100", ""}, {1, "200", ""}, {2, "300", "100"}, {0, "idle", "200"}, {1, "idle", "300"}, {0, "active", ""}, {2, "400", ""}, {0, "350", "350"}}},
		"idle twice says nothing anew": {2, []step{{0, "idle", ""}, {1, "idle", "idle"}, {1, "idle", ""}, {0, "active", "active"}, {1, "active", ""}}},
		"an end is not a foremost":     {2, []step{{0, "end", ""}, {1, "100", "100"}, {1, "idle", "idle"}, {1, "active", "active"}, {1, "200", "200"}}},
	} {
		r := newRelay(t, c.channels, nil)
		for i, s := range c.steps {
			if got := r.send(s.channel, s.item); got != s.out {
				t.Errorf("%s, step %d: channel %d gave %q, out came %q, expected %q", name, i, s.channel, s.item, got, s.out)
			}
		}
	}
}

// TestStatusIsInTheSnapshot: a task restored at any point of a sequence goes on as one that was not, and says
// at its start whether it is idle.
func TestStatusIsInTheSnapshot(t *testing.T) {
	steps := []struct {
		channel int
		item    string
	}{{0, "1999"}, {0, "idle"}, {1, "idle"}, {1, "active"}, {1, "1499"}, {0, "active"}, {0, "idle"}, {1, "r1700 2500"}, {1, "idle"}, {0, "active"}, {0, "4000"}, {1, "end"}, {0, "end"}}
	for cut := range steps {
		whole := newRelay(t, 2, nil)
		for _, s := range steps[:cut] {
			whole.send(s.channel, s.item)
		}
		snap := checkpoint.TaskSnapshot{Watermarks: slices.Clone(whole.task.wms), Idle: whole.task.idleChannels(), Ahead: checkpoint.Ahead(whole.task.merged, minOf(whole.task.wms))}
		if snap.Watermark() != whole.task.merged {
			t.Errorf("cut %d: the snapshot says %d, the task %d", cut, snap.Watermark(), whole.task.merged)
		}
		again := newRelay(t, 2, func(c *Config) {
			c.Restored, c.Watermarks, c.Idle, c.Ahead = 1, snap.Watermarks, snap.Idle, snap.Ahead
		})
		want := "active"
		if whole.task.idle {
			want = "idle"
		}
		if got := again.came(); got != want {
			t.Errorf("cut %d: it says %q at its start, expected %q", cut, got, want)
		}
		for i, s := range steps[cut:] {
			if got, want := again.send(s.channel, s.item), whole.send(s.channel, s.item); got != want {
				t.Errorf("cut %d, step %d: out came %q, without a restore %q", cut, cut+i, got, want)
			}
		}
	}
}
