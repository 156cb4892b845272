package guestop

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/operatortest"
	"github.com/millrace-io/millrace/state"
)

// tagged is a module whose every output says which version made it, as version tells by key.
func tagged(version func(c *fakeCall) string, timers []string, ttl *abi.TTL) *fakeModule {
	m := keyedCount()
	m.fn.Timers = timers
	m.fn.States[0].TTL = ttl
	m.user = func(c *fakeCall) *Fault {
		v, value := version(c), string(c.frame.Value())
		if c.kind != abi.KindRecords {
			c.emit(0, fmt.Sprintf("%s timer %s of %s at %d: %d @%d", v, value, c.frame.Key(), c.frame.Time(), c.count(0), c.watermark()))
			if len(value) < 3 && c.frame.Time()%3 == 0 {
				c.g.env.TimerSet(c.i, int(state.Domain(c.kind))-abi.KindEventTimers+abi.DomainEvent, []byte(value+"+"), c.frame.Time()+7)
			}
			return nil
		}
		if value[len(value)-1] == '2' { // before it touches its cell, which it would have to restore
			c.g.env.Put(c.i, 1, []byte("undone"), c.frame.Value())
			c.g.env.Fail(c.i, []byte("no good"))
			return nil
		}
		n := c.count(0)
		c.g.env.Put(c.i, 1, []byte(fmt.Sprint(n%3)), c.frame.Value())
		switch last := value[len(value)-1]; {
		case last == '1':
			c.emit(1, v+" side "+value)
		case last == '3':
			return &Fault{Kind: FaultTrap, Message: "unreachable"}
		case last == '4' && len(timers) > 0:
			c.g.env.TimerSet(c.i, abi.DomainEvent, []byte("t"), c.frame.Time()+int64(n%40)-10)
		case last == '5':
			c.g.Yield()
		case last == '6':
			return nil
		}
		old, _ := c.g.env.Get(c.i, 1, []byte(fmt.Sprint((n+1)%3)))
		c.emit(0, fmt.Sprintf("%s %s %s: %d after %q @%d", v, c.frame.Key(), value, n, old, c.watermark()))
		return nil
	}
	return m
}

// watermark is that of the current record.
func (c *fakeCall) watermark() int64 {
	g := c.g
	w := int64(binary.LittleEndian.Uint64(g.in[abi.BlockWatermark:]))
	at := g.word(abi.BlockMarks)
	for i := range g.word(abi.BlockNMarks) {
		if m := at + 16*i; g.word(m) <= c.i {
			w = int64(binary.LittleEndian.Uint64(g.in[m+8:]))
		}
	}
	return w
}

// oneCode is an operator that has one code whose version depends on the key: what a canary must look like.
type oneCode struct {
	*operatortest.Harness
	slots state.Range
	base  string
	other string
	seed  state.Hasher
}

func (o *oneCode) version(c *fakeCall) string {
	if o.slots.Contains(o.seed.Hash(c.frame.Key())) {
		return o.other
	}
	return o.base
}

func fixed(v string) func(*fakeCall) string { return func(*fakeCall) string { return v } }

// Whatever the batches, the slots and the steps: the output of two codes over one state is, byte for byte and mark
// for mark, that of one code that does what the key's side does.
func TestACanaryIsLikeOneCode(t *testing.T) {
	for name, c := range map[string]struct {
		timers []string
		ttl    *abi.TTL
	}{
		"state alone":           {},
		"event timers":          {timers: []string{"event"}},
		"processing timers":     {timers: []string{"processing"}},
		"a TTL in event time":   {ttl: &abi.TTL{MS: 30}},
		"a TTL and event timer": {timers: []string{"event"}, ttl: &abi.TTL{MS: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				canaryRun(t, seed, c.timers, c.ttl)
			}
		})
	}
}

