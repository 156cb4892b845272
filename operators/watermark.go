package operators

import (
	"math"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// DefaultQuantum is the step of event time at which a split's watermark moves on.
const DefaultQuantum = 100 * time.Millisecond

// DefaultFutureSkew is how far ahead of the clock a time may be to move the watermark.
const DefaultFutureSkew = 5 * time.Minute

// markEvery is the number of records of a split after which its watermark moves on at the latest.
const markEvery = 1024

// Watermarks is the watermark generator of one source in one task.
//
// Per split the watermark becomes (greatest event time) - delay - 1 at places that only the split's data
// fix: after a record that takes the greatest time into another quantum, and after every 1,024th
// record counted from the split's start. Batch boundaries and the machine's speed change nothing. The
// task's watermark is the minimum over its splits: one that gave no record yet holds it back, a
// finished one drops out, and so does an idle one, which is the one thing the clock decides. Where all
// are idle it is that of the foremost, as it would be had that one become idle last; a split that comes
// back behind the watermark does not move it, but holds it. The watermark of the end of input is the
// task's to add, not this type's.
type Watermarks struct {
	delay   int64
	quantum int64
	silent  bool // no marks
	byClock bool // the clock moves the watermark, not the data
	told    bool // a function does, see Punctuate
	splits  []splitMark
	current int64
	settled bool
	late    int64 // records at or behind the watermark when they came
	lag     int64 // how far the latest of them was behind its split's greatest time, ms; 0: idleness made them late

	now      int64
	idle     int64 // ms a split is quiet until it is idle; 0: never
	skew     int64 // ms; 0: none
	horizon  int64 // greatest time that is believed
	future   int64 // records beyond it
	ignored  int64 // watermarks that a function gave in vain
	nextEdge int64 // byClock: when the watermark moves next
}

type splitMark struct {
	ordinal  int64
	maxTime  int64
	nextEdge int64 // first ms of the quantum behind maxTime
	mark     int64
	ahead    uint64 // restored: how far the watermark was ahead of mark
	finished bool
	ended    bool // to be finished at the end of this poll
	odd      bool // idle, or not beyond the watermark since it was
	quiet    quiet
}

// NewWatermarks makes a generator without splits. t may be nil: delay 0.
func NewWatermarks(t *TimeSettings) *Watermarks {
	w := &Watermarks{quantum: DefaultQuantum.Milliseconds(), current: abi.MinWatermark, horizon: math.MaxInt64}
	if t == nil {
		return w
	}
	if q := t.Quantum.Milliseconds(); q > 0 {
		w.quantum = q
	}
	if t.Watermarks == WatermarksBounded {
		w.delay = t.OutOfOrderness.Milliseconds()
	}
	w.byClock = t.Source == TimeIngestion
	w.told = t.Watermarks == WatermarksPunctuated
	w.silent = w.byClock || t.Source == TimeProcessing || t.Watermarks == WatermarksNone
	w.nextEdge = abi.NoTime
	w.idle, w.skew = t.Idle.Milliseconds(), t.MaxFutureSkew.Milliseconds()
	return w
}

// Add registers a split that stands at p (zero but for the name: at its start) and returns its number
// here. Call Settle after the last one.
func (w *Watermarks) Add(p checkpoint.SplitPosition) int {
	s := splitMark{ordinal: p.Ordinal, maxTime: p.MaxTime, mark: p.Mark, ahead: p.Ahead, finished: p.Finished}
	if p.Ordinal == 0 && !p.Idle {
		s.maxTime, s.mark, s.ahead = abi.NoTime, abi.MinWatermark, 0
	}
	s.quiet = quiet{idle: p.Idle && w.idle > 0, looked: -1}
	s.odd = p.Idle || p.Ahead > 0
	s.nextEdge = w.edgeAfter(s.maxTime)
	w.splits = append(w.splits, s)
	return len(w.splits) - 1
}

// Settle computes the watermark over the splits added, as it was when their positions were taken.
func (w *Watermarks) Settle() {
	w.settled = true
	least, any := int64(math.MaxInt64), false
	for i := range w.splits {
		if s := &w.splits[i]; !s.finished {
			least, any = min(least, checkpoint.Advance(s.mark, s.ahead)), true
		}
	}
	if any {
		w.current = max(w.current, least)
	}
}

// Current is the task's watermark, abi.MinWatermark before the first.
func (w *Watermarks) Current() int64 { return w.current }

// Late is how many records came at or behind the watermark, and the delay, ms, with which none would have.
func (w *Watermarks) Late() (records, delayMS int64) { return w.late, w.lag }

// Observe counts a record of a split, with its event time (abi.NoTime: none, or none to go by). If the
// task's watermark moves behind this record, it returns the new one and true.
func (w *Watermarks) Observe(split int, ms int64) (int64, bool) {
	s := &w.splits[split]
	s.ordinal++
	if s.odd {
		w.returned(s, ms)
	}
	if ms > s.maxTime {
		s.maxTime = ms
	} else if ms <= w.current && ms != abi.NoTime {
		w.late++
		w.lag = max(w.lag, s.maxTime-ms)
	}
	if s.maxTime < s.nextEdge && s.ordinal%markEvery != 0 {
		return 0, false
	}
	if w.silent || w.told || s.maxTime == abi.NoTime {
		return 0, false
	}
	s.nextEdge = w.edgeAfter(s.maxTime)
	m := w.markOf(s.maxTime)
	if m <= s.mark {
		return 0, false
	}
	s.mark = m
	return w.advance()
}

// returned makes a split count again by its record: even its greatest time so far may be behind the
// watermark.
func (w *Watermarks) returned(s *splitMark, ms int64) {
	s.quiet.idle = false
	if ms > s.maxTime && ms <= w.current {
		w.late++
	}
	s.odd = max(ms, s.maxTime) <= w.current
}

// Finish takes a split out. If the task's watermark moves by that, it returns the new one and true;
// with the last split it does not move.
func (w *Watermarks) Finish(split int) (int64, bool) {
	w.splits[split].finished = true
	return w.advance()
}

// Put writes what the generator knows of a split into its position.
func (w *Watermarks) Put(split int, p *checkpoint.SplitPosition) {
	s := &w.splits[split]
	if w.byClock {
		s.mark = w.current
	}
	p.Ordinal, p.MaxTime, p.Mark, p.Finished, p.Idle = s.ordinal, s.maxTime, s.mark, s.finished, s.quiet.idle
	if p.Ahead = 0; w.current > s.mark {
		p.Ahead = checkpoint.Ahead(w.current, s.mark)
	}
}

func (w *Watermarks) advance() (int64, bool) {
	if w.silent {
		return 0, false
	}
	m := w.min()
	if m <= w.current {
		return 0, false
	}
	w.current = m
	return m, true
}

func (w *Watermarks) min() int64 {
	least, foremost, any := int64(math.MaxInt64), w.current, false
	for i := range w.splits {
		switch s := &w.splits[i]; {
		case s.finished:
		case s.quiet.idle:
			foremost = max(foremost, s.mark)
		default:
			least, any = min(least, s.mark), true
		}
	}
	if !any {
		return foremost
	}
	return least
}

// markOf is maxTime - delay - 1, held above abi.MinWatermark where it would overflow.
func (w *Watermarks) markOf(maxTime int64) int64 {
	if maxTime < abi.MinWatermark+w.delay+2 {
		return abi.MinWatermark + 1
	}
	return maxTime - w.delay - 1
}

// edgeAfter is the start of the quantum after the one that holds ms.
func (w *Watermarks) edgeAfter(ms int64) int64 {
	if ms == abi.NoTime {
		return abi.NoTime
	}
	q := ms / w.quantum
	if ms%w.quantum < 0 {
		q--
	}
	if q >= math.MaxInt64/w.quantum {
		return math.MaxInt64
	}
	return (q + 1) * w.quantum
}
