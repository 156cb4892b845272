package operators

import "github.com/millrace-io/millrace/abi"

// Types of windows.
const (
	WindowTumbling = "tumbling" // Size, Offset, Zone
	WindowSliding  = "sliding"  // Size, Slide, Offset, Zone
	WindowCumulate = "cumulate" // Size, Step, Offset: [start, start+step), [start, start+2*step) ... up to Size
	WindowSession  = "session"  // Gap, or GapField
	WindowGlobal   = "global"   // one per key, without end
	WindowCount    = "count"    // Count, CountSlide: by number of records, not by time
)

// Time domains of windows.
const (
	TimeEvent      = "event"
	TimeProcessing = "processing"
)

// What becomes of a window's contents when it fires.
const (
	Accumulating = "accumulating" // they stay: each firing holds everything so far
	Discarding   = "discarding"   // they are forgotten: each firing holds what came since the last
	Retracting   = "retracting"   // they stay, and a further firing takes the earlier result back (-U, +U; -D where sessions merge)
)

// LateOutput is the name of the side output of a window node; its number is 1.
const LateOutput = "late"

// WindowNode configures a window operator. All times are ms.
type WindowNode struct {
	Window       WindowShape       `json:"window"`
	Time         string            `json:"time"`    // TimeEvent or TimeProcessing
	Trigger      WindowTrigger     `json:"trigger"` // see DefaultTrigger
	Evictor      *WindowEvictor    `json:"evictor,omitempty"`
	Accumulation string            `json:"accumulation"` // Accumulating, Discarding, Retracting
	Lateness     int64             `json:"lateness_ms"`  // event time: how long a window stays behind its last instant
	Late         bool              `json:"late"`         // late records go to side output 1; else they are only counted
	Revision     bool              `json:"revision"`     // results have a column `revision`: the number of the firing, from 1
	Aggregates   []WindowAggregate `json:"aggregates"`
	Process      *GuestNode        `json:"process,omitempty"` // called when a window fires, with the row of its aggregates, or without any with its records
	OnError      ErrorPolicy       `json:"on_error,omitzero"` // for records, and results of windows, at which a guest function fails
	Unkeyed      bool              `json:"unkeyed"`           // one window over everything, in one task; results have a null key
	Input        []abi.Field       `json:"input"`             // schema of the values; empty: raw bytes (only count and collect)
	KeyFields    []abi.Field       `json:"key_fields"`        // columns that hold the key, in its order; none: results have no such columns
	HideBounds   bool              `json:"hide_bounds"`       // no columns window_start and window_end; always so for global and count windows
}

// WindowShape says which windows a record is in.
type WindowShape struct {
	Type     string `json:"type"`
	Size     int64  `json:"size_ms,omitempty"`
	Slide    int64  `json:"slide_ms,omitempty"`
	Step     int64  `json:"step_ms,omitempty"`
	Offset   int64  `json:"offset_ms,omitempty"`
	Gap      int64  `json:"gap_ms,omitempty"`
	GapField string `json:"gap_field,omitempty"` // int64 column with the record's own gap, ms
	// Zone is an IANA name: days are the zone's local days, of 23 to 25 hours. Empty: UTC, every day has 24.
	Zone       string `json:"zone,omitempty"`
	Count      int64  `json:"count,omitempty"`       // records of a count window
	CountSlide int64  `json:"count_slide,omitempty"` // it fires at every so many; 0: Count
}

// WindowTrigger says when a window fires: whenever one of its conditions holds. The zero value never does.
type WindowTrigger struct {
	// AtEnd: the window's time domain reaches its last instant. A record that comes later, within Lateness,
	// fires at once, or with LateEvery.
	AtEnd bool `json:"at_end,omitempty"`
	// Every: the watermark reaches a multiple of it before the window's end.
	Every int64 `json:"every_ms,omitempty"`
	// EveryClock: the clock reaches a multiple of it.
	EveryClock int64 `json:"every_clock_ms,omitempty"`
	// IfChanged: Every and EveryClock pass over multiples with nothing new since the last firing. Without,
	// a jump over several fires for each, as Flink's continuous triggers do.
	IfChanged bool `json:"if_changed,omitempty"`
	// Count: that many records have come since it last fired by this condition.
	Count int64 `json:"count,omitempty"`
	// LateEvery: late records fire together, at multiples of it of event time.
	LateEvery int64 `json:"late_every_ms,omitempty"`
	// EndOfStream: the final watermark.
	EndOfStream bool `json:"end_of_stream,omitempty"`
	// Timeout: also when the clock has gone so far past the first record since the last firing.
	Timeout      int64 `json:"timeout_ms,omitempty"`
	TimeoutReset bool  `json:"timeout_reset,omitempty"` // past the last record
	TimeoutClear bool  `json:"timeout_clear,omitempty"` // a time-out also resets Count and Every
	// Purge: firing forgets the contents. Set by accumulation Discarding too.
	Purge bool `json:"purge,omitempty"`
}

