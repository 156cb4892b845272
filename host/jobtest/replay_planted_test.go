package jobtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/replay"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
)

// planted is a module that does something else where its input has a word.
type planted struct {
	guestop.Module
	out  [2]string // a word in outputs and what is there instead, as long
	put  string    // user key of a map, whose values get a byte more
	fuel string    // word of a record that costs more
	trap string    // word of a record that traps
	fail string    // word of a record at which the call fails outside any record
}

// Digest implements guestop.Module.
func (p *planted) Digest() string { return "planted " + p.Module.Digest() }

// New implements guestop.Module.
func (p *planted) New(env guestop.Env, o guestop.InstanceOptions) (guestop.Guest, error) {
	g, err := p.Module.New(&plantedEnv{env, p}, o)
	return &plantedGuest{g, p, nil}, err
}

type plantedEnv struct {
	guestop.Env
	p *planted
}

// Put implements guestop.Env.
func (e *plantedEnv) Put(record, st int, ukey, v []byte) abi.Status {
	if e.p.put != "" && string(ukey) == e.p.put {
		v = append(slices.Clone(v), '!')
	}
	return e.Env.Put(record, st, ukey, v)
}

type plantedGuest struct {
	guestop.Guest
	p  *planted
	in []byte
}

// In implements guestop.Guest.
func (g *plantedGuest) In(n int) ([]byte, error) {
	in, err := g.Guest.In(n)
	g.in = in
	return in, err
}

// Call implements guestop.Guest.
func (g *plantedGuest) Call(n int, first uint32) guestop.Outcome {
	has := func(word string) bool { return word != "" && bytes.Contains(g.in[:n], []byte(word)) }
	trap, fail, more := has(g.p.trap), has(g.p.fail), has(g.p.fuel)
	o := g.Guest.Call(n, first)
	if more {
		o.Fuel, o.Billed = o.Fuel+1, o.Billed+1
	}
	if o.Fault == nil && trap {
		o.Fault = &guestop.Fault{Kind: guestop.FaultTrap, Message: "planted"}
	}
	if o.Fault == nil && fail {
		o.Fault = &guestop.Fault{Kind: guestop.FaultProtocol, Record: -1, Message: "planted"}
	}
	return o
}

// Out implements guestop.Guest.
func (g *plantedGuest) Out() []byte {
	out := g.Guest.Out()
	if g.p.out[0] != "" {
		return bytes.ReplaceAll(out, []byte(g.p.out[0]), []byte(g.p.out[1]))
	}
	return out
}

// plantedWorld is a run of n records, of which record at is of key odd and says words; it returns the snapshot at its start.
func plantedWorld(t *testing.T, n, at int, words string, settings string) (*World, checkpoint.ID) {
	w := New(t, pipelineText("linger: 0ms\ncheckpoint: {interval: 0s, retain: 1000}"+settings, "effects", 1))
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("first", 0, "value"))
	a := w.Checkpoint(r)
	rs := make([]abi.Record, n)
	for i := range rs {
		rs[i] = Text(fmt.Sprintf("key-%03d", i%500), int64(1000+i), fmt.Sprintf("set v%d;out o%d", i, i))
	}
	rs[at] = Text("odd", int64(1000+at), words)
	f.Push(rs...)
	w.Checkpoint(r)
	r.Crash()
	return w, a
}

// candidate is the world's code with planted modules.
func (w *World) candidate(p planted) *replay.Code {
	c := w.code()
	compile := c.Module
	c.Module = func(ctx context.Context, n *operators.Node) (guestop.Module, error) {
		m, err := compile(ctx, n)
		p.Module = m
		return &p, err
	}
	return &c
}

// compare replays two versions from a snapshot to the end of what is there.
func (w *World) compare(a checkpoint.ID, c *replay.Code, batch int) *replay.Report {
	w.T.Helper()
	o := w.replayOptions(w.reader(), a)
	o.Candidate, o.Batch = c, batch
	res, err := replay.Run(context.Background(), o)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := res.Close(); err != nil {
		w.T.Fatal(err)
	}
	return res.Report
}