func canaryRun(t *testing.T, seed uint64, timers []string, ttl *abi.TTL) {
	rng := rand.New(rand.NewPCG(seed, 5))
	one := &oneCode{base: "v0", seed: state.Hasher{Seed: 42}}
	one.Harness, _ = open(t, tagged(one.version, timers, ttl), operators.PolicyDeadLetter)
	first := tagged(fixed("v0"), timers, ttl)
	two, op := open(t, first, operators.PolicyDeadLetter)
	version, ms, mark, offset := 0, int64(0), int64(0), uint64(0)
	steps := ""
	for range 40 {
		b := &abi.Batch{}
		for range rng.IntN(60) {
			if w := ms - rng.Int64N(20); w > mark && rng.IntN(6) == 0 {
				mark = w
				b.Mark(w)
			}
			ms += rng.Int64N(4)
			b.Append(&abi.Record{Time: ms - rng.Int64N(15), Key: fmt.Appendf(nil, "k%d", rng.IntN(25)),
				Value: fmt.Appendf(nil, "%d%d", offset, rng.IntN(10)), Pos: abi.Position{Offset: offset}})
			offset++
		}
		for _, h := range []*operatortest.Harness{one.Harness, two} {
			own := *b
			own.Hash = nil
			h.Ctx.Clock.(*operatortest.Clock).Set(ms)
			if err := h.Op.Batch(0, &own, h); err != nil {
				t.Fatalf("seed %d, after %s: %v", seed, steps, err)
			}
			if pt := h.Op.(operators.ProcessingTimer); rng != nil {
				if at, ok := pt.NextProcessing(); ok && at <= ms {
					if err := pt.OnProcessingTime(ms, h); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		switch k := rng.IntN(4); {
		case !op.HasCanary() && k > 0:
			version++
			one.other = fmt.Sprintf("v%d", version)
			one.slots = state.Range{Hi: 1 + uint32(rng.IntN(state.Slots))}
			if _, err := op.prepareAndBegin(tagged(fixed(one.other), timers, ttl), one.slots, 1); err != nil {
				t.Fatal(err)
			}
			steps += fmt.Sprintf(" begin %d", one.slots.Hi)
		case op.HasCanary() && k == 1:
			one.slots.Hi = min(state.Slots, one.slots.Hi+uint32(rng.IntN(state.Slots)))
			op.Widen(one.slots)
			steps += fmt.Sprintf(" widen %d", one.slots.Hi)
		case op.HasCanary() && k == 2:
			one.base, one.slots = one.other, state.Range{}
			if err := <-op.Promote(nil); err != nil {
				t.Fatal(err)
			}
			steps += " promote"
		case op.HasCanary() && k == 3:
			one.slots = state.Range{}
			if err := <-op.Revert(); err != nil {
				t.Fatal(err)
			}
			steps += " revert"
		}
	}
	for _, h := range []*operatortest.Harness{one.Harness, two} {
		h.Watermark(abi.MaxWatermark)
	}
	for _, output := range []int{0, 1, operators.OutputDeadLetter} {
		got, want := two.Output(output), one.Output(output)
		for i := range want.Records { // which call a record was in may differ
			want.Records[i].Cause = 0
		}
		for i := range got.Records {
			got.Records[i].Cause = 0
		}
		if !reflect.DeepEqual(got.Records, want.Records) {
			for i := range want.Records {
				if i >= len(got.Records) || !reflect.DeepEqual(got.Records[i], want.Records[i]) {
					t.Fatalf("seed %d, steps%s, output %d: record %d of %d is %q, of one code %q", seed, steps, output, i, len(got.Records), got.Records[min(i, len(got.Records)-1)].Value, want.Records[i].Value)
				}
			}
		}
		if output != operators.OutputDeadLetter && !reflect.DeepEqual(got.Marks, want.Marks) {
			t.Fatalf("seed %d, steps%s, output %d: marks %v, of one code %v", seed, steps, output, got.Marks, want.Marks)
		}
	}
	if len(one.Output(0).Records) < 100 {
		t.Fatalf("seed %d: %d outputs", seed, len(one.Output(0).Records))
	}
	a, _ := op.Stats()
	b, _ := one.Op.(*Op).Stats()
	if a.In != b.In || a.Out != b.Out || a.Dead != b.Dead || a.Timers != b.Timers {
		t.Errorf("seed %d: counted %+v, of one code %+v", seed, a, b)
	}
}

// prepareAndBegin is what a job does at a barrier.
func (o *Op) prepareAndBegin(m *fakeModule, slots state.Range, errors float64) (*Replacement, error) {
	n := *o.cfg.Node
	g := *n.Guest
	g.Fn = &m.fn
	n.Guest = &g
	r, err := o.Prepare(&n, m)
	if err == nil {
		o.Begin(r, slots, errors)
	}
	return r, err
}

// A filter with a canary keeps the fields it does not read, in order.
func TestACanaryOfAFilter(t *testing.T) {
	delay := abi.Field{Name: "delay", Type: abi.TypeInt64}
	filter := func(keeps func(int64) bool) *fakeModule {
		m := &fakeModule{fn: abi.Function{Name: "f", Kind: abi.FunctionFilter, Keyed: true, Input: []abi.Field{delay}}}
		m.user = func(c *fakeCall) *Fault {
			row, err := abi.CheckRow(c.frame.Value(), m.fn.Input)
			if err != nil {
				t.Error(err)
			}
			if d, _ := row.Int64(0); keeps(d) {
				c.emit(0, string(c.frame.Value()))
			}
			return nil
		}
		return m
	}
	m := filter(func(d int64) bool { return d%2 == 0 })
	op := New(Config{Module: m, Node: &operators.Node{ID: "op", Kind: operators.NodeGuest, Guest: &operators.GuestNode{Fn: &m.fn, Keyed: true, Clock: "event",
		Input: []abi.Field{{Name: "origin", Type: abi.TypeString}, delay}, OnError: operators.ErrorPolicy{Policy: operators.PolicyStop}}}})
	h := operatortest.New(t, op, operatortest.Context(t, "op", ""))
	t.Cleanup(func() { _ = op.Close() })
	slots := state.Range{Hi: state.Slots / 2}
	if _, err := op.prepareAndBegin(filter(func(d int64) bool { return d%3 == 0 }), slots, 0); err != nil {
		t.Fatal(err)
	}
	var b abi.Batch
	var want []string
	sides := map[bool]int{}
	for i := range int64(200) {
		key := fmt.Appendf(nil, "k%d", i%20)
		var r abi.RowBuilder
		r.Reset(2)
		r.SetString(0, "ABQ")
		r.SetInt64(1, i)
		b.Append(&abi.Record{Time: i, Key: key, Value: r.Bytes(), Pos: abi.Position{Offset: uint64(i)}})
		if other := slots.Contains(op.ctx.Hasher.Hash(key)); !other && i%2 == 0 || other && i%3 == 0 {
			want = append(want, string(r.Bytes()))
			sides[other]++
		}
	}
	if err := op.Batch(0, &b, h); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range h.Output(0).Records {
		got = append(got, string(r.Value))
	}
	if !reflect.DeepEqual(got, want) || len(sides) != 2 {
		t.Errorf("kept %d rows, expected %d, %v of each side", len(got), len(want), sides)
	}
}

// Records of one side go into few calls, however they are mixed.
func TestACanaryGroupsRecords(t *testing.T) {
	m := tagged(fixed("v1"), []string{"event"}, nil)
	h, op := open(t, m, operators.PolicyStop)
	other := tagged(fixed("v2"), []string{"event"}, nil)
	if _, err := op.prepareAndBegin(other, state.Range{Hi: state.Slots / 2}, 0); err != nil {
		t.Fatal(err)
	}
	var b abi.Batch
	for i := range 1000 {
		if i == 500 {
			b.Mark(-5)
		}
		b.Append(&abi.Record{Time: int64(i), Key: fmt.Appendf(nil, "k%d", i%50), Value: []byte("0"), Pos: abi.Position{Offset: uint64(i)}})
	}
	if err := h.Op.Batch(0, &b, h); err != nil {
		t.Fatal(err)
	}
	for i, g := range []*fakeGuest{m.guests[0], other.guests[0]} {
		if len(g.calls) != 2 {
			t.Errorf("side %d: %d calls, expected one before and one behind the mark", i, len(g.calls))
		}
	}
	st, ok := op.CanaryStats()
	if !ok || st[0].Records+st[1].Records != 1000 || st[0].Records == 0 || st[1].Records == 0 {
		t.Errorf("counted %+v", st)
	}
}

// The candidate is judged by its own records: its faults end the task with the trial's error, those of the code in
// force don't, and what both fail is no reason.
func TestACanaryIsOnTrial(t *testing.T) {
	fails := func(every uint64) *fakeModule {
		m := keyedCount()
		m.user = func(c *fakeCall) *Fault {
			if every > 0 && c.frame.Pos().Offset%every == 0 {
				c.g.env.Fail(c.i, []byte("no good"))
				return nil
			}
			c.emit(0, "x")
			return nil
		}
		return m
	}
	for _, c := range []struct {
		base, candidate uint64
		ends            bool
	}{{0, 0, false}, {0, 20, true}, {20, 0, false}, {20, 20, false}, {50, 5, true}, {0, 500, false}} {
		h, op := open(t, fails(c.base), operators.PolicySkip)
		if _, err := op.prepareAndBegin(fails(c.candidate), state.Range{Hi: state.Slots / 2}, 0); err != nil {
			t.Fatal(err)
		}
		var err error
		for i := 0; i < 4000 && err == nil; i += 100 {
			var b abi.Batch
			for k := i; k < i+100; k++ {
				b.Append(&abi.Record{Time: int64(k), Key: fmt.Appendf(nil, "k%d", k%61), Value: []byte("0"), Pos: abi.Position{Offset: uint64(k)}})
			}
			err = h.Op.Batch(0, &b, h)
		}
		if _, trial := err.(*TrialError); trial != c.ends || !c.ends && err != nil {
			t.Errorf("in force every %d fails, of the candidate every %d: %v, expected an end: %v", c.base, c.candidate, err, c.ends)
		}
	}
}