// DefaultTrigger is what Flink takes for a window type: its end, a count window's count, and nothing for a
// global one.
func DefaultTrigger(w WindowShape) WindowTrigger {
	switch w.Type {
	case WindowGlobal:
		return WindowTrigger{}
	case WindowCount:
		n := w.CountSlide
		if n == 0 {
			return WindowTrigger{Count: w.Count, Purge: true}
		}
		return WindowTrigger{Count: n}
	}
	return WindowTrigger{AtEnd: true}
}

// WindowEvictor takes records out of a window that fires. The window keeps every record then.
type WindowEvictor struct {
	Count int64 `json:"count,omitempty"`   // keeps the last so many
	Span  int64 `json:"span_ms,omitempty"` // keeps those less than so far behind the newest (by event time, ms)
	After bool  `json:"after,omitempty"`   // after the aggregates are computed, else before
}

// Kinds of aggregates.
const (
	AggCount          = "count"           // of records; with Field: of those where it is not null. int64
	AggSum            = "sum"             // int64 (wraps around) or float64; null over nothing
	AggMin            = "min"             // type of the field
	AggMax            = "max"             //
	AggAvg            = "avg"             // float64
	AggFirst          = "first"           // value of the record with the least event time; of equals, the one that came first
	AggLast           = "last"            // ... the greatest; the one that came last
	AggDistinct       = "distinct"        // exact number of values. int64
	AggDistinctApprox = "distinct_approx" // HyperLogLog, about 1.6 % off. int64
	AggTop            = "top"             // JSON list of the N records with the greatest Field
	AggQuantile       = "quantile"        // float64 within 1 %
	AggCollect        = "collect"         // JSON list of the values in order of arrival; without Field, of the records
	AggGuest          = "guest"           // the columns of a guest's aggregate function
)

// WindowAggregate is one column of results. Null values are passed over.
type WindowAggregate struct {
	Name     string  `json:"name"`
	Kind     string  `json:"kind"`
	Field    string  `json:"field,omitempty"`
	N        int     `json:"n,omitempty"`        // AggTop
	Quantile float64 `json:"quantile,omitempty"` // AggQuantile: 0 to 1
	// Guest is the function of AggGuest, of kind abi.FunctionAggregate.
	Guest *GuestNode `json:"guest,omitempty"`
}

// GuestNodes are the guest functions of a window node, each as a node of its own that says which module is
// wanted: under the node's id, a dot and the aggregate's name, or "process".
func (w *WindowNode) GuestNodes(id string) (ns []*Node) {
	add := func(name string, g *GuestNode) {
		if g != nil {
			ns = append(ns, &Node{ID: id + "." + name, Kind: NodeGuest, Guest: g})
		}
	}
	for i := range w.Aggregates {
		add(w.Aggregates[i].Name, w.Aggregates[i].Guest)
	}
	add("process", w.Process)
	return ns
}

// GuestNodes are the nodes of a graph that run a module each: guest nodes, those of windows, and the watermark
// functions of sources.
func (g *Graph) GuestNodes() (ns []*Node) {
	for _, n := range g.Nodes {
		switch {
		case n.Kind == NodeGuest:
			ns = append(ns, n)
		case n.Window != nil:
			ns = append(ns, n.Window.GuestNodes(n.ID)...)
		case n.Source != nil && n.Source.Time != nil && n.Source.Time.Punctuate != nil:
			ns = append(ns, &Node{ID: PunctuatorID(n.ID), Line: n.Line, Parallelism: n.Parallelism, Kind: NodeGuest, Guest: n.Source.Time.Punctuate})
		}
	}
	return ns
}

// PunctuatorID is the id of a source's watermark function among Graph.GuestNodes.
func PunctuatorID(source string) string { return source + ".watermark" }
