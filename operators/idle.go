package operators

import "math"

// quiet is what is known of how long a split has given nothing.
//
// It counts only between two looks at the split that both found it read to its present end with no record
// between them, and at most half of the time allowed each: a task that was held up by its output, or a
// machine that slept, has not seen that nothing came. So a paused split is never idle, and it takes a
// look after the pause to make it so.
type quiet struct {
	idle   bool
	looked int64 // ordinal at the last look; -1: not looked at yet
	at     int64 // ms, of that look
	passed int64 // ms
}

// SetNow tells the time, ms, at the start of a poll.
func (w *Watermarks) SetNow(now int64) {
	w.now = now
	if w.skew > 0 {
		w.horizon = now + w.skew
	}
}

// CaughtUp says that a split was looked at now and has nothing further. became: by that it is idle from
// now on. If the task's watermark moves by that, it returns the new one and moved.
func (w *Watermarks) CaughtUp(split int) (mark int64, moved, became bool) {
	s := &w.splits[split]
	q := &s.quiet
	if w.idle == 0 || q.idle || s.finished {
		return 0, false, false
	}
	if q.looked != s.ordinal {
		q.looked, q.at, q.passed = s.ordinal, w.now, 0
		return 0, false, false
	}
	q.passed += min(max(w.now-q.at, 0), w.step())
	q.at = w.now
	if q.passed < w.idle {
		return 0, false, false
	}
	q.idle, s.odd = true, true
	mark, moved = w.advance()
	return mark, moved, true
}

// Silence makes a split idle without having looked: it was so before. As CaughtUp.
func (w *Watermarks) Silence(split int) (mark int64, moved bool) {
	s := &w.splits[split]
	if s.finished {
		return 0, false
	}
	s.quiet.idle, s.odd = true, true
	return w.advance()
}

// Jump moves the watermark to ms because the clock did so before, where the clock is what it goes by.
func (w *Watermarks) Jump(ms int64) {
	w.current = max(w.current, ms)
	w.nextEdge = w.edgeAfter(ms + 1)
}

// step is the most that one look adds.
func (w *Watermarks) step() int64 { return (w.idle + 1) / 2 }

// Idle says that no split counts for the watermark at present, though not all are finished.
func (w *Watermarks) Idle() bool {
	finished := 0
	for i := range w.splits {
		s := &w.splits[i]
		if !s.finished && !s.quiet.idle {
			return false
		}
		if s.finished {
			finished++
		}
	}
	return finished == 0 || finished < len(w.splits)
}

// NextLook is when the source wants to be polled though nothing has come, ms; false: not at all.
func (w *Watermarks) NextLook() (int64, bool) {
	next := int64(math.MaxInt64)
	if w.byClock && !w.over() {
		next = w.nextEdge
	}
	for i := range w.splits {
		s := &w.splits[i]
		// one that this poll passed over waits for something else
		if q := &s.quiet; w.idle > 0 && !q.idle && !s.finished && q.looked == s.ordinal && q.at == w.now {
			next = min(next, q.at+min(w.step(), w.idle-q.passed))
		}
	}
	return next, next != math.MaxInt64
}

func (w *Watermarks) over() bool {
	for i := range w.splits {
		if !w.splits[i].finished {
			return false
		}
	}
	return true
}

// Stamp is the time of a record that is taken now, behind no watermark.
func (w *Watermarks) Stamp() int64 {
	if w.now <= w.current {
		return w.current + 1
	}
	return w.now
}

// Tick moves the watermark by the clock, to the last ms before now, where the clock is what it goes by.
func (w *Watermarks) Tick() (int64, bool) {
	if !w.byClock || w.now < w.nextEdge || w.over() {
		return 0, false
	}
	w.nextEdge = w.edgeAfter(w.now)
	if w.now-1 <= w.current {
		return 0, false
	}
	w.current = w.now - 1
	return w.current, true
}

// slowest is the least of the greatest times of the splits that count: abi.NoTime if one has none yet,
// the greatest time there is if none counts.
func (w *Watermarks) slowest() int64 {
	least := int64(math.MaxInt64)
	for i := range w.splits {
		if s := &w.splits[i]; !s.finished && !s.quiet.idle {
			least = min(least, s.maxTime)
		}
	}
	return least
}

// behind is the unfinished split with the least of the greatest times; -1: there is none.
func (w *Watermarks) behind() int {
	at := -1
	for i := range w.splits {
		if s := &w.splits[i]; !s.finished && !s.ended && (at < 0 || s.maxTime < w.splits[at].maxTime) {
			at = i
		}
	}
	return at
}
