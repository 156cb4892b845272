package drive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
)

// windowCase is a window operator as cases describe it. Times are ms.
type windowCase struct {
	Kind   string `json:"kind"`
	Keyed  bool   `json:"keyed"`
	Time   string `json:"time"`
	Window struct {
		Type   string `json:"type"`
		Size   int64  `json:"size"`
		Slide  int64  `json:"slide"`
		Offset int64  `json:"offset"`
		Gap    int64  `json:"gap"`
	} `json:"window"`
	Trigger   *triggerCase `json:"trigger"`
	Evictor   *evictorCase `json:"evictor"`
	Lateness  int64        `json:"allowed_lateness"`
	Late      bool         `json:"late_output"`
	Aggregate string       `json:"aggregate"`
}

type triggerCase struct {
	Type     string       `json:"type"`
	N        int64        `json:"n"`
	Interval int64        `json:"interval"`
	Timeout  int64        `json:"timeout"`
	Reset    bool         `json:"reset_on_record"`
	Clear    bool         `json:"clear_on_timeout"`
	Of       *triggerCase `json:"of"`
}

type evictorCase struct {
	Type  string `json:"type"`
	N     int64  `json:"n"`
	Size  int64  `json:"size"`
	After bool   `json:"after"`
}

// windows translates a case to the window operator's own configuration.
func windows(c *corpus.Case) (*driven, error) {
	var o windowCase
	if err := strict(c.Operator, &o); err != nil {
		return nil, err
	}
	n := &operators.WindowNode{Time: o.Time, Late: o.Late, Unkeyed: !o.Keyed, Accumulation: operators.Accumulating}
	if o.Time == operators.TimeEvent {
		n.Lateness = o.Lateness // by the clock nothing is late, whatever the case says
	}
	if err := o.shape(n); err != nil {
		return nil, err
	}
	n.Trigger = operators.DefaultTrigger(n.Window)
	if o.Trigger != nil && o.Trigger.Type != "default" {
		n.Trigger = operators.WindowTrigger{}
		if err := o.Trigger.add(&o, &n.Trigger); err != nil {
			return nil, err
		}
	}
	if err := o.evictor(n); err != nil {
		return nil, err
	}
	fs, err := schema(c, "id", "v")
	if err != nil {
		return nil, err
	}
	n.Input = fs
	if n.Aggregates, err = aggregates(o.Aggregate); err != nil {
		return nil, err
	}
	if err := window.Validate(n); err != nil {
		return nil, &refusal{err}
	}
	node := &operators.Node{ID: "op", Kind: operators.NodeWindow, Parallelism: 1, Keyed: o.Keyed, Schema: window.Schema(n), Window: n}
	d := &driven{
		open: func(w *World, _ Variant) (operators.Operator, error) {
			return window.New(window.Config{Node: node, OpenKeyed: w.openKeyed}), nil
		},
		record: func(r *corpus.Record) ([]byte, error) { return encode(r.Value, fs) },
		late:   1,
		result: func(v []byte) ([]byte, error) { return windowResult(v, node.Schema, o.Aggregate) },
		input: func(v []byte) ([]byte, error) {
			m, err := decode(v, fs)
			if err != nil {
				return nil, err
			}
			return json.Marshal(m)
		},
	}
	if !o.Late {
		d.late, d.drops = 0, lateDropped
	}
	return d, nil
}

func (o *windowCase) shape(n *operators.WindowNode) error {
	w := o.Window
	switch w.Type {
	case "tumbling", "sliding", "session", "global":
		n.Window = operators.WindowShape{Type: w.Type, Size: w.Size, Slide: w.Slide, Offset: w.Offset, Gap: w.Gap}
	case "session-dynamic":
		n.Window = operators.WindowShape{Type: operators.WindowSession, GapField: "v"}
	case "count":
		n.Window = operators.WindowShape{Type: operators.WindowCount, Count: w.Size}
	case "count-sliding":
		n.Window = operators.WindowShape{Type: operators.WindowCount, Count: w.Size, CountSlide: w.Slide}
		n.Evictor = &operators.WindowEvictor{Count: w.Size} // all but the last so many are forgotten
	default:
		return fmt.Errorf("operator: unknown window type %q", w.Type)
	}
	return nil
}

