package ordered

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"testing"

	"github.com/millrace-io/millrace/state"
)

var manyTimers = flag.Int("timers", 100_000, "timers of TestManyTimersRestoreAndRescale")

// manyTimer is timer i of n, spread over n/10 keys and a month; all are distinct. Its name says which one it is.
func manyTimer(i, n int, kb []byte) (key, name []byte, at int64) {
	const month = 30 * 86_400_000
	x := uint64(i) * 0x9e3779b97f4a7c15
	return numbered(kb, i%(n/10)), binary.LittleEndian.AppendUint32(nil, uint32(i)), int64(x>>20) % month
}

// TestManyTimersRestoreAndRescale sets many timers in tasks with little memory, cuts, opens them anew in another
// number of tasks, lets half of them fire in steps, does the same again, and lets the rest fire at once. Each
// fires once, those of a key in order, at the first step that reaches it, and memory stays near the limit.
func TestManyTimersRestoreAndRescale(t *testing.T) {
	const limit = 4 << 20
	n := *manyTimers
	if testing.Short() { // under the race detector
		n = 10_000
	}
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("spills %t", cold), func(t *testing.T) {
			cfg := config(t, cold, limit)
			h := cfg.Hasher
			m := &manyTasks{t: t, cfg: cfg, most: math.MaxInt64}
			if cold {
				m.most = 4 * limit
			}
			m.open(2, nil)
			var kb [16]byte
			for i := range n {
				k, name, at := manyTimer(i, n, kb[:])
				x := key(h, k)
				if err := m.of(x).Set(0, x, name, at); err != nil {
					t.Fatal(err)
				}
			}
			m.check(n)
			m.restore(3)
			m.check(n)
			const half, steps = 15 * 86_400_000, 50
			fired := make([]bool, n)
			last := map[uint64]int64{}
			for step := 1; step <= steps; step++ {
				m.fire(half/steps*(int64(step)-1), half/steps*int64(step), n, fired, last)
			}
			done := 0
			for _, f := range fired {
				if f {
					done++
				}
			}
			if done < n/3 || done > n*2/3 {
				t.Errorf("%d of %d timers fired in half of the time", done, n)
			}
			m.check(n - done)
			m.restore(1)
			m.check(n - done)
			m.fire(half, math.MaxInt64, n, fired, last)
			for i, f := range fired {
				if !f {
					t.Fatalf("timer %d of %d did not fire", i, n)
				}
			}
			m.check(0)
		})
	}
}

// manyTasks is a timer service in several tasks.
type manyTasks struct {
	t     *testing.T
	cfg   state.PartConfig
	tasks []*Timers
	most  int64 // bytes that a task may take
}

func (m *manyTasks) open(tasks int, restore []state.RestorePart) {
	m.t.Helper()
	m.tasks = nil
	for i := range tasks {
		c := m.cfg
		c.Dir, c.Range, c.Restore = m.t.TempDir(), state.TaskRange(i, tasks), restore
		m.tasks = append(m.tasks, openTimers(m.t, c))
	}
}

func (m *manyTasks) of(k state.Key) *Timers { return m.tasks[state.TaskOf(k.Hash, len(m.tasks))] }

// restore cuts and goes on in so many tasks.
func (m *manyTasks) restore(tasks int) {
	m.t.Helper()
	var parts []state.RestorePart
	for i, tm := range m.tasks {
		parts = append(parts, state.RestorePart{Range: state.TaskRange(i, len(m.tasks)), Snapshot: freeze(m.t, tm)})
		if err := tm.Close(); err != nil {
			m.t.Fatal(err)
		}
	}
	m.open(tasks, parts)
}

// check compares the number of live timers, and memory.
func (m *manyTasks) check(want int) {
	m.t.Helper()
	got := 0
	for i, tm := range m.tasks {
		got += tm.Len()
		m.memory(i)
	}
	if got != want {
		m.t.Fatalf("%d timers, expected %d", got, want)
	}
}

func (m *manyTasks) memory(task int) {
	if b := m.tasks[task].Stats().MemBytes; b > m.most {
		m.t.Helper()
		m.t.Fatalf("task %d takes %d bytes for %d timers, at most %d expected", task, b, m.tasks[task].Len(), m.most)
	}
}

// fire takes all that is due at upTo, nothing having been due at from any more.
func (m *manyTasks) fire(from, upTo int64, n int, fired []bool, last map[uint64]int64) {
	m.t.Helper()
	var into []state.Timer
	var kb [16]byte
	for i, tm := range m.tasks {
		for {
			var err error
			if into, err = tm.Due(0, upTo, 1024, into); err != nil {
				m.t.Fatal(err)
			}
			if len(into) == 0 {
				break
			}
			for _, x := range into {
				id := int(binary.LittleEndian.Uint32(x.Name))
				k, _, at := manyTimer(id, n, kb[:])
				switch was, ok := last[x.Key.Hash]; {
				case string(k) != string(x.Key.Bytes) || at != x.At:
					m.t.Fatalf("timer %d of key %x at %d, expected key %x at %d", id, x.Key.Bytes, x.At, k, at)
				case fired[id]:
					m.t.Fatalf("timer %d fires twice", id)
				case x.At > upTo || x.At <= from && from > 0:
					m.t.Fatalf("timer %d at %d fires between %d and %d", id, x.At, from, upTo)
				case ok && x.At < was:
					m.t.Fatalf("key %x: %d fires behind %d", x.Key.Bytes, x.At, was)
				}
				fired[id], last[x.Key.Hash] = true, x.At
			}
			m.memory(i)
		}
	}
}
