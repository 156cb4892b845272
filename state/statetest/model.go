package statetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/state"
)

// timer is a timer of the model.
type timer struct {
	d    state.Domain
	key  string
	name string
	at   int64
}

func (t timer) String() string { return fmt.Sprintf("%d/%q/%q@%d", t.d, t.key, t.name, t.at) }

// before is the order within a round.
func (t timer) compare(o timer) int {
	switch {
	case t.at != o.at:
		if t.at < o.at {
			return -1
		}
		return 1
	case t.key != o.key:
		return strings.Compare(t.key, o.key)
	}
	return strings.Compare(t.name, o.name)
}

// model is what keyed state must hold, in the simplest form.
type model struct {
	values map[string]string
	maps   [listState + 1]map[string]map[string]string // by descriptor, key, user key
	timers map[timer]bool
	rounds map[int][]timer // rest of a cut-off round, by task and domain
}

func newModel() *model {
	m := &model{values: map[string]string{}, timers: map[timer]bool{}, rounds: map[int][]timer{}}
	for i := range m.maps {
		m.maps[i] = map[string]map[string]string{}
	}
	return m
}

// clone is what a snapshot must hold: everything but the rest of a round, which is still live.
func (m *model) clone() *model {
	c := &model{values: maps.Clone(m.values), timers: maps.Clone(m.timers), rounds: map[int][]timer{}}
	for i := range m.maps {
		c.maps[i] = map[string]map[string]string{}
		for k, v := range m.maps[i] {
			c.maps[i][k] = maps.Clone(v)
		}
	}
	return c
}

func (m *model) put(i int, k, u, v string) {
	if m.maps[i][k] == nil {
		m.maps[i][k] = map[string]string{}
	}
	m.maps[i][k][u] = v
}

func (m *model) scan(i int, k, from string) (out []string) {
	for _, u := range slices.Sorted(maps.Keys(m.maps[i][k])) {
		if u >= from {
			out = append(out, u+"="+m.maps[i][k][u])
		}
	}
	return out
}

// due is one round of the task that owns the keys for which owns is true.
func (m *model) due(task int, owns func(k string) bool, d state.Domain, upTo int64, max int) (out []string) {
	id := 2*task + int(d)
	for len(out) == 0 {
		if len(m.rounds[id]) == 0 {
			first := map[string]timer{}
			for t := range m.timers {
				if t.d != d || t.at > upTo || !owns(t.key) {
					continue
				}
				if f, ok := first[t.key]; !ok || t.compare(f) < 0 {
					first[t.key] = t
				}
			}
			if len(first) == 0 {
				return nil
			}
			m.rounds[id] = slices.SortedFunc(maps.Values(first), timer.compare)
		}
		r := m.rounds[id]
		for len(r) > 0 && len(out) < max {
			if m.timers[r[0]] {
				delete(m.timers, r[0])
				out = append(out, r[0].String())
			}
			r = r[1:]
		}
		m.rounds[id] = r
	}
	return out
}
