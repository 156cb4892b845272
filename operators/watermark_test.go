package operators_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/memory"
	"github.com/millrace-io/millrace/operators/operatortest"
)

func times(ts ...int64) (rs []abi.Record) {
	for _, ms := range ts {
		rs = append(rs, abi.Record{Time: ms, Value: fmt.Append(nil, ms)})
	}
	return rs
}

// marks makes marks of pairs (records before it, watermark).
func marks(pairs ...int64) (ms []operatortest.Mark) {
	for i := 0; i < len(pairs); i += 2 {
		ms = append(ms, operatortest.Mark{Records: int(pairs[i]), Watermark: pairs[i+1]})
	}
	return ms
}

func memoryNode(delay, quantum time.Duration) *operators.Node {
	return &operators.Node{ID: "in", Kind: operators.NodeSource, Source: &operators.SourceNode{
		Time: &operators.TimeSettings{OutOfOrderness: delay, Quantum: quantum}}}
}

func drain(t *testing.T, max int, n *operators.Node, splits ...[]abi.Record) operatortest.Collected {
	t.Helper()
	return operatortest.OpenSource(t, memory.NewSource(n, splits...), operatortest.Context(t, "in", "")).Drain(max).Out
}

// TestWatermarkValues: exactly greatest time - delay - 1, at each crossing of a quantum and at every
// 1,024th record.
func TestWatermarkValues(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
		in    []int64
		want  []operatortest.Mark
	}{
		{"first record", 0, []int64{1000}, marks(1, 999)},
		{"in one quantum", 0, []int64{1000, 1050, 1099}, marks(1, 999)},
		{"crossings", 10 * time.Millisecond, []int64{1000, 1099, 1100, 1050, 1200}, marks(1, 989, 3, 1089, 5, 1189)},
		{"never back", 0, []int64{5000, 10, 4000}, marks(1, 4999)},
		{"before 1970", 0, []int64{-250, -150, -100, -1}, marks(1, -251, 2, -151, 3, -101)},
		{"least time", time.Hour, []int64{math.MinInt64 + 1}, marks(1, math.MinInt64+1)},
		{"greatest time", 0, []int64{math.MaxInt64}, marks(1, math.MaxInt64-1)},
	} {
		if got := drain(t, 100, memoryNode(c.delay, 0), times(c.in...)).Marks; !slices.Equal(got, c.want) {
			t.Errorf("%s: marks %v, want %v", c.name, got, c.want)
		}
	}
	var slow []int64
	for i := range 3000 {
		slow = append(slow, 1000+int64(i)/100) // never leaves the first quantum
	}
	got := drain(t, 100, memoryNode(0, time.Hour), times(slow...)).Marks
	if want := marks(1, 999, 1024, 1009, 2048, 1019); !slices.Equal(got, want) {
		t.Errorf("every 1,024 records: marks %v, want %v", got, want)
	}
}

// TestSameTimeIsNotLate: a record with the greatest time so far is never at or before the watermark,
// however batches are cut (C008).
func TestSameTimeIsNotLate(t *testing.T) {
	in := times(1000, 1000, 1000, 1999, 1999, 2500, 2500)
	for max := 1; max <= len(in); max++ {
		out := drain(t, max, memoryNode(0, 0), in)
		for i, r := range out.Records {
			for _, m := range out.Marks {
				if m.Records <= i && r.Time <= m.Watermark {
					t.Errorf("batches of %d: record %d at %d is late by the watermark %d", max, i, r.Time, m.Watermark)
				}
			}
		}
	}
}

// TestSplitsMergeByMinimum: a split without a record holds the watermark, a finished one drops out
// (C006, C009).
func TestSplitsMergeByMinimum(t *testing.T) {
	w := operators.NewWatermarks(nil)
	a, b := w.Add(checkpoint.SplitPosition{Split: "a"}), w.Add(checkpoint.SplitPosition{Split: "b"})
	w.Settle()
	step := func(what string, got int64, moved bool, want int64) {
		t.Helper()
		if want == 0 && moved || want != 0 && (!moved || got != want) {
			t.Errorf("%s: watermark %d (moved %v), want %d", what, got, moved, want)
		}
	}
	m, ok := w.Observe(a, 5000)
	step("b has not started", m, ok, 0)
	m, ok = w.Observe(b, 1000)
	step("b starts", m, ok, 999)
	m, ok = w.Observe(a, 9000)
	step("a runs ahead", m, ok, 0)
	m, ok = w.Finish(b)
	step("b ends", m, ok, 8999)
	m, ok = w.Finish(a)
	step("all have ended: the task adds the last one", m, ok, 0)
	if w.Current() != 8999 {
		t.Errorf("current %d", w.Current())
	}
}

// TestWatermarksRestore: cut anywhere and restored, the generator gives the marks it would have given.
func TestWatermarksRestore(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 20 {
		n := memoryNode(time.Duration(rnd.IntN(200))*time.Millisecond, time.Duration(1+rnd.IntN(300))*time.Millisecond)
		var splits [][]abi.Record
		for range 1 + rnd.IntN(3) {
			at := rnd.Int64N(1000) - 500
			var ts []int64
			for range rnd.IntN(3000) {
				at += rnd.Int64N(5)
				ts = append(ts, at-rnd.Int64N(100))
			}
			splits = append(splits, times(ts...))
		}
		want := drain(t, 256, n, splits...)
		var got operatortest.Collected
		var restored []checkpoint.OperatorSnapshot
		for end := false; !end; {
			ctx := operatortest.Context(t, "in", "")
			ctx.Restored = restored
			r := operatortest.OpenSource(t, memory.NewSource(n, splits...), ctx)
			// one record of each split per batch: splits are read in turns, and the turn is not in a snapshot
			for range 1 + rnd.IntN(400) {
				if err := r.Poll(len(splits)); err != nil {
					t.Fatal(err)
				}
				if end = r.Status == operators.PollEnd; end {
					break
				}
			}
			restored = []checkpoint.OperatorSnapshot{{Splits: r.Source.Positions()}}
			for _, m := range r.Out.Marks {
				got.Marks = append(got.Marks, operatortest.Mark{Records: m.Records + len(got.Records), Watermark: m.Watermark})
			}
			got.Records = append(got.Records, r.Out.Records...)
		}
		if len(splits) == 1 && !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, round %d: other marks or records after restores", seed, round)
		}
		for i, m := range got.Marks {
			if i > 0 && m.Watermark <= got.Marks[i-1].Watermark {
				t.Fatalf("seed %d, round %d: watermark went from %d to %d", seed, round, got.Marks[i-1].Watermark, m.Watermark)
			}
		}
		if len(got.Records) != len(want.Records) || len(got.Marks) > 0 && got.Marks[len(got.Marks)-1].Watermark != want.Marks[len(want.Marks)-1].Watermark {
			t.Fatalf("seed %d, round %d: %d records, want %d, or another last watermark", seed, round, len(got.Records), len(want.Records))
		}
	}
}

// TestWithoutTime: a source without event time gives no watermark.
func TestWithoutTime(t *testing.T) {
	n := memoryNode(0, 0)
	n.Source.Time = nil
	out := drain(t, 2, n, times(1, 2, 3, 4, 5))
	if len(out.Records) != 5 || len(out.Marks) != 0 {
		t.Errorf("%d records, marks %v", len(out.Records), out.Marks)
	}
}
