// Package lateness reads the sources of a pipeline by themselves, to tell how many of their records would come
// too late.
package lateness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/window"
)

// Input is what reading a source shows: how many of its records come too late. It is serialisable. Each split is judged by
// the watermark of its own data; several splits have the least of theirs, so no more are late than it says.
type Input struct {
	Source    string   `json:"source"`
	Watermark string   `json:"watermarks,omitempty"` // bounded, monotonic or none
	DelayMS   int64    `json:"out_of_orderness_ms"`
	Records   int64    `json:"records"` // that the source makes: on_error has the malformed ones and those whose field of the time is missing
	Timeless  int64    `json:"without_time"`
	Malformed int64    `json:"malformed"`
	Late      int64    `json:"late"`
	Furthest  int64    `json:"furthest_behind_ms"` // the delay with which none is late
	Splits    []Split  `json:"splits"`
	Windows   []Window `json:"windows,omitempty"`
}

// Split is one split by itself: Late by the watermark of its own data.
type Split struct {
	Split    string `json:"split"`
	Records  int64  `json:"records"`
	Future   int64  `json:"in_the_future"`
	Behind   int64  `json:"behind"` // the greatest time so far
	Late     int64  `json:"late"`
	Furthest int64  `json:"furthest_behind_ms"`
}

// Window is a window operator that reads the source, perhaps through functions.
type Window struct {
	Operator string   `json:"operator"`
	Through  []string `json:"through,omitempty"` // functions on the way, which may drop, make and hold back records
	Late     int64    `json:"late"`
	Kept     bool     `json:"to_late_output"` // late records go to its side output, else they are dropped
	Lateness int64    `json:"lateness_ms"`
	Session  bool     `json:"session"`
}

// Read reads every source of a graph to its present end, without functions, sinks and state.
func Read(ctx context.Context, g *operators.Graph, env connect.Env) ([]Input, error) {
	for _, n := range g.Nodes {
		if err := readable(n); err != nil {
			return nil, err
		}
	}
	var inputs []Input
	for _, n := range g.Nodes {
		if n.Source == nil {
			continue
		}
		in, err := readInput(ctx, g, n, env)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// readable refuses sources that have no end, or give their records only once.
func readable(n *operators.Node) error {
	switch {
	case n.Source == nil:
		return nil
	case connect.Promise(n) == operators.PromiseLossy:
		return fmt.Errorf("source %s can't be read to tell what would be late: what is taken from a %s is gone", n.ID, n.Source.Connector)
	case n.Source.Generator != nil && n.Source.Generator.Records == 0:
		return fmt.Errorf("source %s can't be read to tell what would be late: it has no end", n.ID)
	}
	if t := n.Source.Time; t != nil && !slices.Contains(foretold, t.Watermarks) {
		return fmt.Errorf("what of source %s would be late can't be told: its watermarks are %s", n.ID, t.Watermarks)
	}
	return nil
}

// foretold are the watermark generators that the times alone decide.
var foretold = []string{operators.WatermarksBounded, operators.WatermarksMonotonic, operators.WatermarksNone}

// wholeSource is a source node that keeps every record and makes no keys.
func wholeSource(n *operators.Node) *operators.Node {
	c, s := *n, *n.Source
	s.Key, s.OnError = nil, &operators.ErrorPolicy{Policy: operators.PolicySkip}
	if s.Time != nil {
		t := *s.Time
		t.OnFuture, t.Align, t.Idle = operators.ErrorPolicy{}, 0, 0
		s.Time = &t
	}
	if s.Generator != nil {
		gen := *s.Generator
		gen.Rate = 0
		s.Generator = &gen
	}
	c.Source, c.Parallelism = &s, 1
	return &c
}

func readInput(ctx context.Context, g *operators.Graph, node *operators.Node, env connect.Env) (in Input, err error) {
	n := wholeSource(node)
	windows, last, err := windowsOver(g, node.ID)
	if err != nil {
		return in, err
	}
	src, err := connect.Source(n, env)
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	now := clock.Wall{}
	err = src.Open(&operators.Context{Context: ctx, Job: g.Name, Operator: n.ID, Parallelism: 1, Clock: now,
		Log: slog.New(slog.DiscardHandler), Batch: abi.MaxBatchRecords, Describe: func(abi.Position) string { return "" }, Crash: func(string) {}})
	if err != nil {
		return in, err
	}
	late := operators.NewLateness(n.Source.Time, last)
	var b abi.Batch
	for status := operators.PollMore; status == operators.PollMore; {
		if err := ctx.Err(); err != nil {
			return in, err
		}
		b.Reset()
		if status, err = src.Poll(&b, abi.MaxBatchRecords); err != nil {
			return in, err
		}
		late.Add(&b, now.NowMS())
	}
	in = summed(n, src, late.Splits(), windows)
	return in, nil
}

// summed adds up what was found in the splits of a source.
func summed(n *operators.Node, src operators.Source, splits []*operators.SplitLateness, windows []Window) Input {
	in := Input{Source: n.ID, Windows: windows}
	if t := n.Source.Time; t != nil && t.Source == operators.TimeFromField {
		in.Watermark, in.DelayMS = t.Watermarks, t.OutOfOrderness.Milliseconds()
		if in.Watermark == operators.WatermarksBounded {
			in.Watermark = "bounded"
		}
	}
	names := map[uint32]string{}
	for _, p := range src.Positions() {
		names[p.Index] = p.Split
	}
	if c, ok := src.(operators.Counted); ok {
		counted := c.Counters()
		in.Timeless = counted[operators.CounterTimeless]
		in.Malformed = counted["skipped"] - in.Timeless
	}
	for _, s := range splits {
		in.Splits = append(in.Splits, Split{names[s.Index], s.Records, s.Future, s.Behind, s.Late, s.Furthest})
		in.Records, in.Timeless, in.Late = in.Records+s.Records, in.Timeless+s.Timeless, in.Late+s.Late // binary frames may have none
		in.Furthest = max(in.Furthest, s.Furthest)
		for i := range windows {
			in.Windows[i].Late += s.Closed[i]
		}
	}
	return in
}

// windowsOver are the window operators that the records of a source reach with their own times, and what
// tells until which watermark each takes a record.
func windowsOver(g *operators.Graph, source string) (ws []Window, last []func(int64) int64, err error) {
	through := map[string][]string{source: {}} // by operator that has the source's records, the functions on the way
	for _, n := range g.Nodes {                // inputs come first
		for _, e := range n.Inputs {
			way, ok := through[e.From]
			if !ok || e.Output != operators.OutputMain {
				continue
			}
			switch {
			case n.Window != nil:
				closing, err := window.Closing(n.Window)
				if err != nil {
					return nil, nil, err
				}
				ws = append(ws, Window{Operator: n.ID, Through: way, Kept: n.Window.Late, Lateness: n.Window.Lateness,
					Session: n.Window.Window.Type == operators.WindowSession})
				last = append(last, closing)
			case n.Guest != nil && n.Guest.Kind == abi.FunctionProcess:
				// what comes out has other times
			case n.Guest != nil:
				through[n.ID] = append(append([]string{}, way...), n.ID)
			case n.Sink == nil:
				through[n.ID] = way
			}
		}
	}
	return ws, last, nil
}
