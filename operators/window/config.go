// Package window is the native window operator: which windows a record is in (assigner.go), when they fire
// (trigger.go), what they hold (aggregate*.go, contents.go), and how all that lies in keyed state (block.go).
//
// Semantics are Flink's; where it has several answers, or none, docs of operators.WindowNode say which.
package window

import (
	"errors"
	"fmt"
	"math"
	"time"
	_ "time/tzdata" // zones work on any machine

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/format"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// Names of columns that every result may have.
const (
	ColumnStart    = "window_start" // timestamp
	ColumnEnd      = "window_end"   // timestamp, exclusive
	ColumnRevision = "revision"     // int64: number of the firing of this window, from 1
)

// Config is what New needs.
type Config struct {
	Node      *operators.Node // Kind NodeWindow; Window passes Validate
	OpenKeyed func(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error)
	// Module is the compiled module of a node of WindowNode.GuestNodes, by its id.
	Module func(id string) guestop.Module
}

// Schema is that of the results: the row of the aggregates, or what a window function gives.
func Schema(w *operators.WindowNode) []abi.Field {
	if w.Process != nil {
		return w.Process.Fn.Output
	}
	return RowSchema(w)
}

// RowSchema is that of a window's row: key columns, bounds, aggregates, revision.
func RowSchema(w *operators.WindowNode) []abi.Field {
	fs := append([]abi.Field(nil), w.KeyFields...)
	if hasBounds(w) {
		fs = append(fs, abi.Field{Name: ColumnStart, Type: abi.TypeTime}, abi.Field{Name: ColumnEnd, Type: abi.TypeTime})
	}
	for _, a := range w.Aggregates {
		fs = append(fs, columns(w, a)...)
	}
	if w.Revision {
		fs = append(fs, abi.Field{Name: ColumnRevision, Type: abi.TypeInt64})
	}
	return fs
}

// KeepsRecords says whether windows of the node keep what they got, not only aggregates of it.
func KeepsRecords(w *operators.WindowNode) bool {
	keeps := w.Evictor != nil || wholeWindows(w)
	for _, a := range w.Aggregates {
		keeps = keeps || a.Kind == operators.AggCollect || a.Kind == operators.AggDistinct
	}
	return keeps
}

func hasBounds(w *operators.WindowNode) bool {
	return !w.HideBounds && w.Window.Type != operators.WindowGlobal && w.Window.Type != operators.WindowCount
}

func fieldType(w *operators.WindowNode, name string) abi.FieldType {
	if i := format.FieldIndex(w.Input, name); i >= 0 {
		return w.Input[i].Type
	}
	return ""
}

func resultType(w *operators.WindowNode, a operators.WindowAggregate) abi.FieldType {
	switch a.Kind {
	case operators.AggCount, operators.AggDistinct, operators.AggDistinctApprox:
		return abi.TypeInt64
	case operators.AggAvg, operators.AggQuantile:
		return abi.TypeFloat64
	case operators.AggTop, operators.AggCollect:
		return abi.TypeJSON
	}
	return fieldType(w, a.Field)
}

// Validate says everything that is wrong with a node; nil if nothing is.
func Validate(w *operators.WindowNode) error {
	errs := []error{validateShape(&w.Window), validateTrigger(w), validateEvictor(w)}
	switch w.Time {
	case operators.TimeEvent:
	case operators.TimeProcessing:
		if w.Lateness != 0 {
			errs = append(errs, errors.New("lateness: nothing is late by the clock"))
		}
	default:
		errs = append(errs, fmt.Errorf("time %q, expected event or processing", w.Time))
	}
	switch w.Accumulation {
	case operators.Accumulating, operators.Discarding, operators.Retracting:
	default:
		errs = append(errs, fmt.Errorf("accumulation %q, expected accumulating, discarding or retracting", w.Accumulation))
	}
	if w.Lateness < 0 {
		errs = append(errs, fmt.Errorf("lateness %d ms is negative", w.Lateness))
	}
	if g := w.Window.GapField; g != "" && fieldType(w, g) != abi.TypeInt64 {
		errs = append(errs, fmt.Errorf("gap field %q: expected an int64 field of the input", g))
	}
	if len(w.Aggregates) == 0 && w.Process == nil {
		errs = append(errs, errors.New("no aggregates"))
	}
	names := map[string]bool{}
	for _, f := range w.KeyFields {
		names[f.Name] = true
	}
	names[ColumnStart], names[ColumnEnd] = hasBounds(w), hasBounds(w)
	names[ColumnRevision] = w.Revision
	for _, a := range w.Aggregates {
		if err := validateAggregate(w, a); err != nil {
			errs = append(errs, fmt.Errorf("aggregate %q: %w", a.Name, err))
			continue
		}
		for _, c := range columns(w, a) {
			if names[c.Name] {
				errs = append(errs, fmt.Errorf("aggregate %q: results have a column of that name already (%s)", a.Name, c.Name))
			}
			names[c.Name] = true
		}
	}
	return errors.Join(append(errs, validateProcess(w))...)
}

// maxSpan bounds sizes and offsets, so that no sum of two and a sane time overflows.
const maxSpan = math.MaxInt64 / 8

func validateShape(s *operators.WindowShape) error {
	var errs []error
	span := func(name string, v int64) {
		if v <= 0 || v > maxSpan {
			errs = append(errs, fmt.Errorf("%s %d ms, expected more than 0", name, v))
		}
	}
	offset := func(than string, v int64) {
		if s.Offset <= -v || s.Offset >= v {
			errs = append(errs, fmt.Errorf("offset %d ms, expected less than the %s of %d ms", s.Offset, than, v))
		}
	}
	switch s.Type {
	case operators.WindowTumbling:
		span("size", s.Size)
		offset("size", s.Size)
	case operators.WindowSliding:
		span("size", s.Size)
		span("slide", s.Slide)
		offset("slide", s.Slide)
		if s.Slide > 0 && s.Size/s.Slide > maxWindows {
			errs = append(errs, fmt.Errorf("size is %d times slide, at most %d windows hold a record", s.Size/s.Slide, maxWindows))
		}
	case operators.WindowCumulate:
		span("size", s.Size)
		span("step", s.Step)
		offset("size", s.Size)
		if s.Step > 0 && s.Size%s.Step != 0 {
			errs = append(errs, fmt.Errorf("size %d ms is no multiple of step %d ms", s.Size, s.Step))
		} else if s.Step > 0 && s.Size/s.Step > maxWindows {
			errs = append(errs, fmt.Errorf("size is %d times step, at most %d windows hold a record", s.Size/s.Step, maxWindows))
		}
	case operators.WindowSession:
		if s.GapField == "" {
			span("gap", s.Gap)
		}
	case operators.WindowGlobal:
	case operators.WindowCount:
		if s.Count <= 0 || s.CountSlide < 0 {
			errs = append(errs, fmt.Errorf("count %d, slide %d, expected more than 0", s.Count, s.CountSlide))
		}
	default:
		errs = append(errs, fmt.Errorf("window type %q, expected tumbling, sliding, session, global, count or cumulate", s.Type))
	}
	return errors.Join(append(errs, validateZone(s))...)
}

const dayMS = 24 * 60 * 60 * 1000

func validateZone(s *operators.WindowShape) error {
	if s.Zone == "" {
		return nil
	}
	if _, err := time.LoadLocation(s.Zone); err != nil || s.Zone == "Local" {
		return fmt.Errorf("zone %q is no IANA time zone", s.Zone)
	}
	days := func(v int64) bool { return v%dayMS == 0 }
	switch s.Type {
	case operators.WindowTumbling:
		if !days(s.Size) && dayMS%max(s.Size, 1) != 0 {
			return fmt.Errorf("size %d ms with a zone: expected whole days, or a part that divides a day", s.Size)
		}
	case operators.WindowSliding:
		if !days(s.Size) || !days(s.Slide) {
			return errors.New("size and slide with a zone: expected whole days")
		}
	default:
		return fmt.Errorf("a %s window has no use for a zone", s.Type)
	}
	return nil
}

func validateTrigger(w *operators.WindowNode) error {
	t := &w.Trigger
	for _, v := range []int64{t.Every, t.EveryClock, t.Count, t.LateEvery, t.Timeout} {
		if v < 0 {
			return fmt.Errorf("trigger: %d is negative", v)
		}
	}
	if t.LateEvery > 0 && w.Lateness == 0 {
		return errors.New("trigger: late firings need lateness")
	}
	if *t == (operators.WindowTrigger{}) && w.Window.Type != operators.WindowGlobal {
		return errors.New("trigger: a window that never fires")
	}
	return nil
}

func validateEvictor(w *operators.WindowNode) error {
	e := w.Evictor
	if e == nil {
		return nil
	}
	if (e.Count > 0) == (e.Span > 0) || e.Count < 0 || e.Span < 0 {
		return errors.New("evictor: expected a count or a span, more than 0")
	}
	if w.Accumulation == operators.Retracting {
		return errors.New("evictor: what it took out can't be retracted")
	}
	return nil
}

func validateAggregate(w *operators.WindowNode, a operators.WindowAggregate) error {
	if a.Kind == operators.AggGuest {
		return validateGuest(a.Guest, abi.FunctionAggregate)
	}
	t := fieldType(w, a.Field)
	if a.Field != "" && t == "" {
		return fmt.Errorf("the input has no field %q", a.Field)
	}
	number := t == abi.TypeInt64 || t == abi.TypeFloat64
	switch a.Kind {
	case operators.AggCount, operators.AggCollect:
		return nil
	case operators.AggSum, operators.AggAvg, operators.AggQuantile:
		if !number {
			return fmt.Errorf("%s needs a number, field %q is %q", a.Kind, a.Field, t)
		}
		if a.Kind == operators.AggQuantile && !(a.Quantile >= 0 && a.Quantile <= 1) {
			return fmt.Errorf("quantile %v, expected 0 to 1", a.Quantile)
		}
	case operators.AggMin, operators.AggMax, operators.AggFirst, operators.AggLast, operators.AggDistinct, operators.AggDistinctApprox:
		if a.Field == "" {
			return fmt.Errorf("%s needs a field", a.Kind)
		}
	case operators.AggTop:
		if !number && t != abi.TypeTime && t != abi.TypeString {
			return fmt.Errorf("top needs a field of numbers, times or text, %q is %q", a.Field, t)
		}
		if a.N < 1 || a.N > maxTop {
			return fmt.Errorf("top %d, expected 1 to %d", a.N, maxTop)
		}
	default:
		return fmt.Errorf("unknown kind %q", a.Kind)
	}
	return nil
}

const (
	maxWindows = 1 << 20
	maxTop     = 1000
)
