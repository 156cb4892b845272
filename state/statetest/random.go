package statetest

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// random runs random histories against the model: changes, scans with changes under way, rounds of timers,
// cuts that take a while, restores with another number of tasks. A failure prints its seed.
func random(t *testing.T, open Open, budget int64) {
	for range 3 {
		seed := rand.Int63()
		t.Logf("seed %d", seed)
		h := newHistory(t, open, budget, seed)
		for h.n = range 4000 {
			h.op()
		}
		h.compare()
		h.restore()
		h.compare()
		h.drain()
		h.w.stop()
		if t.Failed() {
			return
		}
	}
}

// history is one random run.
type history struct {
	w     *world
	m     *model
	r     *rand.Rand
	n     int
	now   int64
	cut   *cut // under way, of the model below
	cutM  *model
	snap  []state.Snapshot // the last complete one
	snapM *model
}

func newHistory(t *testing.T, open Open, budget, seed int64) *history {
	h := &history{r: rand.New(rand.NewSource(seed)), m: newModel(), snapM: newModel(), now: 1000}
	h.w = newWorld(t, open, budget, 1+h.r.Intn(3))
	return h
}

// word is a key: often the same, with zeros and 0xFF, sometimes long.
func (h *history) word(n int) string {
	s := []string{"", "a", "a\x00", "ab", "\x00", "\xff", "\xff\xff", "key-"}[h.r.Intn(8)]
	if h.r.Intn(4) > 0 {
		s += fmt.Sprint(h.r.Intn(n))
	}
	if h.r.Intn(40) == 0 {
		s += strings.Repeat("x", h.r.Intn(900))
	}
	return s
}

func (h *history) value() string {
	n := h.r.Intn(60)
	switch h.r.Intn(30) {
	case 0:
		n = h.r.Intn(5000)
	case 1:
		n = 0
	}
	return strings.Repeat(string(rune('a'+h.n%26)), n)
}

func (h *history) op() {
	switch x := h.r.Intn(1000); {
	case x < 250:
		h.values()
	case x < 600:
		h.maps()
	case x < 940:
		h.timers()
	case x < 960:
		if h.cut == nil {
			h.cut, h.cutM = h.w.freeze(), h.m.clone()
		}
	case x < 995:
		if h.cut != nil && h.w.step(h.cut) {
			h.finish()
		}
	case x < 998:
		h.restore()
	default:
		h.compare()
	}
}

// finish makes the cut under way the last snapshot.
func (h *history) finish() {
	if h.cut != nil {
		h.snap, h.snapM = h.w.results(h.cut), h.cutM
		h.cut = nil
	}
}

// restore goes back to the last snapshot, perhaps with another number of tasks.
func (h *history) restore() {
	h.finish()
	h.m = h.snapM.clone()
	h.w.restart(1+h.r.Intn(4), h.snap)
}

func (h *history) values() {
	k := h.word(40)
	switch h.r.Intn(5) {
	case 0:
		h.w.ok(h.w.at(k).Value(valueState).Remove(state.NoPos, h.w.key(k)))
		delete(h.m.values, k)
	case 1:
		v, ok := h.w.load(k)
		if want, in := h.m.values[k]; ok != in || v != want {
			h.w.t.Fatalf("op %d: load %.40q: %.40q %v, want %.40q %v", h.n, k, v, ok, want, in)
		}
	case 2:
		h.prefetch()
	default:
		v := h.value()
		h.w.store(k, v)
		h.m.values[k] = v
	}
}

// prefetch brings distinct keys of one task in, loads and stores through the positions.
func (h *history) prefetch() {
	task := h.r.Intn(len(h.w.tasks))
	var keys []state.Key
	seen := map[string]bool{}
	for range h.r.Intn(20) {
		k := h.word(40)
		if !seen[k] && h.w.task(k) == task {
			seen[k] = true
			keys = append(keys, h.w.key(k))
		}
	}
	vs := h.w.tasks[task].Value(valueState)
	pos := make([]state.Pos, len(keys))
	h.w.ok(vs.Prefetch(keys, pos))
	for i, k := range keys {
		v, ok, err := vs.Load(pos[i], k)
		h.w.ok(err)
		if want, in := h.m.values[string(k.Bytes)]; ok != in || string(v) != want {
			h.w.t.Fatalf("op %d: prefetched %.40q: %.40q %v, want %.40q %v", h.n, k.Bytes, v, ok, want, in)
		}
		if h.r.Intn(2) == 0 {
			n := h.value()
			h.w.ok(vs.Store(pos[i], k, []byte(n)))
			h.m.values[string(k.Bytes)] = n
		}
	}
}

