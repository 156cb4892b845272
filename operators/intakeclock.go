package operators

import (
	"fmt"
	"math"
	"slices"

	"github.com/millrace-io/millrace/abi"
)

// intakeClock is what an intake notes of the clock, and what it repeats instead of looking at it.
type intakeClock struct {
	notes   ClockNotes  // nil: nobody wants to know
	script  ClockScript // nil: the clock decides
	stamped int64       // last stamp noted; abi.NoTime: none since the last cut
	held    []ClockEvent
	beyond  bool // what the watermark function will say of the record at hand is too far ahead, by the script
}

// UsesClock says that the clock matters to the records or watermarks of the source.
func (in *Intake) UsesClock() bool {
	return in.timed && (in.wm.byClock || in.wm.idle > 0 || in.wm.skew > 0)
}

// Clocked makes the intake tell notes what the clock does, and, where script is not nil, do what that says until
// it is over instead. Either may be nil. Between Open and the first poll.
func (in *Intake) Clocked(notes ClockNotes, script ClockScript) {
	if !in.UsesClock() {
		return
	}
	in.clock = &intakeClock{notes: notes, script: script, stamped: abi.NoTime}
	if script != nil {
		in.wm.horizon = math.MaxInt64
	}
}

// Decodings is how many records were decoded since Open, whatever became of them: the places of clock events. It is
// counted with Clocked only.
func (in *Intake) Decodings() int64 { return in.decoded }

// CutClock begins a new log: what it needs to know is noted again.
func (in *Intake) CutClock() {
	if in.clock != nil {
		in.clock.stamped = abi.NoTime
	}
}

// Repeating says that the intake does not go by the clock at present.
func (in *Intake) Repeating() bool {
	c := in.clock
	if c == nil || c.script == nil {
		return false
	}
	if !c.script.Over(in.decoded) {
		return true
	}
	c.script = nil
	return false
}

// Most is how many records a poll may take, at most batch: a split that became idle does so at the end of a
// poll, so that the tasks behind hear of it there.
func (in *Intake) Most(batch int) int {
	if !in.Repeating() {
		return batch
	}
	if e, ok := in.clock.script.Next(); ok {
		return int(min(max(1, e.N-in.decoded), int64(batch)))
	}
	return batch
}

// look takes the time at the start of a poll.
func (in *Intake) look() {
	if in.Repeating() {
		return
	}
	in.wm.SetNow(in.ctx.Clock.NowMS())
	if in.restamp {
		in.stamp = in.wm.Stamp()
	}
}

// nowMS is what a watermark function gets as processing time.
func (in *Intake) nowMS() int64 {
	if in.Repeating() {
		return in.wm.now
	}
	return in.ctx.Clock.NowMS()
}

// tick lets the clock move the watermark at the end of a poll.
func (in *Intake) tick(b *abi.Batch) error {
	if in.Repeating() {
		return in.repeat(b)
	}
	if w, ok := in.wm.Tick(); ok {
		in.note(ClockEvent{Kind: ClockMark, N: in.decoded, MS: w})
		b.Mark(w)
	}
	return nil
}

func (in *Intake) note(e ClockEvent) {
	if c := in.clock; c != nil && c.notes != nil {
		c.notes.Add(e)
	}
}

// begun is called before a record is taken. One that is from the future by the script finds a horizon that it is beyond.
func (in *Intake) begun(b *abi.Batch) error {
	c := in.clock
	if c.script != nil && in.Repeating() {
		if err := in.repeat(b); err != nil {
			return err
		}
		in.wm.horizon, c.beyond = math.MaxInt64, false
		if e, ok := c.script.Next(); ok && e.Kind == ClockFuture && e.N == in.decoded {
			in.wm.horizon, in.wm.now = math.MinInt64, e.MS
			c.script.Pop()
		}
		if e, ok := c.script.Next(); ok && e.Kind == ClockBeyond && e.N == in.decoded {
			c.beyond = true
			c.script.Pop()
		}
	}
	if c.notes != nil && in.restamp && in.stamp != c.stamped && in.stamp != abi.NoTime {
		c.stamped = in.stamp
		c.notes.Add(ClockEvent{Kind: ClockStamp, N: in.decoded, MS: in.stamp})
	}
	in.decoded++
	return nil
}

// ahead notes that the record at hand is too far ahead of the clock to go by.
func (in *Intake) ahead() {
	if in.clock != nil {
		if in.clock.script != nil {
			in.wm.horizon = math.MaxInt64 // it was this record's
		}
		in.hold(ClockEvent{Kind: ClockFuture, N: in.decoded - 1, MS: in.wm.now})
	}
}

// told takes what a watermark function said behind a record.
func (in *Intake) told(e passed, ms int64) (mark int64, moved bool) {
	if in.clock != nil && (e.beyond || ms > in.wm.horizon) {
		in.hold(ClockEvent{Kind: ClockBeyond, N: e.n})
	}
	if e.beyond {
		in.wm.ignored++
		return 0, false
	}
	return in.wm.Punctuate(e.split, ms)
}

// passed is an event of a record that was just decoded.
func (in *Intake) passed(split, record int, time int64) passed {
	e := passed{what: passedRecord, split: split, record: record, time: time, n: in.decoded - 1}
	if in.clock != nil {
		e.beyond, in.clock.beyond = in.clock.beyond, false
	}
	return e
}

// hold notes an event in order: where a function says the watermark, records are judged at the end of the poll.
func (in *Intake) hold(e ClockEvent) {
	switch c := in.clock; {
	case c == nil || c.notes == nil:
	case in.punct != nil:
		c.held = append(c.held, e)
	default:
		c.notes.Add(e)
	}
}

// release hands on what was held.
func (in *Intake) release() {
	c := in.clock
	if c == nil || len(c.held) == 0 {
		return
	}
	slices.SortStableFunc(c.held, func(a, b ClockEvent) int { return int(a.N - b.N) })
	for _, e := range c.held {
		c.notes.Add(e)
	}
	c.held = c.held[:0]
}

// repeat does what the clock did here.
func (in *Intake) repeat(b *abi.Batch) error {
	for {
		e, ok := in.clock.script.Next()
		if !ok || e.N > in.decoded || e.Kind == ClockFuture || e.Kind == ClockBeyond {
			return nil
		}
		in.clock.script.Pop()
		switch e.Kind {
		case ClockStamp:
			in.stamp = e.MS
		case ClockMark:
			in.wm.Jump(e.MS)
			in.note(e)
			b.Mark(e.MS)
		case ClockIdle:
			split := slices.Index(in.numbers, e.Split)
			if split < 0 {
				return fmt.Errorf("the log of the clock says that split %d became idle, which this task of source %s does not have", e.Split, in.node.ID)
			}
			in.becameIdle(b, split)
		default:
			return fmt.Errorf("the log of the clock has a %s in source %s", e.Kind, in.node.ID)
		}
	}
}

// becameIdle makes a split idle because it was.
func (in *Intake) becameIdle(b *abi.Batch, split int) {
	if in.punct != nil {
		in.punct.events = append(in.punct.events, passed{what: passedIdle, split: split, record: -1, n: in.decoded})
		return
	}
	if w, moved := in.silence(split, in.decoded); moved && in.timed {
		b.Mark(w)
	}
}

// silence is becameIdle in order of the records.
func (in *Intake) silence(split int, n int64) (mark int64, moved bool) {
	mark, moved = in.wm.Silence(split)
	in.hold(ClockEvent{Kind: ClockIdle, N: n, Split: in.numbers[split]})
	return mark, moved
}