// add adds a trigger of the case to t.
func (c *triggerCase) add(o *windowCase, t *operators.WindowTrigger) error {
	global := o.Window.Type == "global"
	switch c.Type {
	case "event-time", "processing-time":
		if (c.Type == "event-time") != (o.Time == operators.TimeEvent) {
			return fmt.Errorf("operator: %s trigger on %s time windows: %w", c.Type, o.Time, ErrNotBuilt)
		}
		t.AtEnd = true
	case "count":
		t.Count = c.N
	case "continuous-event-time":
		t.Every, t.AtEnd = c.Interval, !global
	case "continuous-processing-time":
		t.EveryClock, t.AtEnd = c.Interval, !global && o.Time == operators.TimeProcessing
	case "end-of-stream":
		t.EndOfStream = true
	case "purging":
		t.Purge = true
		return c.nested(o, t)
	case "timeout":
		t.Timeout, t.TimeoutReset, t.TimeoutClear = c.Timeout, c.Reset, c.Clear
		return c.nested(o, t)
	default:
		return fmt.Errorf("operator: unknown trigger %q", c.Type)
	}
	return nil
}

func (c *triggerCase) nested(o *windowCase, t *operators.WindowTrigger) error {
	if c.Of == nil {
		return fmt.Errorf("operator: a %s trigger of nothing", c.Type)
	}
	return c.Of.add(o, t)
}

func (o *windowCase) evictor(n *operators.WindowNode) error {
	e := o.Evictor
	if e == nil {
		return nil
	}
	if n.Evictor != nil {
		return fmt.Errorf("operator: an evictor on a %s window: %w", o.Window.Type, ErrNotBuilt)
	}
	switch e.Type {
	case "count":
		n.Evictor = &operators.WindowEvictor{Count: e.N, After: e.After}
	case "time":
		n.Evictor = &operators.WindowEvictor{Span: e.Size, After: e.After}
	default:
		return fmt.Errorf("operator: unknown evictor %q", e.Type)
	}
	return nil
}

func aggregates(name string) ([]operators.WindowAggregate, error) {
	switch name {
	case "ids", "idset":
		return []operators.WindowAggregate{{Name: "ids", Kind: operators.AggCollect, Field: "id"}}, nil
	case "stats":
		return []operators.WindowAggregate{{Name: "count", Kind: operators.AggCount}, {Name: "sum", Kind: operators.AggSum, Field: "v"},
			{Name: "min", Kind: operators.AggMin, Field: "v"}, {Name: "max", Kind: operators.AggMax, Field: "v"}}, nil
	}
	return nil, fmt.Errorf("operator: unknown aggregate %q", name)
}

// lateDropped is how many late records had no late output to go to.
func lateDropped(op operators.Operator) int64 {
	return op.(operators.Counted).Counters()["late"]
}

// windowResult makes a result row what the case has: bounds called start and end, and of an idset, whose
// order means nothing, the ids in order.
func windowResult(row []byte, fs []abi.Field, aggregate string) ([]byte, error) {
	m, err := decode(row, fs)
	if err != nil {
		return nil, err
	}
	for from, to := range map[string]string{window.ColumnStart: "start", window.ColumnEnd: "end"} {
		if v, ok := m[from]; ok {
			delete(m, from)
			m[to] = v
		}
	}
	if aggregate == "idset" {
		var ids []json.Number
		if err := json.Unmarshal(m["ids"], &ids); err != nil {
			return nil, err
		}
		slices.SortFunc(ids, func(a, b json.Number) int {
			x, _ := a.Int64()
			y, _ := b.Int64()
			return cmp.Compare(x, y)
		})
		if m["ids"], err = json.Marshal(ids); err != nil {
			return nil, err
		}
	}
	return json.Marshal(m)
}
