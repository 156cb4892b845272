package drive

import "math"

// trigger is the case's, with defaults filled in.
func (m *model) trigger() *triggerCase {
	t := m.o.Trigger
	if t != nil && t.Type != "default" {
		return t
	}
	switch m.o.Window.Type {
	case "global":
		return &triggerCase{Type: "never"}
	case "count":
		return &triggerCase{Type: "purging", Of: &triggerCase{Type: "count", N: m.o.Window.Size}}
	case "count-sliding":
		return &triggerCase{Type: "count", N: m.o.Window.Slide}
	}
	if m.event() {
		return &triggerCase{Type: "event-time"}
	}
	return &triggerCase{Type: "processing-time"}
}

func purged(v verdict) verdict { return verdict{v.fire, v.fire || v.purge} }

func (m *model) onElement(t *triggerCase, key string, w span, c *cell, e element) verdict {
	switch t.Type {
	case "event-time":
		if w.last() <= m.wm {
			return verdict{fire: true}
		}
		m.set(key, w, w.last(), false)
	case "processing-time":
		m.set(key, w, w.last(), true)
	case "count":
		if c.count++; c.count >= t.N {
			c.count = 0
			return verdict{fire: true}
		}
	case "continuous-event-time":
		if w.last() <= m.wm {
			return verdict{fire: true}
		}
		m.set(key, w, w.last(), false)
		if c.next == nil {
			m.advance(t, key, w, &c.next, e.ts-e.ts%t.Interval, false)
		}
	case "continuous-processing-time":
		if c.clockNext == nil {
			m.advance(t, key, w, &c.clockNext, m.now-m.now%t.Interval, true)
		}
	case "end-of-stream":
		m.set(key, w, math.MaxInt64, false)
	case "purging":
		return purged(m.onElement(t.Of, key, w, c, e))
	case "timeout":
		v := m.onElement(t.Of, key, w, c, e)
		if v.fire {
			m.clear(t, key, w, c)
			return v
		}
		if c.timeout != nil && t.Reset {
			m.unset(key, w, *c.timeout, true)
			c.timeout = nil
		}
		if c.timeout == nil {
			at := m.now + t.Timeout
			c.timeout = &at
			m.set(key, w, at, true)
		}
		return v
	}
	return verdict{}
}

// advance sets a continuous trigger's next time, not behind the window's last instant.
func (m *model) advance(t *triggerCase, key string, w span, next **int64, from int64, clock bool) {
	at := min(from+t.Interval, w.last())
	*next = &at
	m.set(key, w, at, clock)
}

func (m *model) onTimer(t *triggerCase, key string, w span, c *cell, at int64, clock bool) verdict {
	switch t.Type {
	case "event-time":
		return verdict{fire: !clock && at == w.last()}
	case "processing-time":
		return verdict{fire: clock}
	case "continuous-event-time":
		if clock {
			return verdict{}
		}
		if at == w.last() {
			return verdict{fire: true}
		}
		if c.next != nil && *c.next == at {
			m.advance(t, key, w, &c.next, at, false)
			return verdict{fire: true}
		}
	case "continuous-processing-time":
		if clock && c.clockNext != nil && *c.clockNext == at {
			m.advance(t, key, w, &c.clockNext, at, true)
			return verdict{fire: true}
		}
	case "end-of-stream":
		end := !clock && at == math.MaxInt64
		return verdict{end, end}
	case "purging":
		return purged(m.onTimer(t.Of, key, w, c, at, clock))
	case "timeout":
		// Whatever the timer was for, also the window's own clean-up: it fires.
		v := m.onTimer(t.Of, key, w, c, at, clock)
		if t.Clear {
			m.clear(t, key, w, c)
		}
		return verdict{true, v.purge}
	}
	return verdict{}
}

func (m *model) onMerge(t *triggerCase, key string, w span, c *cell) {
	switch t.Type {
	case "event-time":
		if w.last() > m.wm {
			m.set(key, w, w.last(), false)
		}
	case "processing-time":
		if w.last() > m.now {
			m.set(key, w, w.last(), true)
		}
	case "continuous-event-time":
		if c.next != nil {
			m.set(key, w, *c.next, false)
		}
	case "continuous-processing-time":
		if c.clockNext != nil {
			m.set(key, w, *c.clockNext, true)
		}
	case "purging":
		m.onMerge(t.Of, key, w, c)
	}
}

func (m *model) clear(t *triggerCase, key string, w span, c *cell) {
	switch t.Type {
	case "event-time":
		m.unset(key, w, w.last(), false)
	case "processing-time":
		m.unset(key, w, w.last(), true)
	case "count":
		c.count = 0
	case "continuous-event-time":
		if c.next != nil {
			m.unset(key, w, *c.next, false)
			c.next = nil
		}
	case "continuous-processing-time":
		if c.clockNext != nil {
			m.unset(key, w, *c.clockNext, true)
			c.clockNext = nil
		}
	case "purging":
		m.clear(t.Of, key, w, c)
	case "timeout":
		if c.timeout != nil {
			m.unset(key, w, *c.timeout, true)
			c.timeout = nil
		}
		m.clear(t.Of, key, w, c)
	}
}
