package job

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/snapread"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/stateview"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/schema"
)

// rowsOf is a state of typed rows; columns are "name type" or "name type default".
func rowsOf(version int, columns ...string) abi.StateDescriptor {
	s := &abi.Schema{Type: abi.SchemaRow}
	for _, c := range columns {
		p := strings.Fields(c)
		f := abi.SchemaField{Name: p[0], Schema: abi.Schema{Type: abi.SchemaType(p[1])}}
		if len(p) > 2 {
			f.Default = json.RawMessage(p[2])
		}
		s.Fields = append(s.Fields, f)
	}
	return abi.StateDescriptor{Name: "s", Kind: abi.StateValue, Version: version, Schema: s}
}

// graphOf is a function over a source keyed by a column.
func graphOf(keyType abi.FieldType, d abi.StateDescriptor) *operators.Graph {
	return &operators.Graph{Name: "job", Nodes: []*operators.Node{
		{ID: "in", Kind: operators.NodeSource, Source: &operators.SourceNode{Key: &operators.KeyByNode{Fields: []string{"k"}}, Fields: []abi.Field{{Name: "k", Type: keyType}}}},
		{ID: "op", Kind: operators.NodeGuest, Inputs: []operators.Edge{{From: "in"}}, Guest: &operators.GuestNode{Keyed: true, Fn: &abi.Function{States: []abi.StateDescriptor{d}}}},
	}}
}

// snapshotOf is a checkpoint of two tasks with rows {"a":i} under keys k0, k1, ...
func snapshotOf(t *testing.T, j *Job, old abi.StateDescriptor, n int) (*checkpoint.Manifest, *checkpoint.Restore) {
	t.Helper()
	codec, err := schema.Compile(old.Schema)
	if err != nil {
		t.Fatal(err)
	}
	m := &checkpoint.Manifest{Format: checkpoint.FormatVersion, ID: 1, Job: "job", Seed: 5, Slots: state.Slots, States: StateRefs(graphOf("string", old))}
	type entry struct {
		h   uint64
		key string
		i   int
	}
	for task := range 2 {
		var all []entry
		for i := range n {
			k := fmt.Sprintf("k%d", i)
			if h := (state.Hasher{Seed: 5}).Hash([]byte(k)); state.TaskOf(h, 2) == task {
				all = append(all, entry{h, k, i})
			}
		}
		for i := range all { // by hash
			for k := i; k > 0 && all[k].h < all[k-1].h; k-- {
				all[k], all[k-1] = all[k-1], all[k]
			}
		}
		w, err := snapread.NewRunWriter(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for _, e := range all {
			v, err := codec.Encode(nil, json.RawMessage(fmt.Sprintf(`{"a":%d}`, e.i)))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Add(e.h, []byte(e.key), v, false); err != nil {
				t.Fatal(err)
			}
		}
		run, err := w.Finish(context.Background(), j.store)
		if err != nil {
			t.Fatal(err)
		}
		m.Tasks = append(m.Tasks, checkpoint.TaskSnapshot{Vertex: "op", Task: task, Parallelism: 2, Operators: []checkpoint.OperatorSnapshot{{Operator: "op",
			Keyed: &state.Snapshot{Range: state.TaskRange(task, 2), States: []state.StateSnapshot{{Name: "s", Kind: "value", Version: old.Version, Runs: []state.Run{run}}}}}}})
	}
	r, err := checkpoint.PlanRestore(m, checkpoint.Target{Job: "job", Operators: []string{"in", "op"}})
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func evolving(t *testing.T) *Job {
	t.Helper()
	dir := t.TempDir()
	store, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return &Job{store: store, opts: Options{StateDir: dir}}
}

// Rows that only grew are rewritten at the start, each of them, in every task.
func TestStartRewritesRowsThatGrew(t *testing.T) {
	j, ctx := evolving(t), context.Background()
	old := rowsOf(1, "a int64")
	m, r := snapshotOf(t, j, old, 200)
	now := rowsOf(1, "b string \"x\"", "a int64", "c int64")
	problems, err := j.evolves(ctx, m, r, graphOf("string", now))
	if err != nil || len(problems) > 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "convert: new columns b, c") {
		t.Fatalf("%v, %v, notes %v", problems, err, r.Notes)
	}
	m.States = StateRefs(graphOf("string", now)) // as the next checkpoint will say
	rows := map[string]bool{}
	if _, err := stateview.Open(m, j.store).Scan(ctx, stateview.Query{State: "s"}, func(row []byte) error {
		rows[string(row)] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if want := fmt.Sprintf(`{"operator":"op","state":"s","key":"k%d","value":{"b":"x","a":%d,"c":null}}`, i, i); !rows[want] {
			t.Fatalf("%s is missing of %d", want, len(rows))
		}
	}
}

// What can't be taken over is named before anything runs; what an empty state was is nobody's matter.
func TestStartNamesWhatDoesNotFit(t *testing.T) {
	j, ctx := evolving(t), context.Background()
	for _, c := range []struct {
		name    string
		keyType abi.FieldType
		now     abi.StateDescriptor
		entries int
		want    string
	}{
		{"the same", "string", rowsOf(1, "a int64"), 5, ""},
		{"column gone", "string", rowsOf(1, "b int64"), 5, "column a is gone: raise its version above 1"},
		{"type changed", "string", rowsOf(1, "a float64"), 5, "column a was int64, is float64"},
		{"version back", "string", rowsOf(0, "a int64"), 5, "goes back from 1 to 0"},
		{"higher version is the module's matter", "string", rowsOf(2, "z bool"), 5, ""},
		{"key type", "int64", rowsOf(1, "a int64"), 5, "operator op: refused: column k of its key was string, is int64"},
		{"undescribed now", "string", abi.StateDescriptor{Name: "s", Kind: abi.StateValue, Version: 1}, 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, r := snapshotOf(t, j, rowsOf(1, "a int64"), c.entries)
			problems, err := j.evolves(ctx, m, r, graphOf(c.keyType, c.now))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(problems, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	m, r := snapshotOf(t, j, rowsOf(1, "a int64"), 5)
	for i := range m.Tasks {
		m.Tasks[i].Operators[0].Keyed.States[0].Runs = nil
	}
	if problems, err := j.evolves(ctx, m, r, graphOf("int64", rowsOf(0, "b bool"))); err != nil || len(problems) > 0 {
		t.Errorf("an empty state: %v, %v", problems, err)
	}
}
