package clocklog

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// ErrMissing: there is no log where one is needed.
var ErrMissing = errors.New("there is no log of the clock")

// Reader is the log of one task over a stretch. A task gets a new one at each start. Restarts within the stretch are
// repeated as what the clock did at them; one across which the clock was set back leaves other stamps in states with a TTL by
// the clock, since operators forget then how far it was.
type Reader struct {
	task     checkpoint.TaskID
	stretch  string // for people
	segments []*segment
	known    bool // the task has logs, though perhaps none of the stretch
	channels int
	hold     bool
}

// Hold makes the clock stand still behind the end of the log: without it the task goes on by its own clock there,
// so that what is due by now fires at once.
func (r *Reader) Hold() *Reader {
	r.hold = true
	return r
}

// InOrder says that the task has one input channel at most, so that places in the log are exact.
func (r *Reader) InOrder() bool { return r.channels <= 1 }

// Base is a processing time of the beginning, for what starts there and for operators to which the clock
// does not matter; 0 if the log knows none.
func (r *Reader) Base() int64 {
	base := int64(0)
	for _, g := range r.segments[:min(1, len(r.segments))] {
		for i := range g.sections {
			base = max(base, g.sections[i].start.MS)
		}
	}
	return base
}

// Script is what the log has of an operator or source. Errors: ErrMissing.
func (r *Reader) Script(operator string) (*Script, error) {
	s := &Script{start: Place{Watermark: abi.MinWatermark}, hold: r.hold}
	for i, g := range r.segments {
		x := g.section(operator)
		if x == nil {
			if i == 0 {
				break
			}
			return s, nil // code without interest in the clock took over: not repeatable from here
		}
		if i == 0 {
			s.start = x.start
			s.start.N, s.least = 0, x.start.Watermark
		}
		s.parts = append(s.parts, x)
		if x.cut {
			break
		}
	}
	if len(s.parts) == 0 && !(r.known && len(r.segments) == 0) {
		return nil, fmt.Errorf("%w of operator %s, task %d, from %s: the snapshots were made by a build, or by code, that kept none",
			ErrMissing, operator, r.task.Task, r.stretch)
	}
	s.read()
	return s, nil
}

func (g *segment) section(operator string) *section {
	for i := range g.sections {
		if g.sections[i].operator == operator {
			return &g.sections[i]
		}
	}
	return nil
}

// Script is what the clock did to one operator, event by event, over all segments of the stretch. It implements
// operators.ClockScript.
type Script struct {
	start Place
	parts []*section
	at    int
	rest  input
	last  operators.ClockEvent
	base  int64 // records of the parts before
	least int64 // watermark at their end: a restart has forgotten it, and has it back only with the next mark
	next  operators.ClockEvent
	ok    bool
	total int64 // records of the parts done; of all once there is no event left
	open  bool  // rest is of parts[at]
	hold  bool
}

// Start is where the operator stood at the beginning: its watermark and the greatest processing time it had seen.
func (s *Script) Start() Place { return s.start }

// read finds the next event. decode has checked them all.
func (s *Script) read() {
	for s.ok = false; s.at < len(s.parts); s.at, s.open = s.at+1, false {
		p := s.parts[s.at]
		if !s.open {
			s.open, s.base = true, s.total
			s.rest = input{b: p.data}
			s.last = operators.ClockEvent{Watermark: p.start.Watermark, MS: p.start.MS}
		}
		if len(s.rest.b) > 0 {
			s.next, s.ok = s.rest.event(&s.last), true
			s.next.N += s.base
			s.next.Watermark = max(s.next.Watermark, s.least)
			return
		}
		if p.cut {
			s.total += s.last.N
		} else {
			s.total += p.records
		}
		s.least = max(s.least, p.end)
	}
}

// Next implements operators.ClockScript.
func (s *Script) Next() (operators.ClockEvent, bool) { return s.next, s.ok }

// Pop implements operators.ClockScript.
func (s *Script) Pop() { s.read() }

// Over implements operators.ClockScript.
func (s *Script) Over(n int64) bool { return !s.ok && !s.hold && n >= s.total }
