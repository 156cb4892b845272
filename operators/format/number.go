package format

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"
)

// errNumber is wrapped by every error about a number or time that does not fit its type.
var errNumber = errors.New("not a fitting number")

// parseInt reads a decimal integer exactly.
func parseInt(b []byte) (int64, error) {
	i, neg := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg = b[0] == '-'
		i++
	}
	if i == len(b) || len(b)-i > 19 {
		return 0, fmt.Errorf("%w: %q, expected a 64-bit integer", errNumber, clip(b))
	}
	var n uint64
	for ; i < len(b); i++ {
		d := b[i] - '0'
		if d > 9 {
			return 0, fmt.Errorf("%w: %q, expected a 64-bit integer", errNumber, clip(b))
		}
		n = n*10 + uint64(d)
	}
	limit := uint64(math.MaxInt64)
	if neg {
		limit++
	}
	if n > limit {
		return 0, fmt.Errorf("%w: %q is beyond 64 bits", errNumber, clip(b))
	}
	if neg {
		return int64(-n), nil
	}
	return int64(n), nil
}

var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseFloat reads a number, correctly rounded. A short decimal is the exact quotient of two exact
// floats; everything else goes to strconv.
func parseFloat(b []byte) (float64, error) {
	i, neg := 0, false
	if len(b) > 0 && b[0] == '-' {
		neg, i = true, 1
	}
	var m uint64
	frac, seenPoint, nd := 0, false, 0
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' && !seenPoint {
			seenPoint = true
			continue
		}
		d := c - '0'
		if d > 9 || nd >= 15 {
			nd = 99
			break
		}
		m = m*10 + uint64(d)
		nd++
		if seenPoint {
			frac++
		}
	}
	if nd > 0 && nd <= 15 {
		f := float64(m) / pow10[frac]
		if neg {
			f = -f
		}
		return f, nil
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %q, expected a 64-bit float", errNumber, clip(b))
	}
	return f, nil
}

func clip(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "..."
	}
	return string(b)
}

// Unit says what a time value counts.
type Unit string

// Units of time values.
const (
	Millis  Unit = "ms"
	Seconds Unit = "s"
	Micros  Unit = "us"
	Nanos   Unit = "ns"
	RFC3339 Unit = "rfc3339"
)

// Units lists the units a pipeline file may name.
var Units = []string{string(Millis), string(Seconds), string(Micros), string(Nanos), string(RFC3339)}

// ToMillis converts a count of units to ms, rounded down.
func (u Unit) ToMillis(n int64) (int64, error) {
	switch u {
	case Seconds:
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, fmt.Errorf("%w: %d s is beyond the range of event time", errNumber, n)
		}
		return n * 1000, nil
	case Micros:
		return floorDiv(n, 1000), nil
	case Nanos:
		return floorDiv(n, 1_000_000), nil
	}
	if n == math.MinInt64 {
		return 0, fmt.Errorf("%w: %d ms is beyond the range of event time", errNumber, n)
	}
	return n, nil
}

func floorDiv(n, d int64) int64 {
	q := n / d
	if n%d < 0 {
		q--
	}
	return q
}

// ParseTime reads a time into ms since 1970 UTC. text says that b was a string: then RFC 3339 is
// understood whatever the unit, as is a date alone or a time with a blank for the T; without a zone
// it is UTC. Numbers count units; a fraction is kept down to the ms.
func ParseTime(b []byte, text bool, u Unit) (int64, error) {
	if text && !looksNumeric(b) {
		return parseStamp(b)
	}
	if u == RFC3339 {
		return 0, fmt.Errorf("%w: %q, expected a time like 2026-01-31T12:00:00Z", errNumber, clip(b))
	}
	n, err := parseInt(b)
	if err == nil {
		return u.ToMillis(n)
	}
	f, ferr := parseFloat(b)
	if ferr != nil {
		return 0, fmt.Errorf("%w: %q, expected a time in %s", errNumber, clip(b), u)
	}
	// half a microsecond is beyond a float's precision at today's epoch: 1.001 s is 1001 ms, not 1000
	ms := math.Floor(f*unitMS[u] + 0.0005)
	if math.Abs(ms) > 1<<62 {
		return 0, fmt.Errorf("%w: %q is beyond the range of event time", errNumber, clip(b))
	}
	return int64(ms), nil
}

func looksNumeric(b []byte) bool {
	for i, c := range b {
		if (c < '0' || c > '9') && c != '.' && (i > 0 || c != '-') {
			return false
		}
	}
	return len(b) > 0
}

// parseStamp reads 2026-01-31, 2026-01-31T12:00, 2026-01-31 12:00:00.123456+01:00 and the like.
func parseStamp(b []byte) (int64, error) {
	bad := func() (int64, error) {
		return 0, fmt.Errorf("%w: %q, expected a time like 2026-01-31T12:00:00Z", errNumber, clip(b))
	}
	if len(b) < 10 || b[4] != '-' || b[7] != '-' {
		return bad()
	}
	y, m, d := atoi(b[0:4]), atoi(b[5:7]), atoi(b[8:10])
	if y < 0 || m < 1 || m > 12 || d < 1 || d > daysIn(y, m) {
		return bad()
	}
	ms := time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC).UnixMilli()
	rest := b[10:]
	if len(rest) == 0 {
		return ms, nil
	}
	if (rest[0] != 'T' && rest[0] != 't' && rest[0] != ' ') || len(rest) < 6 || rest[3] != ':' {
		return bad()
	}
	h, mi, s := atoi(rest[1:3]), atoi(rest[4:6]), 0
	rest = rest[6:]
	if len(rest) >= 3 && rest[0] == ':' {
		s = atoi(rest[1:3])
		rest = rest[3:]
	}
	if h < 0 || h > 23 || mi < 0 || mi > 59 || s < 0 || s > 60 {
		return bad()
	}
	ms += int64(h)*3_600_000 + int64(mi)*60_000 + int64(s)*1000
	if len(rest) > 1 && (rest[0] == '.' || rest[0] == ',') {
		n := digits(rest, 1)
		for k, w := 1, int64(100); k < n && w > 0; k, w = k+1, w/10 {
			ms += int64(rest[k]-'0') * w
		}
		if n == 1 {
			return bad()
		}
		rest = rest[n:]
	}
	off, ok := zone(rest)
	if !ok {
		return bad()
	}
	return ms - off, nil
}

func daysIn(y, m int) int { return time.Date(y, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() }

// zone reads Z, +01:00, +0100, +01 or nothing: ms east of UTC.
func zone(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) == 1 && (b[0] == 'Z' || b[0] == 'z') {
		return 0, true
	}
	if b[0] != '+' && b[0] != '-' || len(b) < 3 {
		return 0, false
	}
	h, m := atoi(b[1:3]), 0
	if r := b[3:]; len(r) > 0 {
		if r[0] == ':' {
			r = r[1:]
		}
		if len(r) != 2 {
			return 0, false
		}
		m = atoi(r)
	}
	if h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, false
	}
	off := int64(h)*3_600_000 + int64(m)*60_000
	if b[0] == '-' {
		off = -off
	}
	return off, true
}

func atoi(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

var unitMS = map[Unit]float64{Seconds: 1e3, Micros: 1e-3, Nanos: 1e-6, Millis: 1, "": 1}
