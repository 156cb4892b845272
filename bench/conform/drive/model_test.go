package drive

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/bench/conform/corpus"
)

// A plain reading of how Flink's window operator works: windows of a record, merging, triggers with their
// own timers, clean-up timers. It shares nothing with operators/window: no panes, no layout, one list of
// timers that is searched for the earliest.

type span struct{ start, end int64 }

func (s span) last() int64 {
	if s.end == math.MaxInt64 {
		return s.end
	}
	return s.end - 1
}

type element struct {
	ts int64
	v  map[string]int64
}

// cell is what a window of a key has.
type cell struct {
	count           int64
	next, clockNext *int64 // of the continuous triggers
	timeout         *int64
	contents        []element
}

type alarm struct {
	key   string
	win   span
	at    int64
	clock bool
}

type verdict struct{ fire, purge bool }

type model struct {
	o       *windowCase
	wm, now int64
	cells   map[string]map[span]*cell
	alarms  map[alarm]bool
	got     *corpus.Got
	step    int
	spins   int
}

func (m *model) event() bool { return m.o.Time == "event" }

func (m *model) cleanup(w span) int64 {
	if !m.event() {
		return w.last()
	}
	if c := w.last() + m.o.Lateness; c >= w.last() {
		return c
	}
	return math.MaxInt64
}

func (m *model) late(w span) bool { return m.event() && m.cleanup(w) <= m.wm }

func floorTo(t, offset, size int64) int64 {
	r := (t - offset) % size
	if r < 0 {
		r += size
	}
	return t - r
}

func (m *model) windows(e element) []span {
	t := e.ts
	if !m.event() {
		t = m.now
	}
	w := m.o.Window
	switch w.Type {
	case "tumbling":
		s := floorTo(t, w.Offset, w.Size)
		return []span{{s, s + w.Size}}
	case "sliding":
		var out []span
		for s := floorTo(t, w.Offset, w.Slide); s > t-w.Size; s -= w.Slide {
			out = append(out, span{s, s + w.Size})
		}
		return out
	case "session":
		return []span{{t, t + w.Gap}}
	case "session-dynamic":
		return []span{{t, t + e.v["v"]}}
	}
	return []span{{math.MinInt64, math.MaxInt64}}
}

func (m *model) merging() bool {
	return m.o.Window.Type == "session" || m.o.Window.Type == "session-dynamic"
}

func (m *model) cell(key string, w span) *cell {
	if m.cells[key] == nil {
		m.cells[key] = map[span]*cell{}
	}
	if m.cells[key][w] == nil {
		m.cells[key][w] = &cell{}
	}
	return m.cells[key][w]
}

func (m *model) set(key string, w span, at int64, clock bool) {
	m.alarms[alarm{key, w, at, clock}] = true
}

func (m *model) unset(key string, w span, at int64, clock bool) {
	delete(m.alarms, alarm{key, w, at, clock})
}

func (m *model) record(key string, e element) {
	skipped := true
	for _, w := range m.windows(e) {
		if m.merging() {
			w = m.merge(key, w)
			if m.late(w) {
				delete(m.cells[key], w)
				continue
			}
		} else if m.late(w) {
			continue
		}
		skipped = false
		c := m.cell(key, w)
		c.contents = append(c.contents, e)
		v := m.onElement(m.trigger(), key, w, c, e)
		m.apply(v, key, w, c)
		if t := m.cleanup(w); t != math.MaxInt64 {
			m.set(key, w, t, !m.event())
		}
	}
	if skipped && m.event() && e.ts+m.o.Lateness <= m.wm {
		if m.o.Late {
			raw, _ := json.Marshal(e.v)
			m.got.Late = append(m.got.Late, m.result(&e.ts, key, raw))
		} else {
			m.got.LateDropped++
		}
	}
}

// merge puts a new session among those of the key and returns the one it ended up in.
func (m *model) merge(key string, w span) span {
	var olds []span
	all := w
	for grown := true; grown; {
		grown = false
		for o := range m.cells[key] {
			if !slices.Contains(olds, o) && o.start <= all.end && o.end >= all.start {
				olds = append(olds, o)
				all = span{min(all.start, o.start), max(all.end, o.end)}
				grown = true
			}
		}
	}
	if len(olds) == 0 || len(olds) == 1 && olds[0] == all {
		return all
	}
	slices.SortFunc(olds, func(a, b span) int { return int(a.start - b.start) })
	into := &cell{}
	for _, o := range olds {
		c := m.cells[key][o]
		into.contents = append(into.contents, c.contents...)
		into.count += c.count
		into.next, into.clockNext = earlier(into.next, c.next), earlier(into.clockNext, c.clockNext)
	}
	m.cells[key][all] = into
	m.onMerge(m.trigger(), key, all, into)
	for _, o := range olds {
		m.clear(m.trigger(), key, o, m.cells[key][o])
		m.unset(key, o, m.cleanup(o), !m.event())
		delete(m.cells[key], o)
	}
	return all
}

