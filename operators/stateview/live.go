package stateview

import (
	"fmt"

	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/state"
)

// Declared is a view of states as operators declare them, without entries: it decodes those of running tasks.
func Declared(id checkpoint.ID, seed uint64, refs []checkpoint.StateRef) *View {
	m := &checkpoint.Manifest{ID: id, Seed: seed, States: refs}
	t := checkpoint.TaskSnapshot{Parallelism: 1}
	for _, r := range refs {
		t.Operators = append(t.Operators, checkpoint.OperatorSnapshot{Operator: r.Operator, Keyed: &state.Snapshot{States: []state.StateSnapshot{
			{Name: r.State.Name, Kind: string(r.State.Kind), Version: r.State.Version}}}})
	}
	m.Tasks = []checkpoint.TaskSnapshot{t}
	return Open(m, nil)
}

// Live is a live query: a key of one state.
type Live struct {
	Operator, State string
	Key             state.Key
	view            *View
	state           *snapread.State
	query           Query
	ukey            []byte
}

// Live finds what a query is about. Errors: ErrQuery; snapread.ErrNoState.
func (v *View) Live(q Query) (*Live, error) {
	if q.Key == nil || q.KeyPrefix != "" || q.After != "" {
		return nil, fmt.Errorf("%w: a running task is asked for one key; the newest snapshot can be scanned", ErrQuery)
	}
	x, err := v.snap.Find(q.Operator, q.State)
	if err != nil {
		return nil, err
	}
	l := &Live{Operator: x.Operator, State: x.Name, view: v, state: x, query: q}
	if l.Key.Bytes, err = v.ParseKey(x, *q.Key); err != nil {
		return nil, err
	}
	l.Key.Hash = v.snap.Hash(l.Key.Bytes)
	if q.Entry != nil {
		if x.Kind != "map" {
			return nil, fmt.Errorf("%w: %s.%s is a %s, only a map's keys have entries", ErrQuery, x.Operator, x.Name, x.Kind)
		}
		l.ukey, err = v.ParseUserKey(x, *q.Entry)
	}
	return l, err
}

// Row appends an entry of the key to a page; full: there is no room for more.
func (l *Live) Row(p *Page, ukey, value []byte) (full bool) {
	e := &snapread.Entry{Hash: l.Key.Hash, Key: l.Key.Bytes, UserKey: ukey, Value: value}
	d := l.view.decoder(l.state)
	if !d.shown(e) || l.ukey != nil && string(ukey) != string(l.ukey) {
		return false
	}
	p.Rows = append(p.Rows, d.appendRow(nil, e, l.query.Raw))
	most := l.query.Limit
	if most <= 0 || most > MostRows {
		most = MostRows
	}
	return len(p.Rows) >= most
}
