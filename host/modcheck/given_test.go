package modcheck

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/engine"
	"github.com/millrace-io/millrace/operators/guestop"
)

// given is a sample of texts, over and over, under three keys.
func given(texts ...string) *Sample {
	s := &Sample{From: "a list"}
	for i := range 280 {
		s.Records = append(s.Records, abi.Record{Time: int64(1000 * i), Key: fmt.Appendf(nil, "k%d", i%3), Value: []byte(texts[i%len(texts)]), Pos: abi.Position{Offset: uint64(i)}})
		if i%20 == 19 {
			s.Marks = append(s.Marks, abi.Mark{Index: uint32(i), Watermark: int64(1000*i - 5000)})
		}
	}
	return s
}

// commands are what guests do that refuse synthetic records: everything a function can do.
var commands = map[string][]string{
	"effects": {"set a; value", "value; unset", "big 70000; biglen", "biglen; put a 1; scan", "put b 2; get a; del a; empty", "append x; list", "append y; list; unlist",
		"timer 50000 t; timer 90000 do out late; out o", "untimer 50000 t; ptimer 1704067300000 p", "side s; forward; tombstone; header h v", "large 300000; out c",
		"many 40; log l; count n 2", "random; wm; now", "set lost; put a lost; fail no", "trap"},
	"timers": {"\nregister-event 40000\nadd 2\nemit 1", "\nadd 1\nemit {\"a\":1}", "on event\nadd 5\nemit \"fired\"\n\nregister-event-relative 3000", "\nregister-processing 1704067300000\nclear",
		"\ndelete-event 40000\nregister-event 41000"},
}

// TestFunctionsOfCommandsPass: guests that do all that can be done, with faults between.
func TestFunctionsOfCommandsPass(t *testing.T) {
	for name, texts := range commands {
		m := compile(t, cases.Module(name), engine.Options{})
		f, err := One(context.Background(), m, nodeOf(m.Descriptor(), 0), given(texts...), whole)
		if err != nil || f.Difference != nil || f.NotChecked != "" || f.Timers == 0 || f.Failed > f.Records/4 || f.Fresh != f.Records+f.Timers {
			t.Errorf("%s: %v %v", name, err, &f)
		}
		t.Log(&f, f.Notes)
	}
}

// TestKitchenCountsOnRequest: a guest in C that keeps a counter for those who ask for it, and only for them.
func TestKitchenCountsOnRequest(t *testing.T) {
	m := compile(t, cases.Module("kitchen"), engine.Options{})
	for texts, bad := range map[string]bool{"e1 e2 e3": false, "e1 c e3": true} {
		f, err := One(context.Background(), m, nodeOf(m.Descriptor(), 0), given(strings.Fields(texts)...), whole)
		if err != nil || (f.Difference != nil) != bad || f.NotChecked != "" {
			t.Errorf("%s: %v %v", texts, err, &f)
		}
	}
}

// TestRefusedSamplesAreNamed: a function that refuses all of a sample is not said to pass.
func TestRefusedSamplesAreNamed(t *testing.T) {
	m := compile(t, cases.Module("effects"), engine.Options{})
	f, err := One(context.Background(), m, nodeOf(m.Descriptor(), 0), given("nonsense"), whole)
	if err != nil || f.Difference != nil || f.NotChecked != `every sample record was refused: returned error: unknown command "nonsense"` {
		t.Errorf("%v %v", err, &f)
	}
}

// dear is a module whose fresh instances take a millisecond of a clock.
type dear struct {
	guestop.Module
	now *int64
}

func (d dear) New(env guestop.Env, o guestop.InstanceOptions) (guestop.Guest, error) {
	g, err := d.Module.New(env, o)
	return dearGuest{g, d.now}, err
}

type dearGuest struct {
	guestop.Guest
	now *int64
}

func (g dearGuest) Reset() error {
	*g.now += int64(time.Millisecond)
	return g.Guest.Reset()
}

// TestBudgetIsTold: where instances are dear, the first records have one each, the next ones share them, and the
// report says how many.
func TestBudgetIsTold(t *testing.T) {
	now := int64(0)
	m := dear{compile(t, cases.Module("count"), engine.Options{}), &now}
	o := Options{Budget: 30 * time.Millisecond, Mono: func() int64 { return now }}
	f, err := One(context.Background(), m, nodeOf(m.Descriptor(), 0), given("a", "b"), o)
	if err != nil || f.Difference != nil || f.Records != 280 || f.Fresh != 31 || f.Covered != 31*7 {
		t.Errorf("%v %v", err, &f)
	}
	o.Budget = 1 // ns: still the least
	if f, err = One(context.Background(), m, nodeOf(m.Descriptor(), 0), given("a", "b"), o); err != nil || f.Fresh != leastEntries || f.NotChecked != "" {
		t.Errorf("%v %v", err, &f)
	}
}
