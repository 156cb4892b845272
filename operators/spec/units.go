package spec

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`
	sizePattern     = `^[0-9]+(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)$`
	idPattern       = `^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`
	refPattern      = `^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(\.[A-Za-z0-9][A-Za-z0-9_-]{0,99})?$`
)

var (
	durationForm = regexp.MustCompile(durationPattern)
	durationPart = regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h|d)`)
	sizeForm     = regexp.MustCompile(sizePattern)
	idForm       = regexp.MustCompile(idPattern)
	refForm      = regexp.MustCompile(refPattern)
)

var durationUnits = map[string]time.Duration{"ns": 1, "us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// ParseDuration reads "5s", "1h30m", "28h", "2d"; never negative.
func ParseDuration(s string) (time.Duration, error) {
	if !durationForm.MatchString(s) {
		if strings.HasPrefix(s, "-") {
			return 0, fmt.Errorf("duration %q is negative", s)
		}
		return 0, fmt.Errorf("%q is no duration, expected a number with a unit like 500ms, 5s, 1h30m, 2d", s)
	}
	total := 0.0
	for _, m := range durationPart.FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, fmt.Errorf("duration %q is too large", s)
		}
		total += n * float64(durationUnits[m[2]])
	}
	if total >= math.MaxInt64 {
		return 0, fmt.Errorf("duration %q is too large, at most 292 years", s)
	}
	return time.Duration(math.Round(total)), nil
}

var sizeUnits = map[string]int64{"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

// ParseSize reads "512MiB", "4GB", "100B" into bytes; never negative.
func ParseSize(s string) (int64, error) {
	if !sizeForm.MatchString(s) {
		if strings.HasPrefix(s, "-") {
			return 0, fmt.Errorf("size %q is negative", s)
		}
		return 0, fmt.Errorf("%q is no size, expected a whole number with a unit like 512MiB, 4GB, 100B", s)
	}
	i := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	n, err := strconv.ParseInt(s[:i], 10, 64)
	unit := sizeUnits[s[i:]]
	if err != nil || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("size %q is too large", s)
	}
	return n * unit, nil
}
