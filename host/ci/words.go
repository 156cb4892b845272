package ci

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace-io/millrace/abi"
)

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

func singular(n int64) string {
	if n == 1 {
		return "s"
	}
	return ""
}

// percent writes a ratio as a difference: 1.1 is +10.0 %.
func percent(ratio float64) string { return fmt.Sprintf("%+.2f %%", (ratio-1)*100) }

// clipped is a text for one line, with its length if it is cut.
func clipped(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if rs := []rune(s); len(rs) > most {
		return fmt.Sprintf("%s... (%d bytes)", string(rs[:most]), len(s))
	}
	return s
}

// span is the event times of a slice.
func (s *Slice) span() string {
	if s.FromMS == abi.NoTime {
		return "without event time"
	}
	return timeText(s.FromMS) + " to " + timeText(s.ToMS)
}

// timeText writes ms since 1970 for people.
func timeText(ms int64) string {
	t := time.UnixMilli(ms).UTC()
	if y := t.Year(); y < 0 || y > 9999 {
		return fmt.Sprintf("%d ms", ms)
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

// or is s, or what stands for nothing.
func or(s, nothing string) string {
	if s == "" {
		return nothing
	}
	return s
}
