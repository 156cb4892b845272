package jobtest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/generator"
)

// alarmText sets a timer for each record, 10 s behind it; the watermark stays behind all of them until the end.
const alarmText = `name: alarm
parallelism: %d
memory: %s
state: %s
checkpoint: {interval: 0s}
operators:
  - {id: in, source: generator, kind: counter, records: %d, keys: %d, splits: 3, step: 17ms, value_bytes: 8, out_of_orderness: 10000h}
  - {id: alarm, process: {module: "@alarm", function: alarm}}
  - {id: out, sink: blackhole}
`

const alarmDelay = 10_000

// TestManyTimersRestoreAndRescale: timers that are all set when the process dies fire once each after a restart
// in another number of tasks, those of a key in order, under little memory too.
func TestManyTimersRestoreAndRescale(t *testing.T) {
	t.Parallel()
	n := 60_000
	switch {
	case *fullMatrix:
		n = 1_000_000
	case testing.Short(): // under the race detector
		n = 10_000
	}
	for _, c := range []struct {
		before, after int
		state, memory string
	}{{2, 3, "disk", "8MiB"}, {3, 1, "memory", "64MiB"}} {
		t.Run(fmt.Sprintf("%d to %d tasks, %s", c.before, c.after, c.state), func(t *testing.T) {
			t.Parallel()
			w := New(t, fmt.Sprintf(alarmText, c.before, c.memory, c.state, n, n/10))
			rings := &rings{last: map[string]int64{}}
			held := &heldSource{all: make(chan struct{})}
			w.Options = func(o *job.Options) {
				o.Operator = func(*operators.Node) (operators.Operator, error) { return &ringing{rings}, nil }
				o.Source = func(n *operators.Node) (operators.Source, error) {
					if held == nil {
						return generator.NewSource(n), nil
					}
					return &holding{generator.NewSource(n), held}, nil
				}
			}
			held.left.Add(c.before)
			go func() {
				held.left.Wait()
				close(held.all)
			}()
			r := w.Start()
			<-held.all
			w.Checkpoint(r)
			r.Crash()
			dead, _ := r.Wait() // its error says that it was cancelled
			set := dead.Stats.Total("alarm", "timers set")
			if b := dead.Stats.Total("alarm", "state bytes in memory"); c.state == "disk" && b > 4*8<<20 {
				t.Errorf("%d timers take %d bytes of memory, the job has 8 MiB", set, b)
			}
			if rings.n != 0 {
				t.Fatalf("%d timers fired before the end of the input", rings.n)
			}

			held = nil
			w.Pipeline(fmt.Sprintf(alarmText, c.after, c.memory, c.state, n, n/10))
			res := w.RunToEnd()
			for _, x := range rings.wrong {
				t.Error(x)
			}
			if want := int64(n); set != want || rings.n != want || res.Stats.Total("alarm", "timers") != want {
				t.Errorf("%d timers were set, %d rang, expected %d", set, rings.n, want)
			}
			if len(rings.last) == 0 || len(rings.last) > n/10 {
				t.Errorf("%d keys, expected up to %d", len(rings.last), n/10)
			}
			if left := res.Stats.Total("alarm", "timers set"); left != 0 {
				t.Errorf("%d timers are left", left)
			}
			if first := slices.Min(slices.Collect(maps.Values(rings.last))); first < alarmDelay {
				t.Errorf("a key's last timer was for %d", first)
			}
		})
	}
}

// heldSource is told when tasks have no more records.
type heldSource struct {
	left sync.WaitGroup
	all  chan struct{}
}

// holding is a generator that does not end.
type holding struct {
	*generator.Source
	held *heldSource
}

// Poll implements operators.Source.
func (s *holding) Poll(b *abi.Batch, max int) (operators.PollStatus, error) {
	st, err := s.Source.Poll(b, max)
	if st != operators.PollEnd || err != nil {
		return st, err
	}
	if s.held != nil {
		s.held.left.Done()
		s.held = nil
	}
	return operators.PollIdle, nil
}

// rings checks the outputs of timers, of all tasks.
type rings struct {
	mu    sync.Mutex
	n     int64
	last  map[string]int64 // of each key
	wrong []string
}

// ringing is the sink of one task.
type ringing struct{ *rings }

func (*ringing) Open(*operators.Context) error { return nil }
func (*ringing) Close() error                  { return nil }

func (s *ringing) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Off {
		f := b.Frame(i)
		at, wm := int64(binary.LittleEndian.Uint64(f.Value())), int64(binary.LittleEndian.Uint64(f.Value()[8:]))
		key := string(f.Key())
		last, ok := s.last[key]
		if ok && at <= last || at != f.Time() || wm < at || at < alarmDelay || (at-alarmDelay)%17 != 0 {
			if s.wrong = append(s.wrong, fmt.Sprintf("key %q: a timer for %d at watermark %d, of time %d, behind %d", key, at, wm, f.Time(), last)); len(s.wrong) > 10 {
				return nil
			}
		}
		s.last[key] = at
		s.n++
	}
	return nil
}
