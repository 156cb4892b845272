package checkpoint

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/millrace-io/millrace/state"
)

// twoTasks is a snapshot with a state over two tasks that share a run, and a source.
func twoTasks(id ID, w int64, offset int64, extra ...state.Run) *Manifest {
	m := &Manifest{Format: FormatVersion, ID: id, Job: "j", Slots: state.Slots, CreatedMS: int64(id) * 1000, Pipeline: digest("a"),
		Modules: []ModuleRef{{Operator: "count", Digest: digest("b"), Size: 10}}}
	m.Tasks = append(m.Tasks, TaskSnapshot{Vertex: "in", Parallelism: 1, Operators: []OperatorSnapshot{{Operator: "in",
		Splits: []SplitPosition{{Split: "b.ndjson", Offset: offset, Ordinal: offset / 10}, {Split: "a.ndjson", Offset: 5}}}}})
	for t := range 2 {
		runs := []state.Run{{Object: digest("c"), Size: 100, Count: 7}}
		if t == 1 {
			runs = append(slices.Clone(extra), runs...)
		}
		m.Tasks = append(m.Tasks, TaskSnapshot{Vertex: "count", Task: t, Parallelism: 2, Watermarks: []int64{w + int64(t), math.MaxInt64},
			Operators: []OperatorSnapshot{{Operator: "count", Numbers: map[string]int64{"in": 2}, Data: []byte{1},
				Keyed: &state.Snapshot{Range: state.TaskRange(t, 2), States: []state.StateSnapshot{{Name: "n", Kind: "value", Version: 1, Runs: runs}}}}}})
	}
	return m
}

func TestDescribeSumsOverTasks(t *testing.T) {
	m := twoTasks(1, 50, 100, state.Run{Object: digest("d"), Size: 30, Count: 2})
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	w := int64(50)
	want := []OperatorInfo{
		{Operator: "in", Parallelism: 1, Splits: []SplitPosition{{Split: "a.ndjson", Offset: 5}, {Split: "b.ndjson", Offset: 100, Ordinal: 10}}},
		{Operator: "count", Parallelism: 2, Watermark: &w, Module: digest("b"), DataBytes: 2, Numbers: map[string]int64{"in": 4},
			States: []StateInfo{{Name: "n", Kind: "value", Version: 1, Entries: 16, Bytes: 130, Objects: []string{digest("c"), digest("d")}}}},
	}
	if got := Describe(m); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestCompareSaysWhatChanged(t *testing.T) {
	a := twoTasks(1, 50, 100, state.Run{Object: digest("d"), Size: 30, Count: 2})
	b := twoTasks(3, 80, 250, state.Run{Object: digest("e"), Size: 45, Count: 5})
	b.Modules[0].Digest = digest("f")
	d := Compare(a, b)
	if d.ElapsedMS != 2000 || d.Pipeline || d.Shared != 2 || d.SharedB != 100 || d.AddedB != 45+10 || d.RemovedB != 30+10 || len(d.Added) != 2 {
		t.Errorf("%+v", d)
	}
	if len(d.Operators) != 2 {
		t.Fatalf("%+v", d.Operators)
	}
	in, count := d.Operators[0], d.Operators[1]
	if !reflect.DeepEqual(in.Splits, []SplitDiff{{Split: "b.ndjson", Offset: 150, Records: 15}}) {
		t.Errorf("%+v", in.Splits)
	}
	want := []StateDiff{{Name: "n", Entries: 3, Bytes: 15, Added: []ObjectSize{{digest("e"), 45}}, Removed: []ObjectSize{{digest("d"), 30}}}}
	if !reflect.DeepEqual(count.States, want) || count.WatermarkMS != 30 || !count.ModuleChanged {
		t.Errorf("%+v", count)
	}
	if same := Compare(a, a); len(same.Operators) != 0 || len(same.Added) != 0 || same.Shared != 4 {
		t.Errorf("with itself: %+v", same)
	}
}

func TestCompareNamesWhatOneSideLacks(t *testing.T) {
	a, b := twoTasks(1, 50, 100), twoTasks(2, 50, 100)
	b.Tasks[0].Operators[0].Splits[1].Split = "c.ndjson"
	for i := range b.Tasks[1:] {
		b.Tasks[i+1].Operators[0].Operator = "sum"
	}
	d := Compare(a, b)
	if len(d.Operators) != 3 || d.Operators[1].A != nil || d.Operators[1].B.Operator != "sum" || d.Operators[2].B != nil || d.Operators[2].A.Operator != "count" {
		t.Fatalf("%+v", d.Operators)
	}
	if s := d.Operators[0].Splits; len(s) != 2 || !s[0].New || !s[1].Gone || s[1].Split != "a.ndjson" {
		t.Errorf("%+v", s)
	}
}