// TestReplayFindsOneOfManyRecords: a difference at one of many records is found, as what it is, and named by key and
// position; the same module twice shows none.
func TestReplayFindsOneOfManyRecords(t *testing.T) {
	t.Parallel()
	const n, at = 100_000, 77_777
	w, a := plantedWorld(t, n, at, "put planted x;out special;timer 90000000 far", "")
	for _, c := range []struct {
		name  string
		p     planted
		batch int
		kind  string
		want  string // in the details
		of    replay.Operator
	}{
		{name: "same", batch: 1},
		{name: "output", p: planted{out: [2]string{"special", "SPECIAL"}}, batch: 1, kind: "output", want: "special SPECIAL", of: replay.Operator{Differ: 1}},
		{name: "output in large batches", p: planted{out: [2]string{"special", "SPECIAL"}}, batch: 1024, kind: "output", want: "special SPECIAL", of: replay.Operator{Differ: 1}},
		{name: "state", p: planted{put: "planted"}, batch: 1, kind: "state", want: "map[", of: replay.Operator{Differ: 1, StateOnly: 1, Keys: 1}},
		{name: "state in large batches", p: planted{put: "planted"}, batch: 1024, kind: "state", want: "map[", of: replay.Operator{Differ: 1, StateOnly: 1, Keys: 1}},
		{name: "fuel", p: planted{fuel: "special"}, batch: 1, kind: "fuel", of: replay.Operator{FuelOnly: 1}},
		{name: "trap", p: planted{trap: "special"}, batch: 1, kind: "fault+output+state+timer", want: "trap: planted", of: replay.Operator{Differ: 1, Keys: 1}},
	} {
		rep := w.compare(a, w.candidate(c.p), c.batch)
		if len(rep.Operators) != 1 {
			t.Fatalf("%s: %d operators compared", c.name, len(rep.Operators))
		}
		o := rep.Operators[0]
		if o.Records != n || o.Differ != c.of.Differ || o.StateOnly != c.of.StateOnly || o.FuelOnly != c.of.FuelOnly || o.Keys != c.of.Keys || o.Follow != 0 {
			t.Errorf("%s: %+v", c.name, o)
		}
		if rep.Same() != (c.kind == "") {
			t.Errorf("%s: same %v", c.name, rep.Same())
		}
		if c.kind == "" {
			continue
		}
		if len(o.Samples) != 1 {
			t.Errorf("%s: %d samples", c.name, len(o.Samples))
			continue
		}
		d := o.Samples[0]
		var all []string
		for _, x := range d.Details {
			all = append(all, x.Of+" "+x.Before+" "+x.After)
		}
		if d.Kinds.String() != c.kind || d.KeyRow != "odd" || d.Position != fmt.Sprintf("feed, record %d", at+1) && !strings.HasSuffix(d.Position, fmt.Sprint(at+2)) || !strings.Contains(strings.Join(all, "\n"), c.want) {
			t.Errorf("%s: %+v, details %q", c.name, d, all)
		}
	}
}

// TestReplayFollowUps: once the state of a key differs, what else differs of it is counted apart.
func TestReplayFollowUps(t *testing.T) {
	t.Parallel()
	w := New(t, pipelineText("linger: 0ms\ncheckpoint: {interval: 0s, retain: 1000}", "effects", 1))
	f := w.Feed("in")
	r := w.Start()
	f.Push(Text("k", 0, "value"))
	a := w.Checkpoint(r)
	for i := range 10 {
		f.Push(Text("k", int64(i), "get planted"), Text("other", int64(i), "get planted"))
		if i == 3 {
			f.Push(Text("k", int64(i), "put planted x"))
		}
	}
	w.Checkpoint(r)
	r.Crash()
	for _, batch := range []int{1, 4} {
		o := w.compare(a, w.candidate(planted{put: "planted"}), batch).Operators[0]
		if o.Differ+o.Follow != 7 || o.Keys != 1 || o.Differ != 1 && batch == 1 {
			t.Errorf("batch %d: %+v, expected the record that put it, and 6 that follow", batch, o)
		}
	}
}

// TestReplayOfFaults: a new version that can't do a record, for fuel or memory, goes on behind it; one that breaks
// outside any record is compared no further, and the old version goes on.
func TestReplayOfFaults(t *testing.T) {
	t.Parallel()
	w, a := plantedWorld(t, 3000, 1500, "many 60", "")
	was := w.code()
	text := strings.Replace(string(w.Graph.Text), "function: effects}", "function: effects, fuel: 30000}", 1)
	now, err := w.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	o := w.compare(a, &replay.Code{Graph: now, Module: was.Module}, 1).Operators[0]
	if o.Records != 3000 || o.Differ != 1 || o.Kinds["fault"] != 1 || o.Samples[0].KeyRow != "odd" || !strings.Contains(o.Samples[0].Details[0].After, "fuel") {
		t.Errorf("fuel: %+v", o)
	}
	o = w.compare(a, w.candidate(planted{fail: "many 60"}), 1).Operators[0]
	if o.Stopped == "" || o.NotCompared != 1499 || o.Records != 1501 {
		t.Errorf("outside any record: %+v", o)
	}
}
