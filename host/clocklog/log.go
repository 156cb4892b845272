// Package clocklog keeps what the clock did to a task between two snapshots, so that the stretch between them can be
// repeated: the processing time that operators saw, the timers it fired, splits that became idle, times that
// records got at their intake. Each event lies at a place that the data fixes. The log of an interval is kept with the
// snapshot that ends it; Between puts the logs of a stretch together again.
//
// What was logged is exact where the input of a task is in a fixed order: one input channel, or one split. The order
// in which several channels were read is not logged; Stretch.Limits says where that matters.
package clocklog

import (
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// MaxBytes bounds the log of a task since its last complete snapshot. What comes behind that is not logged.
const MaxBytes = 1 << 20

// Place is where an operator or source stands.
type Place struct {
	N         int64 // records that have come in, or were decoded, since it was opened
	Watermark int64 // last mark that came in; of a source 0
	MS        int64 // greatest processing time seen; of a source 0
}

// Log is the log of one task. It belongs to the task's goroutine. The zero Log is not usable; see New.
type Log struct {
	sections []*Section
	from     checkpoint.ID // of the barrier at which the current segment began
	pending  []*segment    // cut, but in no complete snapshot known yet
	used     int           // bytes of pending segments and of the current one
	limit    int
}

// New makes the log of a task that starts from a snapshot, 0: from nothing.
func New(from checkpoint.ID) *Log { return &Log{from: from, limit: MaxBytes} }

// Section is the log of one operator or source of the task. It implements operators.ClockNotes.
type Section struct {
	log      *Log
	operator string
	place    func() Place
	base     Place // where the segment began
	last     operators.ClockEvent
	seen     int64 // processing time last noted, valid if noted
	noted    bool
	cut      bool // the log was full
	data     []byte
}

// Section adds a section. place says where the operator stands; it is asked at once and at barriers.
func (l *Log) Section(operator string, place func() Place) *Section {
	s := &Section{log: l, operator: operator, place: place}
	s.begin()
	l.sections = append(l.sections, s)
	return s
}

// Drop removes a section: its operator does not look at the clock any more. At a barrier.
func (l *Log) Drop(s *Section) {
	for i, x := range l.sections {
		if x == s {
			l.sections = append(l.sections[:i], l.sections[i+1:]...)
			return
		}
	}
}

func (s *Section) begin() {
	s.base = s.place()
	s.last = operators.ClockEvent{Watermark: s.base.Watermark, MS: s.base.MS}
	s.noted, s.cut, s.data = false, false, nil
}

// Add notes an event; its N counts as Place does. Where the log is full it notes that.
func (s *Section) Add(e operators.ClockEvent) {
	if s.cut {
		return
	}
	if s.log.used >= s.log.limit {
		s.cut = true
		return
	}
	e.N -= s.base.N
	before := len(s.data)
	s.data = appendEvent(s.data, &s.last, e)
	s.log.used += len(s.data) - before
}

// Time notes that the operator sees a processing time, unless it is the one noted last.
func (s *Section) Time(n, watermark, ms int64) {
	if s.noted && s.seen == ms {
		return
	}
	s.noted, s.seen = true, ms
	s.Add(operators.ClockEvent{Kind: operators.ClockTime, N: n, Watermark: watermark, MS: ms})
}

// Fire notes that processing-time timers fired.
func (s *Section) Fire(n, watermark, ms int64) {
	s.noted, s.seen = true, ms
	s.Add(operators.ClockEvent{Kind: operators.ClockFire, N: n, Watermark: watermark, MS: ms})
}

// Cut ends a segment at the barrier of a snapshot and begins the next. It returns what has to be kept with that
// snapshot: everything since the last one known to be complete; nil: there is nothing to log.
func (l *Log) Cut(id checkpoint.ID) *Parts {
	if len(l.sections) == 0 && len(l.pending) == 0 {
		l.from = id
		return nil
	}
	g := &segment{from: l.from, to: id}
	for _, s := range l.sections {
		at := s.place()
		g.sections = append(g.sections, section{operator: s.operator, start: s.base, end: at.Watermark, records: at.N - s.base.N, cut: s.cut, data: s.data})
		s.begin()
	}
	l.from, l.pending = id, append(l.pending, g)
	p := &Parts{segments: make([]*segment, len(l.pending))}
	copy(p.segments, l.pending)
	return p
}

// Complete says that a snapshot is complete: what is kept with it is not needed here any more.
func (l *Log) Complete(id checkpoint.ID) {
	for len(l.pending) > 0 && l.pending[0].to <= id {
		l.pending = l.pending[1:]
	}
	l.used = 0
	for _, g := range l.pending {
		for i := range g.sections {
			l.used += len(g.sections[i].data)
		}
	}
	for _, s := range l.sections {
		l.used += len(s.data)
	}
}

// Parts are finished segments; by any goroutine.
type Parts struct{ segments []*segment }

// segment is a task's log from one barrier to the next.
type segment struct {
	from, to checkpoint.ID
	sections []section
}

// section is what a segment has of an operator or source.
type section struct {
	operator string
	start    Place // N is 0 once it is decoded
	end      int64 // watermark
	records  int64 // that came in, or were decoded
	cut      bool  // the log was full: data ends early
	data     []byte
}
