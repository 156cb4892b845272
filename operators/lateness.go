package operators

import (
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
)

// Lateness counts what of a source's records would come behind the watermark, split by split: each has the
// watermark of its own data. In a job the watermark is the least over all splits, so that no more are late.
// It goes by what the source put into batches; the source must keep every record.
type Lateness struct {
	time   *TimeSettings
	last   []func(ms int64) int64
	splits []*SplitLateness
	by     map[uint32]*SplitLateness
}

// SplitLateness is what was found in one split.
type SplitLateness struct {
	Index    uint32
	Records  int64
	Timeless int64 // without event time: never late
	Future   int64 // further ahead of the clock than max_future_skew: don't move the watermark
	Late     int64 // at or behind the watermark when they came
	Behind   int64 // behind the greatest time so far
	Furthest int64 // the most of those, ms: the out_of_orderness with which none is late
	// Closed counts, for each of the functions given, records that no window would take.
	Closed []int64
	wm     *Watermarks
}

// NewLateness makes one for a source with time settings t, nil if its records have none. Each of last
// tells until which watermark a record of a time is taken.
func NewLateness(t *TimeSettings, last []func(ms int64) int64) *Lateness {
	return &Lateness{time: t, last: last, by: map[uint32]*SplitLateness{}}
}

// Add counts the records of a batch that was read at nowMS.
func (l *Lateness) Add(b *abi.Batch, nowMS int64) {
	var s *SplitLateness
	for i := range b.Off {
		f := b.Frame(i)
		if split := f.Pos().Split; s == nil || s.Index != split {
			if s = l.split(split); l.time != nil {
				s.wm.SetNow(nowMS)
			}
		}
		l.record(s, f.Time())
	}
}

func (l *Lateness) split(index uint32) *SplitLateness {
	s := l.by[index]
	if s == nil {
		s = &SplitLateness{Index: index, Closed: make([]int64, len(l.last)), wm: NewWatermarks(l.time)}
		s.wm.Add(checkpoint.SplitPosition{Index: index})
		s.wm.Settle()
		l.by[index] = s
		l.splits = append(l.splits, s)
	}
	return s
}

func (l *Lateness) record(s *SplitLateness, ms int64) {
	s.Records++
	if ms == abi.NoTime || l.time == nil || l.time.Source != TimeFromField {
		s.Timeless++
		return
	}
	at := ms
	if ms > s.wm.horizon {
		s.Future++
		at = abi.NoTime
	} else if most := s.wm.splits[0].maxTime; ms < most {
		s.Behind++
		s.Furthest = max(s.Furthest, most-ms)
	}
	wm := s.wm.Current()
	if ms <= wm {
		s.Late++
		for i, last := range l.last {
			if last(ms) <= wm {
				s.Closed[i]++
			}
		}
	}
	s.wm.Observe(0, at)
}

// Splits is what was found, in the order in which splits were met.
func (l *Lateness) Splits() []*SplitLateness { return l.splits }

// Never is a last instant that no watermark reaches before the end of input.
const Never = int64(math.MaxInt64)
