package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/clocklog"
	"github.com/millrace-io/millrace/operators"
)

// ErrOtherInput: what is repeated is not what was logged.
var ErrOtherInput = errors.New("the input is not the one that was logged")

// inlineClock is how long a log of the clock may be to be part of the manifest, bytes.
const inlineClock = 4 << 10

// stageClock is what an operator gets for a clock: the time that was noted for its batch, or that is repeated.
type stageClock struct {
	wall  clock.Clock
	user  operators.ClockUser
	held  atomic.Bool // NowMS is ms
	ms    atomic.Int64
	place clocklog.Place
	notes *clocklog.Section // nil: the operator does not look at the clock
	// With a script, place also counts from its beginning.
	script *clocklog.Script // nil: the clock decides
	strict bool             // the script has to fit
	part   abi.Batch
}

// NowMS implements operators.Clock; from any goroutine.
func (c *stageClock) NowMS() int64 {
	if c.held.Load() {
		return c.ms.Load()
	}
	return c.wall.NowMS()
}

// see makes ms what the operator sees.
func (c *stageClock) see(ms int64) {
	c.ms.Store(ms)
	c.place.MS = max(c.place.MS, ms)
}

// clockStages gives the operators to which the clock matters one of their own.
func (t *Task) clockStages() {
	for _, s := range t.cfg.Stages {
		if s.ClockUser == nil || s.Context == nil {
			continue
		}
		s.clock = &stageClock{wall: t.cfg.Clock, user: s.ClockUser, place: clocklog.Place{Watermark: abi.MinWatermark}}
		s.Context.Clock = s.clock
		if r := t.cfg.Repeat; r != nil {
			s.clock.held.Store(true)
			s.clock.see(r.Base())
		}
	}
}

// openClock begins the log, and what is to be repeated. Operators and source are not open yet.
func (t *Task) openClock() error {
	for _, s := range t.cfg.Stages {
		c := s.clock
		if c == nil {
			continue
		}
		if r := t.cfg.Repeat; r != nil && c.user.UsesClock() {
			script, err := r.Script(s.Node.ID)
			if err != nil {
				return err
			}
			c.script, c.strict = script, r.InOrder()
			c.place.Watermark = script.Start().Watermark
			c.see(script.Start().MS)
		}
		t.logStage(s)
	}
	return nil
}

// openSourceClock is openClock for an open source.
func (t *Task) openSourceClock() error {
	if t.intake == nil || !t.intake.UsesClock() {
		return nil
	}
	id := t.cfg.Stages[0].Node.ID
	t.sourceNotes = t.clocks.Section(id, func() clocklog.Place { return clocklog.Place{N: t.intake.Decodings()} })
	var script operators.ClockScript
	if r := t.cfg.Repeat; r != nil {
		x, err := r.Script(id)
		if err != nil {
			return err
		}
		script = x
	}
	t.intake.Clocked(t.sourceNotes, script)
	return nil
}

// logStage begins or ends the section of an operator, whose code may have changed.
func (t *Task) logStage(s *Stage) {
	c := s.clock
	uses := c.user.UsesClock()
	switch {
	case uses && c.notes == nil:
		if c.script == nil {
			c.see(c.wall.NowMS())
		}
		c.notes = t.clocks.Section(s.Node.ID, func() clocklog.Place { return c.place })
		c.held.Store(true)
	case !uses && c.notes != nil:
		t.clocks.Drop(c.notes)
		c.notes = nil
		c.held.Store(t.cfg.Repeat != nil)
	}
}

// startClock tells operators the time though nothing may be due: they began with it, which a repetition that goes
// on through this restart has to tell them here.
func (t *Task) startClock() error {
	if t.cfg.Restored == 0 {
		return nil
	}
	for _, s := range t.timers {
		if s.stage.clock == nil || s.stage.clock.notes == nil || s.stage.repeats() {
			continue
		}
		now := t.cfg.Clock.NowMS()
		s.stage.fired(now)
		if err := s.op.OnProcessingTime(now, s.stage); err != nil {
			return err
		}
	}
	return nil
}

// cutClock ends a segment of the log at a barrier.
func (t *Task) cutClock(id checkpoint.ID) *clocklog.Parts {
	p := t.clocks.Cut(id)
	if t.intake != nil {
		t.intake.CutClock()
	}
	return p
}

// swapped looks whether the operators' code has another interest in the clock now.
func (t *Task) swapped() {
	for _, s := range t.cfg.Stages {
		if s.clock != nil {
			t.logStage(s)
		}
	}
}

// keepClock makes the log part of a cut.
func (c *cut) keepClock() error {
	b := c.clock.Encode()
	if len(b) <= inlineClock || c.keep == nil {
		c.snap.Clock = &checkpoint.ClockLog{Data: b, Size: int64(len(b))}
		return nil
	}
	digest, size, err := c.keep(context.Background(), b)
	if err != nil {
		return fmt.Errorf("log of the clock: %w", err)
	}
	c.snap.Clock = &checkpoint.ClockLog{Object: digest, Size: size}
	return nil
}

