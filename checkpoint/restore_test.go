package checkpoint

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

func target() Target {
	return Target{Job: "payments", Operators: []string{"in", "count", "out"},
		Modules: []ModuleRef{{Operator: "count", Digest: digest("b")}}}
}

func TestRestoreGathersByOperatorInTaskOrder(t *testing.T) {
	m := sample()
	m.Tasks[0], m.Tasks[1] = m.Tasks[1], m.Tasks[0]
	r, err := PlanRestore(m, target())
	if err != nil {
		t.Fatal(err)
	}
	in := r.Operator("in")
	if len(in) != 2 || in[0].Splits[0].Index != 0 || in[1].Splits[0].Index != 1 {
		t.Errorf("%+v", in)
	}
	if len(r.Operator("new")) != 0 || len(r.Operator("count")) != 1 || len(r.Notes) != 0 {
		t.Errorf("%v", r.Notes)
	}
	if r.Finished("in") || r.Finished("new") {
		t.Error("finished, though only one of two tasks is")
	}
}

// TestC026OperatorsRemovedAndRenamed: state without a taker is refused by name and size.
func TestC026OperatorsRemovedAndRenamed(t *testing.T) {
	gone := target()
	gone.Operators = []string{"in", "tally", "out"}
	_, err := PlanRestore(sample(), gone)
	var orphan *OrphanError
	if !errors.As(err, &orphan) || orphan.Orphans[0].Operator != "count" || orphan.Orphans[0].Entries != 77 ||
		orphan.Orphans[0].Bytes != 5003 {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "count (77 entries, 5003 bytes") {
		t.Errorf("message: %v", err)
	}
	gone.Renamed = map[string]string{"count": "tally"}
	r, err := PlanRestore(sample(), gone)
	if err != nil || r.Operator("tally")[0].Operator != "tally" || len(r.Watermarks("tally", 0, 1, 2)) != 2 {
		t.Errorf("renamed: %v", err)
	}
	two := target()
	two.Renamed = map[string]string{"count": "out"}
	if _, err := PlanRestore(sample(), two); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "both become out") {
		t.Errorf("two states for one operator: %v", err)
	}
	gone.Renamed, gone.Droppable = nil, []string{"count"}
	if r, err := PlanRestore(sample(), gone); err != nil || !strings.Contains(r.Notes[0], "77 entries") {
		t.Errorf("droppable: %v", err)
	}
	stateless := sample()
	stateless.Tasks[2].Operators = append(stateless.Tasks[2].Operators, OperatorSnapshot{Operator: "filter"})
	if _, err := PlanRestore(stateless, target()); err != nil {
		t.Errorf("a stateless operator was removed: %v", err)
	}
	noSink := target()
	noSink.Operators = noSink.Operators[:2]
	if _, err := PlanRestore(sample(), noSink); !errors.As(err, &orphan) || orphan.Orphans[0].Staged != 1 {
		t.Errorf("a sink with unpublished files was removed: %v", err)
	}
}

func TestRestoreChecksJobSlotsAndModules(t *testing.T) {
	other := target()
	other.Job = "refunds"
	if _, err := PlanRestore(sample(), other); !errors.Is(err, ErrOtherJob) || !strings.Contains(err.Error(), `"refunds"`) {
		t.Errorf("got %v", err)
	}
	slots := sample()
	slots.Slots = 256
	if _, err := PlanRestore(slots, target()); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
	changed := target()
	changed.Modules[0].Digest = digest("f")
	r, err := PlanRestore(sample(), changed)
	if err != nil || len(r.Notes) != 1 || r.Notes[0] != "operator count: module changed from bbbbbbbbbbbb to ffffffffffff" {
		t.Errorf("%v %v", r.Notes, err)
	}
}

func TestRescaledWatermarksAreTheMinimum(t *testing.T) {
	m := sample()
	m.Tasks[2].Watermarks = []int64{40, 30}
	r, err := PlanRestore(m, target())
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Watermarks("count", 0, 1, 2); !slices.Equal(w, []int64{40, 30}) {
		t.Errorf("same parallelism: %v", w)
	}
	if w := r.Watermarks("count", 2, 3, 3); !slices.Equal(w, []int64{30, 30, 30}) {
		t.Errorf("rescaled: %v", w)
	}
	if w := r.Watermarks("new", 0, 1, 1); w[0] != math.MinInt64 {
		t.Errorf("new operator: %v", w)
	}
}

// TestRescaledIdleChannels: a task does not fall back to a channel that its watermark had done without.
func TestRescaledIdleChannels(t *testing.T) {
	m := sample()
	m.Tasks[2].Watermarks, m.Tasks[2].Idle = []int64{math.MinInt64, 30}, []bool{true, false}
	m.Tasks[2].Ahead = Ahead(30, math.MinInt64)
	r, err := PlanRestore(m, target())
	if err != nil {
		t.Fatal(err)
	}
	if idle, ahead := r.Idle("count", 0, 1, 2); !slices.Equal(idle, []bool{true, false}) || Advance(math.MinInt64, ahead) != 30 {
		t.Errorf("same parallelism: idle %v, ahead %d", idle, ahead)
	}
	if w := r.Watermarks("count", 0, 3, 3); !slices.Equal(w, []int64{30, 30, 30}) {
		t.Errorf("rescaled: %v, expected the least watermark of a task, 30", w)
	}
	if idle, ahead := r.Idle("count", 0, 3, 3); idle != nil || ahead != 0 {
		t.Errorf("rescaled: idle %v, ahead %d", idle, ahead)
	}
	for _, w := range []int64{math.MinInt64, -5, 0, math.MaxInt64} {
		if got := Advance(-5, Ahead(w, -5)); got != w {
			t.Errorf("%d is %d", w, got)
		}
	}
}
