package window

import (
	"fmt"
	"time"
)

// zone cuts time into the local days of an IANA zone, of 23, 24, 25 or other hours (C010). A day begins at
// the first instant from which on the clock shows its date. With an offset every day begins so much later.
type zone struct {
	loc    *time.Location
	offset int64
	d      int64 // the day looked up last and its bounds
	lo, hi int64
}

func newZone(name string, offset int64) (*zone, error) {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("zone %q: %w", name, err)
	}
	return &zone{loc: loc, offset: offset}, nil
}

// farMS is over 100,000 years: times beyond it, like a first watermark, count as that.
const farMS = 1 << 52

// day is the number of the day that holds ms; day 0 is 1 January 1970.
func (z *zone) day(ms int64) int64 {
	if z.lo <= ms && ms < z.hi {
		return z.d
	}
	ms = min(max(ms-z.offset, -farMS), farMS)
	n := date(time.UnixMilli(ms).In(z.loc))
	lo := z.midnight(n)
	if ms < lo {
		n, lo = n-1, z.midnight(n-1)
	}
	z.d, z.lo, z.hi = n, lo+z.offset, z.midnight(n+1)+z.offset
	return n
}

// start is the first ms of a day.
func (z *zone) start(day int64) int64 {
	if z.lo < z.hi {
		switch day {
		case z.d:
			return z.lo
		case z.d + 1:
			return z.hi
		}
	}
	return z.midnight(day) + z.offset
}

// midnight is when a local date begins: when the clock shows midnight and does not go back to the day
// before from there, or when it jumps over midnight.
func (z *zone) midnight(day int64) int64 {
	utc := time.Unix(day*86400, 0)
	var at []time.Time
	for _, near := range [2]time.Time{utc.Add(-15 * time.Hour), utc.Add(15 * time.Hour)} {
		_, off := near.In(z.loc).Zone()
		t := utc.Add(-time.Duration(off) * time.Second)
		if _, is := t.In(z.loc).Zone(); is == off {
			at = append(at, t)
		}
	}
	switch {
	case len(at) == 0:
		_, before := utc.Add(-15 * time.Hour).In(z.loc).Zone()
		jump, _ := utc.Add(-time.Duration(before) * time.Second).In(z.loc).ZoneBounds()
		return jump.UnixMilli()
	case len(at) == 2 && at[1].After(at[0]): // it comes twice
		if _, back := at[0].In(z.loc).ZoneBounds(); date(back.In(z.loc)) < day {
			return at[1].UnixMilli()
		}
	}
	return at[0].UnixMilli()
}

// date is the number of a time's date.
func date(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// part is the window of a length that divides 24 hours: days are cut from their start on, by real time, and
// the last window of a day ends with it.
func (z *zone) part(ms, length int64) span {
	d := z.day(ms)
	lo, hi := z.start(d), z.start(d+1)
	s := lo + (ms-lo)/length*length
	return span{s, min(s+length, hi)}
}
