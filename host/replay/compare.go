package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/abi"
)

// pair is a cause in both versions; -1: that one did not have it.
type pair struct{ old, now int }

// comparison is what differs in one batch, by cause.
type comparison struct {
	old, now *recorder
	pairs    []pair
	found    map[pair]*finding
	order    []*finding
}

// finding is what differs at a cause. Details are made only if somebody wants them.
type finding struct {
	pair
	kinds  Kind
	states []changedEntry
	// What the record cost; -1: not known.
	oldFuel, newFuel int64
	timers           []changedTimer
}

// changedEntry is an entry that the versions leave with different values: the last writes of each, -1: none.
type changedEntry struct{ old, now int }

// changedTimer is the same of timers.
type changedTimer struct{ old, now int }

func compare(old, now *recorder) *comparison {
	c := &comparison{old: old, now: now, found: map[pair]*finding{}}
	c.match()
	c.steps()
	c.states()
	c.timers()
	c.sort()
	return c
}

func (c *comparison) sort() {
	slices.SortStableFunc(c.order, func(a, b *finding) int { return cmp.Compare(a.place(), b.place()) })
}

// place is where a cause is in the batch.
func (f *finding) place() int {
	if f.old < 0 {
		return f.now
	}
	return f.old
}

// match finds which steps are of the same cause: records by their order, timers by key, name and time.
func (c *comparison) match() {
	type timer struct {
		kind      uint32
		key, name string
		at        int64
	}
	id := func(r *recorder, s *step) timer {
		return timer{s.kind, string(r.at(s.key)), string(r.at(s.name)), s.time}
	}
	var records []int
	timers := map[timer][]int{}
	for i := range c.now.steps {
		if s := &c.now.steps[i]; s.kind == abi.KindRecords {
			records = append(records, i)
		} else {
			timers[id(c.now, s)] = append(timers[id(c.now, s)], i)
		}
	}
	taken := make([]bool, len(c.now.steps))
	for i := range c.old.steps {
		p := pair{i, -1}
		if s := &c.old.steps[i]; s.kind == abi.KindRecords {
			if len(records) > 0 {
				p.now, records = records[0], records[1:]
			}
		} else if of := id(c.old, s); len(timers[of]) > 0 {
			p.now, timers[of] = timers[of][0], timers[of][1:]
		}
		if p.now >= 0 {
			taken[p.now] = true
		}
		c.pairs = append(c.pairs, p)
	}
	for i, t := range taken {
		if !t {
			c.pairs = append(c.pairs, pair{-1, i})
		}
	}
}

func (c *comparison) add(p pair, k Kind) *finding {
	f := c.found[p]
	if f == nil {
		f = &finding{pair: p}
		c.found[p] = f
		c.order = append(c.order, f)
	}
	f.kinds |= k
	return f
}

// of is the pair of a step of one version; the other's is -1 where it is asked for that.
func (c *comparison) of(old, now int) pair {
	for _, p := range c.pairs {
		if old >= 0 && p.old == old || old < 0 && p.now == now {
			return p
		}
	}
	return pair{old, now}
}

// steps compares outputs and failures, and timers that fired.
func (c *comparison) steps() {
	for _, p := range c.pairs {
		if p.old < 0 || p.now < 0 {
			if i := max(p.old, p.now); p.old >= 0 && c.old.steps[i].kind == abi.KindRecords {
				continue // the new version stopped
			}
			c.add(p, KindTimer)
			continue
		}
		if !bytes.Equal(c.old.at(c.old.steps[p.old].fail), c.now.at(c.now.steps[p.now].fail)) {
			c.add(p, KindFault)
		}
	}
	a, b := byStep(c.old), byStep(c.now)
	for _, p := range c.pairs {
		if p.old >= 0 && p.now >= 0 && !slices.EqualFunc(a[p.old], b[p.now], func(x, y span) bool { return bytes.Equal(c.old.at(x), c.now.at(y)) }) ||
			p.old >= 0 && p.now < 0 && len(a[p.old]) > 0 && c.found[p] != nil || p.old < 0 && len(b[p.now]) > 0 {
			c.add(p, KindOutput)
		}
	}
}

func byStep(r *recorder) map[int][]span {
	m := make(map[int][]span, len(r.steps))
	for _, o := range r.outs {
		m[o.step] = append(m[o.step], o.frame)
	}
	return m
}

// entryName tells entries of state from each other.
type entryName struct {
	state     int
	key, ukey string
}

// states compares what is left in the entries that were written.
func (c *comparison) states() {
	type last struct{ first, last int }
	gather := func(r *recorder) (names []entryName, m map[entryName]last) {
		m = map[entryName]last{}
		for i := range r.states {
			w := &r.states[i]
			n := entryName{w.state, string(r.at(w.key)), string(r.at(w.ukey))}
			l, ok := m[n]
			if !ok {
				l.first = i
				names = append(names, n)
			}
			l.last = i
			m[n] = l
		}
		return names, m
	}
	names, old := gather(c.old)
	more, now := gather(c.now)
	for _, n := range more {
		if _, ok := old[n]; !ok {
			names = append(names, n)
		}
	}
	for _, n := range names {
		a, inOld := old[n]
		b, inNow := now[n]
		switch {
		case inOld && inNow:
			if equal(c.old.at(c.old.states[a.last].now), c.now.at(c.now.states[b.last].now)) {
				continue
			}
			c.entry(changedEntry{a.last, b.last})
		case inOld:
			if !equal(c.old.at(c.old.states[a.first].old), c.old.at(c.old.states[a.last].now)) {
				c.entry(changedEntry{a.last, -1})
			}
		default:
			if !equal(c.now.at(c.now.states[b.first].old), c.now.at(c.now.states[b.last].now)) {
				c.entry(changedEntry{-1, b.last})
			}
		}
	}
}

// equal tells nothing from no bytes.
func equal(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// entry puts a difference to the step that wrote last.
func (c *comparison) entry(e changedEntry) {
	old, now := -1, -1
	if e.old >= 0 {
		old = c.old.states[e.old].step
	} else {
		now = c.now.states[e.now].step
	}
	f := c.add(c.of(old, now), KindState)
	f.states = append(f.states, e)
}

// timers compares what was set and deleted, each timer by its last change.
func (c *comparison) timers() {
	gather := func(r *recorder) (names []string, m map[string]int) {
		m = map[string]int{}
		for i := range r.timers {
			t := &r.timers[i]
			n := fmt.Sprint(t.domain, len(r.at(t.key))) + string(r.at(t.key)) + string(r.at(t.name))
			if _, ok := m[n]; !ok {
				names = append(names, n)
			}
			m[n] = i
		}
		return names, m
	}
	names, old := gather(c.old)
	more, now := gather(c.now)
	for _, n := range more {
		if _, ok := old[n]; !ok {
			names = append(names, n)
		}
	}
	for _, n := range names {
		e := changedTimer{-1, -1}
		if i, ok := old[n]; ok {
			e.old = i
		}
		if i, ok := now[n]; ok {
			e.now = i
		}
		if e.old >= 0 && e.now >= 0 {
			a, b := &c.old.timers[e.old], &c.now.timers[e.now]
			if a.del == b.del && (a.del || a.at == b.at) {
				continue
			}
		}
		at, to := -1, -1
		if e.old >= 0 {
			at = c.old.timers[e.old].step
		} else {
			to = c.now.timers[e.now].step
		}
		f := c.add(c.of(at, to), KindTimer)
		f.timers = append(f.timers, e)
	}
}
