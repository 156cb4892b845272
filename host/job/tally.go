package job

import (
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// tally adds up counters by operator and name; those that are 0 are left out.
type tally map[string]map[string]int64

func (t tally) add(id, name string, n int64) {
	if n == 0 {
		return
	}
	if t[id] == nil {
		t[id] = map[string]int64{}
	}
	if name == operators.CounterDelay { // the most of any task, not the sum
		n = max(0, n-t[id][name])
	}
	t[id][name] += n
}

func (t tally) merge(o tally) {
	for id, cs := range o {
		for name, n := range cs {
			t.add(id, name, n)
		}
	}
}

func (t tally) counted(id string, c operators.Counted) {
	for name, n := range c.Counters() {
		t.add(id, name, n)
	}
}

func (t tally) guest(g *guestop.Op) {
	st, held := g.Stats()
	id := g.ID()
	t.add(id, "in", st.In)
	t.add(id, "out", st.Out)
	t.add(id, "skipped", st.Skipped)
	t.add(id, "dead letters", st.Dead)
	t.add(id, "timers", st.Timers)
	t.add(id, "faults", st.Faults)
	t.add(id, "calls", st.Calls)
	t.add(id, "resets", st.Resets)
	t.add(id, "fuel", st.Fuel)
	t.add(id, "state entries", held.Entries)
	t.add(id, "timers set", held.Timers)
	t.add(id, "state bytes in memory", held.MemBytes)
	t.add(id, "state bytes in files", held.ColdBytes)
	t.add(id, "evictions", held.Evictions)
	for name, n := range g.Metrics() {
		t.add(id, "guest."+name, n)
	}
}

// list is the tally in the order of nodes.
func (t tally) list(nodes []*operators.Node) (out []OperatorStats) {
	for _, n := range nodes {
		out = append(out, OperatorStats{ID: n.ID, Kind: string(n.Kind), Counters: t[n.ID]})
	}
	return out
}