// repeats says that a log decides what the clock does to the stage.
func (s *Stage) repeats() bool {
	c := s.clock
	if c == nil || c.script == nil {
		return false
	}
	if c.script.Over(c.place.N) {
		c.script = nil
		return false
	}
	return true
}

// clocked is batch for an operator that looks at the clock.
func (s *Stage) clocked(input int, b *abi.Batch) error {
	if s.repeats() {
		return s.repeat(input, b)
	}
	c := s.clock
	now := c.wall.NowMS()
	c.see(now)
	c.notes.Time(c.place.N, c.place.Watermark, now)
	return s.do(input, b)
}

// do runs the operator over a batch and counts what came in.
func (s *Stage) do(input int, b *abi.Batch) error {
	p := &s.clock.place
	n, w := b.Len(), p.Watermark
	if k := len(b.Marks); k > 0 {
		w = max(w, b.Marks[k-1].Watermark)
	}
	err := s.Op.Batch(input, b, s)
	p.N, p.Watermark = p.N+int64(n), w
	return err
}

// fired notes that the operator's timers are about to fire.
func (s *Stage) fired(now int64) {
	if c := s.clock; c != nil && c.notes != nil {
		c.see(now)
		c.notes.Fire(c.place.N, c.place.Watermark, now)
	}
}

// repeat cuts a batch where the log has an event, and does it there.
func (s *Stage) repeat(input int, b *abi.Batch) error {
	c := s.clock
	rec, mark := 0, 0
	for {
		if err := s.due(); err != nil {
			return err
		}
		e, ok := c.script.Next()
		to, until := rec, mark
		for to < b.Len() || until < len(b.Marks) {
			here := ok && c.place.N+int64(to-rec) == e.N
			if until < len(b.Marks) && int(b.Marks[until].Index) <= to {
				if here && b.Marks[until].Watermark > e.Watermark {
					break
				}
				until++
				continue
			}
			if here || to == b.Len() {
				break
			}
			to++
		}
		last := to == b.Len() && until == len(b.Marks)
		part := s.cutPart(b, rec, to, mark, until)
		if !last && until < len(b.Marks) && int(b.Marks[until].Index) <= to && c.place.Watermark < e.Watermark {
			part.Mark(e.Watermark) // it is among what the next mark says
		}
		if !part.Empty() {
			if err := s.do(input, part); err != nil {
				return err
			}
		}
		if !last && c.place.Watermark < e.Watermark {
			if c.strict {
				return fmt.Errorf("operator %s, record %d of the stretch: the watermark is %d, the log of the clock has %d here: %w",
					s.Node.ID, e.N, c.place.Watermark, e.Watermark, ErrOtherInput)
			}
			c.place.Watermark = e.Watermark // the channels come in another order: the event does not wait
		}
		if rec, mark = to, until; last {
			return s.due()
		}
	}
}

// cutPart copies records [lo, hi) and marks [from, to) of a batch.
func (s *Stage) cutPart(b *abi.Batch, lo, hi, from, to int) *abi.Batch {
	p := &s.clock.part
	p.Reset()
	for i := lo; i < hi; i++ {
		p.AppendFrame(b.Frame(i))
		if len(b.Hash) == b.Len() && len(b.Hash) > 0 {
			p.Hash = append(p.Hash, b.Hash[i])
		}
	}
	for _, m := range b.Marks[from:to] {
		p.Marks = append(p.Marks, abi.Mark{Index: uint32(max(int(m.Index), lo) - lo), Watermark: m.Watermark})
	}
	return p
}

// due does what the log has at the place where the stage is.
func (s *Stage) due() error {
	c := s.clock
	for {
		e, ok := c.script.Next()
		if !ok || e.N > c.place.N || e.N == c.place.N && e.Watermark > c.place.Watermark {
			return nil
		}
		c.script.Pop()
		c.see(e.MS)
		switch e.Kind {
		case operators.ClockTime:
			c.notes.Time(c.place.N, c.place.Watermark, e.MS)
		case operators.ClockFire:
			op, ok := s.Op.(operators.ProcessingTimer)
			if !ok {
				return fmt.Errorf("operator %s: the log of the clock fires timers that it does not have: %w", s.Node.ID, ErrOtherInput)
			}
			c.notes.Fire(c.place.N, c.place.Watermark, e.MS)
			if err := op.OnProcessingTime(e.MS, s); err != nil {
				return err
			}
		default:
			return fmt.Errorf("operator %s: the log of the clock has a %s: %w", s.Node.ID, e.Kind, ErrOtherInput)
		}
	}
}

// repeatTimers does what the log has before anything further comes in.
func (t *Task) repeatTimers() error {
	for _, s := range t.cfg.Stages {
		if s.repeats() {
			if err := s.due(); err != nil {
				return err
			}
		}
	}
	return nil
}
