package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/host/record"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/connect"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/operators/spec"
)

var ctx = context.Background()

// graph is a checked pipeline over the files in dir.
func graph(t *testing.T, dir, text string) *operators.Graph {
	t.Helper()
	g, err := spec.Parse(filepath.Join(dir, "p.yaml"), []byte(text), spec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

const twoSources = `name: two
batch: 64
operators:
  - {id: payments, source: file, path: "pay-*.ndjson", format: ndjson, parallelism: 2, fields: {card: string, amount: int64, at: int64},
     time: {field: at, out_of_orderness: 50ms}, on_error: {policy: dead_letter, path: bad/}}
  - {id: by-card, key_by: card}
  - {id: out, sink: file, path: out/, from: by-card}
  - {id: made, source: generator, kind: sequence, records: 3000, keys: 9, splits: 2, parallelism: 2, step: 3ms}
  - {id: out2, sink: file, path: out2/, from: made}
`

// payments writes files with blank and malformed lines between the records.
func payments(t *testing.T, dir string, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	for f := range 3 {
		var b bytes.Buffer
		for i := range 400 + 100*f {
			switch rng.IntN(12) {
			case 0:
				b.WriteString("\n")
			case 1:
				b.WriteString("{\"card\": oops\n")
			}
			fmt.Fprintf(&b, "{\"card\":\"c%d\",\"amount\":%d,\"at\":%d}\n", rng.IntN(20), i, 1000+i*7+rng.IntN(90))
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("pay-%d.ndjson", f)), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// live are the tasks of a graph's sources.
type live struct {
	id   string
	task int
	n    *operators.Node
	run  *operatortest.SourceRun
}

func startLive(t *testing.T, g *operators.Graph, make func(n *operators.Node) operators.Source, from *checkpoint.Manifest) (all []*live) {
	t.Helper()
	for _, n := range g.Nodes {
		if n.Source == nil {
			continue
		}
		group := operators.NewSourceGroup(n.Parallelism)
		for i := range n.Parallelism {
			oc := operatortest.Context(t, n.ID, "")
			oc.Task, oc.Parallelism, oc.Group, oc.Batch = i, n.Parallelism, group, g.BatchMax
			if from != nil {
				for _, ts := range from.Tasks {
					if ts.Vertex == n.ID {
						oc.Restored = append(oc.Restored, ts.Operators...)
					}
				}
			}
			all = append(all, &live{n.ID, i, n, operatortest.OpenSource(t, make(n), oc)})
		}
	}
	return all
}

func connector(t *testing.T) func(n *operators.Node) operators.Source {
	return func(n *operators.Node) operators.Source {
		s, err := connect.Source(n, connect.Env{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// cut is a manifest of where sources stand.
func cut(id checkpoint.ID, all []*live) *checkpoint.Manifest {
	m := &checkpoint.Manifest{ID: id, Job: "two", Seed: 42}
	for _, l := range all {
		m.Tasks = append(m.Tasks, checkpoint.TaskSnapshot{Vertex: l.id, Task: l.task, Parallelism: l.n.Parallelism, Finished: l.run.Status == operators.PollEnd,
			Operators: []checkpoint.OperatorSnapshot{{Operator: l.id, Splits: l.run.Source.Positions()}}})
	}
	return m
}

// pollSome polls every task some times.
func pollSome(t *testing.T, all []*live, rng *rand.Rand, most int) {
	t.Helper()
	for _, l := range all {
		for range rng.IntN(most) {
			if err := l.run.Poll(64); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func write(t *testing.T, o record.Options) (*record.Recording, []byte) {
	t.Helper()
	o.Clock = &operatortest.Clock{}
	var b bytes.Buffer
	end, err := record.Write(ctx, &b, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, checked, err := record.Check(bytes.NewReader(b.Bytes())); err != nil || !reflect.DeepEqual(checked, end) {
		t.Fatalf("checked: %+v, %v; expected %+v", checked, err, end)
	}
	return open(t, b.Bytes()), b.Bytes()
}

func open(t *testing.T, data []byte) *record.Recording {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.input")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestPlaysWhatTheSourcesGave: records, marks, dead letters, positions and their names are those of the sources,
// read on from a snapshot; where the files are not.
func TestPlaysWhatTheSourcesGave(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 2))
		dir := t.TempDir()
		payments(t, dir, seed)
		g := job.Clamp(graph(t, dir, twoSources), nil)
		all := startLive(t, g, connector(t), nil)
		pollSome(t, all, rng, 9)
		from := cut(5, all)
		for _, l := range all {
			l.run.Out, l.run.Rejected = operatortest.Collected{}, operatortest.Collected{}
			for l.run.Status != operators.PollEnd {
				l.run.Drain(64)
			}
		}
		r, _ := write(t, record.Options{Graph: g, From: from})
		names := map[abi.Position]string{}
		for _, l := range all {
			for _, rec := range l.run.Out.Records {
				if l.id == "payments" {
					names[rec.Pos] = l.run.Source.Describe(rec.Pos)
				}
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := r.Fits(g); err != nil {
			t.Error(err)
		}
		for i, p := range startLive(t, g, r.Source, from) {
			for p.run.Status != operators.PollEnd {
				if err := p.run.Poll(1 + rng.IntN(80)); err != nil {
					t.Fatal(err)
				}
			}
			want := all[i].run
			if !reflect.DeepEqual(p.run.Out, want.Out) || !reflect.DeepEqual(p.run.Rejected, want.Rejected) {
				t.Fatalf("seed %d, %s-%d: %d records, %d marks, %d dead letters; expected %d, %d, %d", seed, p.id, p.task, len(p.run.Out.Records),
					len(p.run.Out.Marks), len(p.run.Rejected.Records), len(want.Out.Records), len(want.Out.Marks), len(want.Rejected.Records))
			}
			if !reflect.DeepEqual(p.run.Source.Positions(), want.Source.Positions()) {
				t.Errorf("%s-%d stands at %+v, expected %+v", p.id, p.task, p.run.Source.Positions(), want.Source.Positions())
			}
			for _, rec := range p.run.Out.Records {
				if l := p.run.Source.Describe(rec.Pos); p.id == "payments" && l != names[rec.Pos] {
					t.Fatalf("%q, expected %q", l, names[rec.Pos])
				}
			}
		}
		if !r.End.Over() {
			t.Error("the input ended, and the recording does not say so")
		}
	}
}

// TestEndsAtALaterSnapshot: exactly what came between two snapshots is recorded, and more polls would not help.
func TestEndsAtALaterSnapshot(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 3))
		dir := t.TempDir()
		payments(t, dir, seed)
		g := job.Clamp(graph(t, dir, twoSources), nil)
		all := startLive(t, g, connector(t), nil)
		pollSome(t, all, rng, 5)
		from := cut(5, all)
		for _, l := range all {
			l.run.Out, l.run.Rejected = operatortest.Collected{}, operatortest.Collected{}
		}
		pollSome(t, all, rng, 15)
		r, _ := write(t, record.Options{Graph: g, From: from, To: cut(6, all)})
		for i, p := range startLive(t, g, r.Source, from) {
			for p.run.Status == operators.PollMore {
				p.run.Drain(64)
			}
			want := all[i].run
			if !reflect.DeepEqual(p.run.Out, want.Out) || !reflect.DeepEqual(p.run.Rejected, want.Rejected) {
				t.Fatalf("seed %d, %s-%d: %d records, %d marks, %d dead letters; expected %d, %d, %d", seed, p.id, p.task, len(p.run.Out.Records),
					len(p.run.Out.Marks), len(p.run.Rejected.Records), len(want.Out.Records), len(want.Out.Marks), len(want.Rejected.Records))
			}
			if (p.run.Status == operators.PollEnd) != (want.Status == operators.PollEnd) {
				t.Errorf("%s-%d: status %v, expected %v", p.id, p.task, p.run.Status, want.Status)
			}
		}
	}
}

// TestSomeRecordsOfSomeKeys: a number of records, of all sources together in order of their times; and keys.
func TestSomeRecordsOfSomeKeys(t *testing.T) {
	dir := t.TempDir()
	payments(t, dir, 1)
	g := job.Clamp(graph(t, dir, twoSources), nil)
	from := cut(5, startLive(t, g, connector(t), nil))
	r, first := write(t, record.Options{Graph: g, From: from, Records: 1000})
	if r.End.Records != 1000 || r.End.Over() {
		t.Errorf("%+v", r.End)
	}
	for _, task := range r.End.Tasks {
		if task.Records < 32 {
			t.Errorf("%s-%d was left behind with %d records", task.Source, task.Task, task.Records)
		}
	}
	if _, again := write(t, record.Options{Graph: g, From: from, Records: 1000}); !bytes.Equal(first, again) {
		t.Error("the same input gives other bytes")
	}
	keys := []string{"c3", "seq-4", "c11"}
	r, _ = write(t, record.Options{Graph: g, From: from, Keys: keys})
	n := 0
	for _, p := range startLive(t, g, r.Source, from) {
		for p.run.Status != operators.PollEnd {
			p.run.Drain(64)
		}
		for _, rec := range p.run.Out.Records {
			n++
			if !slices.Contains(keys, string(rec.Key)) {
				t.Fatalf("a record of key %q", rec.Key)
			}
		}
		if m := p.run.Out.Marks; len(m) < 20 {
			t.Errorf("%s-%d has %d marks: other keys move the watermark too", p.id, p.task, len(m))
		}
	}
	if int64(n) != r.End.Records || n < 60 || r.End.Dropped < 4000 {
		t.Errorf("%d records, %+v", n, r.End)
	}
}

func TestWhatCannotBeReadAgainIsNamed(t *testing.T) {
	g := graph(t, t.TempDir(), `name: two
operators:
  - {id: typed, source: stdin, format: lines}
  - {id: out, sink: blackhole, from: typed}
  - {id: sent, source: tcp, address: "127.0.0.1:9", format: lines}
  - {id: out2, sink: blackhole, from: sent}
  - {id: made, source: generator, kind: counter}
  - {id: out3, sink: blackhole, from: made}
`)
	_, err := record.Write(ctx, &bytes.Buffer{}, record.Options{Graph: g, From: &checkpoint.Manifest{ID: 1}, Clock: &operatortest.Clock{}})
	if !errors.Is(err, record.ErrUnreadable) {
		t.Fatal(err)
	}
	for _, says := range []string{"source typed: what is taken from a stdin is gone", "source sent: what is taken from a tcp is gone", "source made: it has no end"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in %v", says, err)
		}
	}
}

// TestEveryDamageIsFound: bits and lengths; the block is named.
func TestEveryDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	payments(t, dir, 1)
	g := job.Clamp(graph(t, dir, twoSources), nil)
	_, data := write(t, record.Options{Graph: g, From: cut(5, startLive(t, g, connector(t), nil)), Records: 700})
	rng := rand.New(rand.NewPCG(7, 7))
	for i := 0; i < len(data); i += 1 + rng.IntN(8) {
		bad := bytes.Clone(data)
		bad[i] ^= 1 << rng.IntN(8)
		_, _, err := record.Check(bytes.NewReader(bad))
		if !errors.Is(err, record.ErrDamaged) && !errors.Is(err, record.ErrNotRecording) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if i >= 8 && !strings.Contains(err.Error(), "block ") {
			t.Fatalf("byte %d changed: no block is named: %v", i, err)
		}
		if _, _, err := record.Check(bytes.NewReader(data[:i])); err == nil {
			t.Fatalf("cut to %d bytes: found whole", i)
		}
	}
	if _, _, err := record.Check(bytes.NewReader(append(bytes.Clone(data), 0))); !errors.Is(err, record.ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestOtherSourcesAreRefused: a pipeline that would make other records of the same lines.
func TestOtherSourcesAreRefused(t *testing.T) {
	dir := t.TempDir()
	payments(t, dir, 1)
	g := job.Clamp(graph(t, dir, twoSources), nil)
	r, _ := write(t, record.Options{Graph: g, From: cut(5, startLive(t, g, connector(t), nil)), Records: 700})
	other := strings.NewReplacer("id: made", "id: forged", "from: made", "from: forged", "key_by: card", "key_by: amount").Replace(twoSources)
	err := r.Fits(graph(t, dir, other))
	for _, says := range []string{"key [card], the pipeline wants [amount]", "source forged was not recorded", "source made was recorded"} {
		if err == nil || !errors.Is(err, record.ErrOther) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q is missing in %v", says, err)
		}
	}
}
