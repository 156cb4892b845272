package window

import (
	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// after is the first multiple of a step behind t.
func after(t, step int64) int64 {
	return add(sub(t, floorMod(t, step)), step)
}

// afterZero is the same, but for times before 1970 that are no multiple the one after that: Flink's continuous
// triggers round towards zero.
func afterZero(t, step int64) int64 { return add(t-t%step, step) }

func (o *Op) flags(off int) uint32        { return le.Uint32(o.blk[off+o.l.state:]) }
func (o *Op) setFlags(off int, f uint32)  { le.PutUint32(o.blk[off+o.l.state:], f) }
func (o *Op) at(off, field int) int64     { return word(o.blk, off+field) }
func (o *Op) set(off, field int, v int64) { setWord(o.blk, off+field, v) }

// onRecord tells the trigger of the window at off of a record at time t, and says whether it fires.
func (o *Op) onRecord(off int, sp span, t int64) (fire bool) {
	l, tr := o.l, &o.trig
	f := (o.flags(off) | flagChanged) &^ flagDisarmed
	over := o.event && sp.last() <= o.wm
	if tr.AtEnd {
		switch {
		case !over:
			f &^= flagEndDone
			o.wake(sp.last())
		case tr.LateEvery > 0:
			f |= flagEndDone
			if o.at(off, l.late) == never {
				o.set(off, l.late, after(o.wm, tr.LateEvery))
			}
			o.wake(o.at(off, l.late))
		default:
			f |= flagEndDone
			fire = true
		}
	}
	if tr.EndOfStream {
		o.wake(atEnd)
	}
	if o.event {
		o.wake(o.cleanup(sp))
	}
	if tr.Count > 0 {
		n := o.at(off, l.count) + 1
		if n >= tr.Count {
			n, fire = 0, true
		}
		o.set(off, l.count, n)
	}
	if tr.Every > 0 && !over && o.at(off, l.every) == never {
		if tr.IfChanged {
			o.setEvery(off, sp, after(max(t, o.wm), tr.Every))
		} else {
			o.setEvery(off, sp, afterZero(t, tr.Every))
		}
	}
	if tr.EveryClock > 0 && o.at(off, l.clocks) == never {
		o.setClock(off, sp, after(o.now, tr.EveryClock))
	}
	if tr.Timeout > 0 {
		o.startTimeout(off, fire)
	}
	o.setFlags(off, f)
	return fire
}

// wake notes an event timer that the key needs.
func (o *Op) wake(at int64) { o.soon = min(o.soon, at) }

// setEvery sets the next firing by Every, at the window's last instant at the latest: there the window fires
// anyway, but a session may grow on.
func (o *Op) setEvery(off int, sp span, next int64) {
	next = min(next, sp.last())
	o.set(off, o.l.every, next)
	o.wake(next)
}

// setClock sets the next firing by EveryClock. By the clock's own windows it is as with setEvery, but a trigger
// that only tells what changed keeps to multiples.
func (o *Op) setClock(off int, sp span, next int64) {
	if !o.event && next >= sp.last() {
		if next = sp.last(); o.trig.IfChanged {
			next = never
		}
	}
	o.set(off, o.l.clocks, next)
}

// clockAtEnd says that EveryClock's next firing is the end's.
func (o *Op) clockAtEnd(off int, sp span) bool { return !o.event && o.at(off, o.l.clocks) == sp.last() }

// startTimeout begins to wait, unless the record fires the window, which ends waiting.
func (o *Op) startTimeout(off int, fire bool) {
	if fire {
		o.disarm(off)
		return
	}
	if at := o.at(off, o.l.timeout); at == never || o.trig.TimeoutReset {
		o.set(off, o.l.timeout, add(o.now, o.trig.Timeout))
	}
}

// disarm clears what the trigger remembers of the window at off, its end excepted.
func (o *Op) disarm(off int) {
	l := o.l
	o.set(off, l.timeout, never)
	if l.count > 0 {
		o.set(off, l.count, 0)
	}
	if l.every > 0 {
		o.set(off, l.every, never)
	}
	if l.clocks > 0 {
		o.set(off, l.clocks, never)
	}
}

// timedOut is a time-out that clears the trigger. Without Every, or where its next firing is the end's, the end
// is taken back with it, until the next record; without lateness the window then goes in silence. Flink does so.
func (o *Op) timedOut(off int, sp span) {
	end := o.trig.AtEnd && (o.trig.Every == 0 || o.at(off, o.l.every) == sp.last())
	o.disarm(off)
	if end {
		o.setFlags(off, o.flags(off)|flagEndDone|flagDisarmed)
	}
}

// nextDue is the earliest event and clock times at which the block wants to be looked at.
func (o *Op) nextDue() (event, clock int64) {
	own := never
	switch {
	case o.byEnd:
		own = o.dueByEnd()
	case o.shape == sliced:
		if e, ok := o.asg.nextEnd(word(o.blk, o.l.header), o.ref); ok {
			own = o.asg.at(e) - 1
		}
	case o.l.state == 0: // the ends are in order
		own = o.spanAt(o.l.header).last()
	default:
		event, clock = never, never
		for off := o.l.header; off < len(o.blk); off += o.l.size(o.blk[off:]) {
			e, c := o.windowDue(off)
			event, clock = min(event, e), min(clock, c)
		}
		return event, clock
	}
	if o.event {
		return own, never
	}
	return never, own
}

// windowDue is nextDue of one window.
func (o *Op) windowDue(off int) (event, clock int64) {
	l, tr := o.l, &o.trig
	sp := o.spanAt(off)
	own := o.cleanup(sp)
	if tr.AtEnd && o.flags(off)&flagEndDone == 0 && !o.endless {
		own = min(own, sp.last())
	}
	event, clock = own, never
	if !o.event {
		event, clock = never, own
	}
	if tr.EndOfStream && o.flags(off)&flagStreamDone == 0 {
		event = min(event, atEnd)
	}
	if l.every > 0 && o.at(off, l.every) < sp.last() {
		event = min(event, o.at(off, l.every))
	}
	if l.late > 0 {
		event = min(event, o.at(off, l.late))
	}
	if l.clocks > 0 && !o.clockAtEnd(off, sp) {
		clock = min(clock, o.at(off, l.clocks))
	}
	if l.timeout > 0 && o.at(off, l.timeout) != spent {
		clock = min(clock, o.at(off, l.timeout))
	}
	return event, clock
}

// fireWindow handles the timers of one window at an instant: its trigger, then its cleanup.
func (o *Op) fireWindow(d state.Domain, k state.Key, off int, at int64) (gone bool, err error) {
	sp := o.spanAt(off)
	own := o.event == (d == abi.DomainEvent)
	if o.l.state == 0 {
		if !own || sp.last() > at {
			return false, nil
		}
		if err := o.fireAt(k, off, sp); err != nil {
			return false, err
		}
		return true, o.drop(k, off)
	}
	fire, any := false, false
	if own && o.trig.AtEnd && o.flags(off)&flagEndDone == 0 && !o.endless && sp.last() <= at {
		o.setFlags(off, o.flags(off)|flagEndDone)
		fire, any = true, true
	}
	var f, a bool
	if d == abi.DomainEvent {
		f, a = o.onEvent(off, sp, at)
	} else {
		f, a = o.onClock(off, sp, at)
	}
	fire, any = fire || f, any || a
	over := own && o.cleanup(sp) <= at
	if over && o.l.late > 0 && o.at(off, o.l.late) != never { // late records that waited
		fire = true
	}
	if o.trig.Timeout > 0 && (any || over) { // a trigger with a time-out takes every timer for one
		fire = !over || o.w.Lateness > 0 || o.flags(off)&flagDisarmed == 0
		if o.trig.TimeoutClear {
			o.timedOut(off, sp)
		}
	}
	if fire {
		if err := o.fireAt(k, off, sp); err != nil {
			return false, err
		}
	}
	if over {
		return true, o.drop(k, off)
	}
	return false, nil
}

// onEvent handles the event timers of a window besides its end's.
func (o *Op) onEvent(off int, sp span, at int64) (fire, any bool) {
	l, tr := o.l, &o.trig
	if tr.EndOfStream && at >= atEnd {
		o.setFlags(off, o.flags(off)|flagStreamDone)
		fire, any = true, true
	}
	if l.late > 0 && o.at(off, l.late) <= at {
		o.set(off, l.late, never)
		fire, any = true, true
	}
	if l.every > 0 && o.at(off, l.every) <= at && o.at(off, l.every) < sp.last() {
		any = true
		changed := o.flags(off)&flagChanged != 0
		fire = fire || changed || !tr.IfChanged
		o.set(off, l.every, never)
		// without end and at the final watermark there is no last multiple
		if !tr.IfChanged && !(o.endless && o.wm == abi.MaxWatermark) {
			o.setEvery(off, sp, add(at, tr.Every))
			if o.at(off, l.every) == sp.last() { // of a session that grew after it had fired: its new end is to come
				o.setFlags(off, o.flags(off)&^flagEndDone)
			}
		}
	}
	return fire, any
}

// onClock handles the clock's timers of a window besides its end's.
func (o *Op) onClock(off int, sp span, at int64) (fire, any bool) {
	l, tr := o.l, &o.trig
	if l.clocks > 0 && o.at(off, l.clocks) <= at && !o.clockAtEnd(off, sp) {
		any = true
		fire = o.flags(off)&flagChanged != 0 || !tr.IfChanged
		o.set(off, l.clocks, never)
		if !tr.IfChanged {
			o.setClock(off, sp, add(at, tr.EveryClock))
		}
	}
	if l.timeout > 0 && o.at(off, l.timeout) <= at && o.at(off, l.timeout) != spent {
		any = true
		o.set(off, l.timeout, spent)
	}
	return fire, any
}

// drop removes the window at off with its contents.
func (o *Op) drop(k state.Key, off int) error {
	if o.l.id > 0 {
		if err := o.contents.clear(k, o.at(off, o.l.id)); err != nil {
			return err
		}
	}
	o.blk = o.l.remove(o.blk, off)
	return nil
}