func (h *history) maps() {
	i := mapState + h.r.Intn(3)
	k, u := h.word(10), h.word(60)
	switch x := h.r.Intn(100); {
	case x < 50:
		v := h.value()
		h.w.put(i, k, u, v)
		h.m.put(i, k, u, v)
	case x < 65:
		h.w.del(i, k, u)
		delete(h.m.maps[i][k], u)
	case x < 68:
		h.w.clear(i, k)
		delete(h.m.maps[i], k)
	case x < 85:
		v, ok := h.w.get(i, k, u)
		if want, in := h.m.maps[i][k][u]; ok != in || v != want {
			h.w.t.Fatalf("op %d: get %.40q %.40q: %.40q %v, want %.40q %v", h.n, k, u, v, ok, want, in)
		}
	default:
		h.scan(i, k)
	}
}

// scan iterates a key while entries of it and of others change.
func (h *history) scan(i int, k string) {
	from := ""
	if h.r.Intn(2) == 0 {
		from = h.word(60)
	}
	want := h.m.scan(i, k, from)
	it, err := h.w.at(k).Ordered(i).Scan(h.w.key(k), []byte(from))
	h.w.ok(err)
	var got []string
	stop := h.r.Intn(10) == 0
	for it.Next() {
		u, v := it.Entry()
		if got = append(got, string(u)+"="+string(v)); stop && len(got) == 3 {
			want = want[:3]
			break
		}
		switch h.r.Intn(6) {
		case 0:
			h.w.del(i, k, string(u))
			delete(h.m.maps[i][k], string(u))
		case 1:
			other, n := h.word(60), h.value()
			h.w.put(i, k, other, n)
			h.m.put(i, k, other, n)
		case 2:
			if h.r.Intn(20) == 0 {
				h.w.clear(i, k)
				delete(h.m.maps[i], k)
			}
		}
	}
	h.w.ok(it.Close())
	h.w.same(fmt.Sprintf("op %d: scan of %.40q from %.40q", h.n, k, from), got, want)
}

func (h *history) timers() {
	t := timer{state.Domain(h.r.Intn(2)), h.word(40), "", h.now + int64(h.r.Intn(400)) - 50}
	switch h.r.Intn(20) {
	case 0:
		t.at += int64(h.r.Intn(1e9))
	case 1:
		t.at += int64(h.r.Intn(1e15))
	}
	if h.r.Intn(3) == 0 {
		t.name = []string{"n", "m", "n\x00"}[h.r.Intn(3)]
	}
	switch x := h.r.Intn(100); {
	case x < 65:
		h.w.set(t.d, t.key, t.name, t.at)
		h.m.timers[t] = true
	case x < 80:
		for have := range h.m.timers { // a live one, if there is
			if h.r.Intn(3) > 0 {
				t = have
			}
			break
		}
		h.w.unset(t.d, t.key, t.name, t.at)
		delete(h.m.timers, t)
	default:
		h.now += int64(h.r.Intn(100))
		if h.r.Intn(50) == 0 {
			h.now += int64(h.r.Intn(1e9))
		}
		for range 1 + h.r.Intn(5) {
			h.due(h.r.Intn(len(h.w.tasks)), t.d, h.now, 1+h.r.Intn(10))
		}
	}
}

func (h *history) due(task int, d state.Domain, upTo int64, max int) bool {
	owns := func(k string) bool { return h.w.task(k) == task }
	want := h.m.due(task, owns, d, upTo, max)
	h.w.same(fmt.Sprintf("op %d: due in task %d up to %d", h.n, task, upTo), h.w.due(task, d, upTo, max), want)
	return len(want) > 0
}

// compare looks at everything.
func (h *history) compare() {
	for k, want := range h.m.values {
		if v, ok := h.w.load(k); !ok || v != want {
			h.w.t.Fatalf("op %d: value of %.40q: %.40q %v, want %.40q", h.n, k, v, ok, want)
		}
	}
	for i := mapState; i <= listState; i++ {
		for k := range h.m.maps[i] {
			h.w.same(fmt.Sprintf("op %d: entries of %.40q", h.n, k), h.w.scan(i, k, ""), h.m.scan(i, k, ""))
		}
	}
	n := 0
	for task, k := range h.w.tasks {
		n += k.Timers().Len()
		for d := event; d <= processing; d++ {
			at, ok := k.Timers().Next(d)
			for t := range h.m.timers {
				if t.d == d && h.w.task(t.key) == task && (!ok || t.at < at) {
					h.w.t.Fatalf("op %d: next of domain %d is %d %v, but there is %v", h.n, d, at, ok, t)
				}
			}
		}
	}
	if n != len(h.m.timers) {
		h.w.t.Fatalf("op %d: %d live timers, want %d", h.n, n, len(h.m.timers))
	}
	if s := h.w.stats(); s.OpenIters != 0 {
		h.w.t.Fatalf("op %d: %d open iterators", h.n, s.OpenIters)
	}
}

// drain fires everything that is left.
func (h *history) drain() {
	for task := range h.w.tasks {
		for d := event; d <= processing; d++ {
			for h.due(task, d, 1<<63-1, 7) {
			}
		}
	}
	h.compare()
}
