package main

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window/windowtest"
)

// result is one that came out.
type outcome struct {
	windowtest.Window
	windowtest.Stats
	op       abi.Op
	revision int64
}

// Emit implements operators.Collector: it reads the results.
func (t *task) Emit(output int, b *abi.Batch) error {
	if output != operators.OutputMain && b.Len() > 0 {
		return fmt.Errorf("%d records on output %d, expected none", b.Len(), output)
	}
	for i := range b.Off {
		x, err := t.m.result(b.Frame(i))
		if err != nil {
			return err
		}
		t.m.results = append(t.m.results, x)
	}
	return nil
}

// result reads a row: bounds if the window has them, four numbers, the list of kept values, the revision.
func (m *machine) result(f abi.Frame) (x outcome, err error) {
	fs := m.node.Schema
	row, err := abi.CheckRow(f.Value(), fs)
	if err != nil {
		return x, err
	}
	x.Key, x.op = m.keys[string(f.Key())], abi.Op(f.Op())
	at := 0
	next := func() int64 {
		v, _ := row.Int64(at)
		at++
		return v
	}
	if m.node.Window.Window.Type != operators.WindowGlobal {
		x.Start, x.End = next(), next()
	}
	x.Count, x.Sum, x.Min, x.Max = next(), next(), next(), next()
	if len(m.node.Window.Aggregates) > 4 {
		list, _ := row.Bytes(at)
		at++
		if err := kept(list, x.Stats); err != nil {
			return x, fmt.Errorf("%v: %w", x, err)
		}
	}
	if m.node.Window.Revision {
		x.revision = next()
	}
	if x.End != 0 && f.Time() != x.End-1 {
		return x, fmt.Errorf("result of [%d, %d) has the time %d", x.Start, x.End, f.Time())
	}
	return x, nil
}

// kept checks that a list of values is what was counted.
func kept(list []byte, want windowtest.Stats) error {
	var vs []int64
	if err := json.Unmarshal(list, &vs); err != nil {
		return err
	}
	var got windowtest.Stats
	for _, v := range vs {
		got = got.Add(v)
	}
	if got != want {
		return fmt.Errorf("kept are %s: %v, counted %v", list, got, want)
	}
	return nil
}

// judge holds the results of a run, which are in order for each key, against what the windows hold in the end.
func judge(w *operators.WindowNode, rs []outcome, want map[windowtest.Window]windowtest.Stats) (wrong []string) {
	got, wrong := finals(w, rs, want)
	if len(wrong) > 0 || maps.Equal(got, want) {
		return wrong
	}
	for k, v := range want {
		if got[k] != v {
			wrong = append(wrong, fmt.Sprintf("%v: %v, expected %v", k, got[k], v))
		}
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			wrong = append(wrong, fmt.Sprintf("%v: %v, expected no such window", k, v))
		}
	}
	return wrong
}

// finals is what results amount to in the end. want tells the sessions that parts of one belong to.
func finals(w *operators.WindowNode, rs []outcome, want map[windowtest.Window]windowtest.Stats) (got map[windowtest.Window]windowtest.Stats, wrong []string) {
	got = make(map[windowtest.Window]windowtest.Stats, len(want))
	session := w.Window.Type == operators.WindowSession
	revisions := map[windowtest.Window]int64{}
	back := map[string]outcome{} // what was just taken back, by key
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, x := range rs {
		if w.Accumulation != operators.Retracting && x.op != abi.OpInsert {
			say("%+v has op %d", x, x.op)
		}
		if old, is := back[x.Key]; is {
			delete(back, x.Key)
			updates := x.op == abi.OpUpdateAfter && x.Window == old.Window
			if old.op == abi.OpUpdateBefore && !updates || old.op == abi.OpDelete && x.Window == old.Window {
				say("%+v behind %+v", x, old)
			}
		} else if x.op == abi.OpUpdateAfter {
			say("%+v, and nothing was taken back", x)
		}
		if x.op == abi.OpUpdateBefore || x.op == abi.OpDelete {
			back[x.Key] = x
			if old, is := got[x.Window]; !is || old != x.Stats {
				say("%+v takes back what was not given: %v", x, old)
			}
			delete(got, x.Window)
			continue
		}
		if w.Revision {
			// a session takes over the greatest number of those it is made of
			if old := revisions[x.Window]; x.revision <= old || !session && x.revision != old+1 {
				say("%+v behind revision %d", x, old)
			}
			revisions[x.Window] = x.revision
		}
		switch w.Accumulation {
		case operators.Retracting:
			if old, is := got[x.Window]; is {
				say("%+v, when %v stands", x, old)
			}
			got[x.Window] = x.Stats
		case operators.Discarding:
			k := x.Window
			if session {
				k = whole(k, want)
			}
			got[k] = got[k].Merge(x.Stats)
		default:
			got[x.Window] = x.Stats
		}
	}
	if session && w.Accumulation == operators.Accumulating { // early results of sessions that grew on
		for k := range got {
			if _, ok := want[k]; !ok && whole(k, want) != k {
				delete(got, k)
			}
		}
	}
	return got, wrong
}

// whole is the session that a part of it became, or the part if there is none.
func whole(part windowtest.Window, want map[windowtest.Window]windowtest.Stats) windowtest.Window {
	for s := range want {
		if s.Key == part.Key && s.Start <= part.Start && part.End <= s.End {
			return s
		}
	}
	return part
}
