package operators

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

type movedClock struct{ ms int64 }

func (c *movedClock) NowMS() int64 { return c.ms }

// noted is the notes of an intake, and the script made of them.
type noted struct {
	events []ClockEvent
	total  int64
}

func (n *noted) Add(e ClockEvent) { n.events = append(n.events, e) }
func (n *noted) Next() (ClockEvent, bool) {
	if len(n.events) == 0 {
		return ClockEvent{}, false
	}
	return n.events[0], true
}
func (n *noted) Pop()              { n.events = n.events[1:] }
func (n *noted) Over(d int64) bool { return len(n.events) == 0 && d >= n.total }

func clockIntake(t testing.TB, clock Clock, times TimeSettings, splits int) *Intake {
	t.Helper()
	ctx := &Context{Clock: clock, Log: slog.New(slog.DiscardHandler)}
	in := NewIntake(&Node{ID: "in", Source: &SourceNode{Time: &times}}, ctx, func(abi.Position) string { return "here" })
	for i := range splits {
		in.AddSplit(checkpoint.SplitPosition{Index: uint32(i + 3), MaxTime: abi.NoTime, Mark: abi.MinWatermark})
	}
	return in
}

// TestIntakeRepeats: records between which the clock moves, taken in other polls and without a clock, have the same times
// and the same marks between them, in each kind of time.
func TestIntakeRepeats(t *testing.T) {
	for name, times := range map[string]TimeSettings{
		"ingestion": {Source: TimeIngestion, Quantum: 100 * time.Millisecond, Idle: 300 * time.Millisecond},
		"idle":      {Quantum: 100 * time.Millisecond, Idle: 300 * time.Millisecond},
		"future":    {Quantum: 100 * time.Millisecond, MaxFutureSkew: time.Second, OnFuture: ErrorPolicy{Policy: PolicySkip}},
	} {
		clock := &movedClock{ms: 1_700_000_000_000}
		in := clockIntake(t, clock, times, 2)
		notes := &noted{}
		in.Clocked(notes, nil)
		var all, once abi.Batch
		var records []abi.Record
		var split []int
		give := func(in *Intake, b *abi.Batch, i int) {
			t.Helper()
			r := records[i]
			if err := in.Decoded(b, split[i], &r, nil, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 300 {
			clock.ms += int64(i%7) * 40
			in.Begin()
			if i%3 > 0 {
				n := len(records)
				records = append(records, abi.Record{Key: []byte("k"), Value: []byte("v"), Time: clock.ms + int64(i%5-2)*600, Pos: abi.Position{Offset: uint64(n)}})
				split = append(split, i/40%2)
				give(in, &all, n)
			} else {
				in.CaughtUp(&all, 0)
				in.CaughtUp(&all, 1)
			}
			if err := in.End(&all); err != nil {
				t.Fatal(err)
			}
		}
		kinds := map[ClockKind]int{}
		for _, e := range notes.events {
			kinds[e.Kind]++
		}
		if len(kinds) == 0 || name == "idle" && kinds[ClockIdle] < 3 || name == "future" && kinds[ClockFuture] < 3 || name == "ingestion" && kinds[ClockStamp]*kinds[ClockMark]*kinds[ClockIdle] == 0 {
			t.Fatalf("%s: too little happened: %v", name, kinds)
		}
		notes.total = in.Decodings()
		again := clockIntake(t, nil, times, 2) // nothing may look
		again.Clocked(nil, notes)
		for i := 0; i < len(records); {
			again.Begin()
			for most := again.Most(17); most > 0 && i < len(records); most-- {
				give(again, &once, i)
				i++
			}
			if i < len(records) {
				again.CaughtUp(&once, 0)
			}
			if i == len(records) { // the clock has it from here
				break
			}
			if err := again.End(&once); err != nil {
				t.Fatal(err)
			}
		}
		if err := again.repeat(&once); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(all.Data, once.Data) || !slices.Equal(all.Marks, once.Marks) {
			t.Errorf("%s: %d records and %d marks, expected %d and %d; %v\n%v", name, once.Len(), len(once.Marks), all.Len(), len(all.Marks), once.Marks, all.Marks)
		}
		if e, ok := notes.Next(); ok {
			t.Errorf("%s: %+v is left", name, e)
		}
	}
}

// TestIntakeClockCostsNothing: a record allocates nothing, whether somebody notes the clock or not.
func TestIntakeClockCostsNothing(t *testing.T) {
	for _, noting := range []bool{false, true} {
		in := clockIntake(t, &movedClock{ms: 1}, TimeSettings{Source: TimeIngestion, Quantum: time.Second}, 1)
		if noting {
			in.Clocked(&noted{}, nil)
		}
		var b abi.Batch
		r := abi.Record{Key: []byte("k"), Value: []byte("v")}
		if n := testing.AllocsPerRun(100, func() {
			b.Reset()
			in.Begin()
			for range 100 {
				if err := in.Decoded(&b, 0, &r, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
		}); n != 0 {
			t.Errorf("noting %t: %v allocations for 100 records", noting, n)
		}
	}
}

func BenchmarkIntakeDecoded(b *testing.B) {
	in := clockIntake(b, &movedClock{ms: 1_700_000_000_000}, TimeSettings{Quantum: time.Second, MaxFutureSkew: time.Minute}, 1)
	var batch abi.Batch
	r := abi.Record{Key: []byte("key-1"), Value: []byte("value")}
	for b.Loop() {
		batch.Reset()
		in.Begin()
		for range 256 {
			r.Time++
			if err := in.Decoded(&batch, 0, &r, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