func earlier(a, b *int64) *int64 {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// fire runs what is due in one time domain, the earliest first.
func (m *model) fire(clock bool, upTo int64) {
	for {
		var first *alarm
		for a := range m.alarms {
			if a.clock == clock && a.at <= upTo && (first == nil || a.before(*first)) {
				first = &a
			}
		}
		if first == nil {
			return
		}
		if m.spins++; m.spins > 200_000 {
			panic("the case never ends")
		}
		a := *first
		delete(m.alarms, a)
		if m.merging() && m.cells[a.key][a.win] == nil {
			continue
		}
		c := m.cell(a.key, a.win)
		m.apply(m.onTimer(m.trigger(), a.key, a.win, c, a.at, clock), a.key, a.win, c)
		if clock != m.event() && a.at == m.cleanup(a.win) {
			m.clear(m.trigger(), a.key, a.win, c)
			delete(m.cells[a.key], a.win)
		}
	}
}

func (a alarm) before(b alarm) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.key != b.key {
		return a.key < b.key
	}
	return a.win.start < b.win.start
}

func (m *model) apply(v verdict, key string, w span, c *cell) {
	if v.fire && len(c.contents) > 0 {
		m.emit(key, w, c)
	}
	if v.purge {
		c.contents = nil
	}
}

func (m *model) evict(es []element) []element {
	n, size := int64(-1), int64(-1)
	if e := m.o.Evictor; e != nil && e.Type == "count" {
		n = e.N
	} else if e != nil {
		size = e.Size
	}
	if m.o.Window.Type == "count-sliding" {
		n = m.o.Window.Size
	}
	if n >= 0 && int64(len(es)) > n {
		return slices.Clone(es[int64(len(es))-n:])
	}
	if size >= 0 {
		newest := int64(math.MinInt64)
		for _, e := range es {
			newest = max(newest, e.ts)
		}
		return slices.DeleteFunc(slices.Clone(es), func(e element) bool { return e.ts <= newest-size })
	}
	return es
}

func (m *model) emit(key string, w span, c *cell) {
	after := m.o.Evictor != nil && m.o.Evictor.After
	if !after {
		c.contents = m.evict(c.contents)
	}
	out := map[string]any{}
	if w.end != math.MaxInt64 {
		out["start"], out["end"] = w.start, w.end
	}
	var ids []int64
	sum, lo, hi := int64(0), int64(math.MaxInt64), int64(math.MinInt64)
	for _, e := range c.contents {
		ids = append(ids, e.v["id"])
		sum, lo, hi = sum+e.v["v"], min(lo, e.v["v"]), max(hi, e.v["v"])
	}
	switch m.o.Aggregate {
	case "idset":
		slices.Sort(ids)
		out["ids"] = ids
	case "ids":
		out["ids"] = ids
	default:
		out["count"], out["sum"], out["min"], out["max"] = len(ids), sum, lo, hi
	}
	raw, _ := json.Marshal(out)
	ts := w.last()
	m.got.Main = append(m.got.Main, m.result(&ts, key, raw))
	if after {
		c.contents = m.evict(c.contents)
	}
}

func (m *model) result(ts *int64, key string, v []byte) corpus.Result {
	r := corpus.Result{TS: ts, Value: v, After: m.step}
	if m.o.Keyed {
		r.Key = &key
	}
	return r
}

// run takes the case's steps.
func (m *model) run(c *corpus.Case) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	m.wm, m.cells, m.alarms, m.got = math.MinInt64, map[string]map[span]*cell{}, map[alarm]bool{}, &corpus.Got{}
	for i, s := range c.Input {
		m.step = i
		switch {
		case s.Record != nil:
			var v map[string]int64
			if err := json.Unmarshal(s.Record.Value, &v); err != nil {
				return err
			}
			key := ""
			if s.Record.Key != nil && m.o.Keyed {
				key = *s.Record.Key
			}
			m.record(key, element{s.Record.TS, v})
		case s.Watermark != nil:
			m.wm = *s.Watermark
			m.fire(false, m.wm)
		case s.Clock != nil:
			m.now = *s.Clock
			m.fire(true, m.now)
		case s.End:
			m.wm = math.MaxInt64
			m.fire(false, m.wm)
		}
	}
	return nil
}
