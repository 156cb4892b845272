package operators

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/abi"
)

func timesOf(split uint32, times ...int64) *abi.Batch {
	b := &abi.Batch{}
	for i, ms := range times {
		b.Append(&abi.Record{Time: ms, Value: []byte("x"), Pos: abi.Position{Split: split, Offset: uint64(i)}})
	}
	return b
}

func TestLatenessOfEachSplit(t *testing.T) {
	ts := &TimeSettings{OutOfOrderness: 100 * time.Millisecond, Quantum: 100 * time.Millisecond, MaxFutureSkew: time.Second}
	closes := func(ms int64) int64 { return ms/1000*1000 + 999 }
	l := NewLateness(ts, []func(int64) int64{closes, func(int64) int64 { return Never }})
	// 2000 takes the watermark to 1899: 1900 comes in time, 1899 late, in an open window and not.
	l.Add(timesOf(7, 1000, 2000, 1900, 1899, abi.NoTime, 900, 2000), 10_000)
	// A split has the watermark of its own data, and a time of the future does not move it.
	l.Add(timesOf(3, 500, 11_001, 400), 10_000)
	want := []SplitLateness{
		{Index: 7, Records: 7, Timeless: 1, Late: 2, Behind: 3, Furthest: 1100, Closed: []int64{1, 0}},
		{Index: 3, Records: 3, Future: 1, Behind: 1, Furthest: 100, Closed: []int64{0, 0}},
	}
	for i, s := range l.Splits() {
		w := want[i]
		if s.Index != w.Index || s.Records != w.Records || s.Timeless != w.Timeless || s.Future != w.Future || s.Late != w.Late ||
			s.Behind != w.Behind || s.Furthest != w.Furthest || s.Closed[0] != w.Closed[0] || s.Closed[1] != w.Closed[1] {
			t.Errorf("split %d: %+v, want %+v", i, *s, w)
		}
	}
}

func TestNothingIsLateWithoutEventTime(t *testing.T) {
	for _, ts := range []*TimeSettings{nil, {Source: TimeIngestion}, {Source: TimeProcessing}} {
		l := NewLateness(ts, nil)
		l.Add(timesOf(0, 5000, 0), 0)
		if s := l.Splits()[0]; s.Records != 2 || s.Timeless != 2 || s.Late != 0 {
			t.Errorf("%+v: %+v", ts, *s)
		}
	}
	l := NewLateness(&TimeSettings{Watermarks: WatermarksNone}, nil)
	l.Add(timesOf(0, 5000, 0), 0)
	if s := l.Splits()[0]; s.Late != 0 || s.Furthest != 5000 {
		t.Errorf("watermarks none: %+v", *s)
	}
}
