package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/state"
)

// StateDifference is how far a state of two snapshots differs. It is serialisable.
type StateDifference struct {
	Operator string         `json:"operator"`
	State    string         `json:"state"`
	Entries  int64          `json:"entries"` // in both together, each once
	Differ   int64          `json:"differ"`
	Samples  []*EntryDetail `json:"samples,omitempty"` // the first ones, in hash order
}

// EntryDetail is an entry that differs.
type EntryDetail struct {
	Key    string `json:"key"`
	Of     string `json:"of,omitempty"` // entry of a map or list, timer
	Before string `json:"before"`       // as JSON where that is known; empty: it is not there
	After  string `json:"after"`
}

// Side is a snapshot whose state is compared.
type Side struct {
	Manifest *checkpoint.Manifest
	Objects  state.Objects
}

// CompareStates holds every entry of two snapshots of a job against each other, byte by byte; key: of that key only,
// nil: of all. It lists every state, also those that are the same; numbers, such as watermarks, are lines of
// their own where they differ.
func CompareStates(ctx context.Context, g *operators.Graph, before, after Side, key []byte, samples int) ([]*StateDifference, error) {
	a, b := snapread.Open(before.Manifest, before.Objects, nil), snapread.Open(after.Manifest, after.Objects, nil)
	var out []*StateDifference
	for _, x := range a.States() {
		if isSink(g, x.Operator) {
			continue
		}
		y, err := b.Find(x.Operator, x.Name)
		if errors.Is(err, snapread.ErrNoState) {
			y, err = nil, nil
		}
		if err != nil {
			return nil, err
		}
		d, err := compareState(ctx, g, x, y, key, samples)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	for _, y := range b.States() {
		if _, err := a.Find(y.Operator, y.Name); errors.Is(err, snapread.ErrNoState) {
			d, err := compareState(ctx, g, nil, y, key, samples)
			if err != nil {
				return nil, err
			}
			out = append(out, d)
		}
	}
	return out, nil
}

// walk is the entries of one side.
type walk struct {
	r  *snapread.Reader
	c  *snapread.Cursor
	ok bool
}

func newWalk(ctx context.Context, x *snapread.State, key []byte) (*walk, error) {
	if x == nil {
		return &walk{}, nil
	}
	r, err := x.Open(ctx, 0, math.MaxUint64)
	if err != nil {
		return nil, err
	}
	w := &walk{r: r}
	if key != nil {
		w.c = r.Key(ctx, key)
	} else {
		w.c = r.Scan(ctx, 0, math.MaxUint64)
	}
	w.next()
	return w, nil
}

func (w *walk) next() { w.ok = w.c != nil && w.c.Next() }

func (w *walk) close() error {
	if w == nil || w.r == nil {
		return nil
	}
	return errors.Join(w.c.Err(), w.r.Close())
}

func compareState(ctx context.Context, g *operators.Graph, x, y *snapread.State, key []byte, samples int) (d *StateDifference, err error) {
	named := x
	if x == nil {
		named = y
	}
	d = &StateDifference{Operator: named.Operator, State: named.Name}
	a, err := newWalk(ctx, x, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	b, err := newWalk(ctx, y, key)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	show, err := newEntryShower(g, named)
	if err != nil {
		return nil, err
	}
	for a.ok || b.ok {
		d.Entries++
		order := 0
		switch {
		case !a.ok:
			order = 1
		case !b.ok:
			order = -1
		default:
			order = compareEntries(a.c.Entry(), b.c.Entry())
		}
		var old, now *snapread.Entry
		if order <= 0 {
			old = a.c.Entry()
		}
		if order >= 0 {
			now = b.c.Entry()
		}
		if order != 0 || !bytes.Equal(old.Value, now.Value) || old.Stamp != now.Stamp {
			if d.Differ++; len(d.Samples) < samples {
				d.Samples = append(d.Samples, show.detail(old, now))
			}
		}
		if order <= 0 {
			a.next()
		}
		if order >= 0 {
			b.next()
		}
	}
	return d, nil
}

// compareEntries is the order of a cursor.
func compareEntries(a, b *snapread.Entry) int {
	c := cmp.Or(cmp.Compare(a.Hash, b.Hash), bytes.Compare(a.Key, b.Key), bytes.Compare(a.UserKey, b.UserKey))
	if c != 0 || a.Timer == nil || b.Timer == nil {
		return c
	}
	return cmp.Or(cmp.Compare(a.Timer.Domain, b.Timer.Domain), cmp.Compare(a.Timer.At, b.Timer.At), bytes.Compare(a.Timer.Name, b.Timer.Name))
}

// entryShower shows the entries of a state.
type entryShower struct {
	shower
	number int // of the state; -1: none that a function declares
}

func newEntryShower(g *operators.Graph, x *snapread.State) (*entryShower, error) {
	s := &entryShower{number: -1}
	fn := (*abi.Function)(nil)
	for _, n := range g.Nodes {
		if n.ID == x.Operator && n.Guest != nil {
			fn = n.Guest.Fn
			s.number = slices.IndexFunc(fn.States, func(d abi.StateDescriptor) bool { return d.Name == x.Name })
		}
	}
	for _, ref := range job.StateRefs(g) {
		if ref.Operator == x.Operator {
			s.columns = len(ref.Key)
		}
	}
	var err error
	s.old, err = newDecoder(x.Operator, fn)
	return s, err
}

func (s *entryShower) detail(old, now *snapread.Entry) *EntryDetail {
	e := old
	if e == nil {
		e = now
	}
	d := &EntryDetail{Key: s.key(e.Key)}
	switch {
	case e.Timer != nil:
		d.Of = domainName(e.Timer.Domain) + " timer " + plain(e.Timer.Name)
	case s.number >= 0:
		d.Of = s.old.entry(s.number, e.UserKey)
	case e.UserKey != nil:
		d.Of = plain(e.UserKey)
	}
	text := func(e *snapread.Entry) string {
		switch {
		case e == nil:
			return ""
		case e.Timer != nil:
			return timeText(e.Timer.At)
		case s.number >= 0:
			return s.old.value(s.number, e.Value)
		}
		return plain(e.Value)
	}
	d.Before, d.After = text(old), text(now)
	if old != nil && now != nil && d.Before == d.After {
		d.Before, d.After = fmt.Sprintf("%s (stamp %d)", d.Before, old.Stamp), fmt.Sprintf("%s (stamp %d)", d.After, now.Stamp)
	}
	return d
}

// ComparePositions says where the sources of two snapshots of a job stand differently, in offsets, counts and
// watermarks.
func ComparePositions(g *operators.Graph, before, after *checkpoint.Manifest) (problems []string) {
	for _, n := range g.Nodes {
		if n.Source == nil {
			continue
		}
		now := splitsOf(after, n.ID)
		for _, p := range splitsOf(before, n.ID) {
			i := slices.IndexFunc(now, func(q checkpoint.SplitPosition) bool { return q.Index == p.Index })
			if i < 0 {
				problems = append(problems, fmt.Sprintf("source %s: %s is not there", n.ID, p.Split))
				continue
			}
			if q := now[i]; q.Offset != p.Offset || q.Ordinal != p.Ordinal || q.MaxTime != p.MaxTime || q.Mark != p.Mark || q.Idle != p.Idle {
				problems = append(problems, fmt.Sprintf("source %s: %s stands at offset %d, record %d, watermark %d, it was at %d, %d, %d", n.ID, p.Split,
					q.Offset, q.Ordinal, q.Mark, p.Offset, p.Ordinal, p.Mark))
			}
		}
	}
	return problems
}
