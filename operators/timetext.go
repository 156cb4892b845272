package operators

import (
	"fmt"
	"strings"
)

// String says in words how time passes at a source, for people.
func (t *TimeSettings) String() string {
	switch t.Source {
	case TimeIngestion:
		return "time of arrival (another one after a restart), the watermark follows the clock"
	case TimeProcessing:
		return "no event time: what looks at time goes by the clock"
	}
	s := "time " + t.Field
	if t.Field == "" {
		s = "time of its own"
	}
	switch t.Watermarks {
	case WatermarksMonotonic:
		s += ", never falling"
	case WatermarksNone:
		s += ", a watermark only at the end of input"
	case WatermarksPunctuated:
		s += ", the watermark as a function says"
		if p := t.Punctuate; p != nil {
			s += fmt.Sprintf(", %s of %s", p.Function, p.Module)
		}
	default:
		s += fmt.Sprintf(", at most %v out of order", t.OutOfOrderness)
	}
	var more []string
	if t.Idle > 0 {
		more = append(more, fmt.Sprintf("a split is idle after %v", t.Idle))
	}
	if t.MaxFutureSkew > 0 {
		p := "are kept, but do not move the watermark"
		if t.OnFuture.Policy != "" {
			p = "do not move the watermark: " + t.OnFuture.Policy
		}
		more = append(more, fmt.Sprintf("times over %v ahead of the clock %s", t.MaxFutureSkew, p))
	}
	if t.Align > 0 {
		more = append(more, fmt.Sprintf("no split is over %v ahead of the slowest", t.Align))
	}
	return strings.Join(append([]string{s}, more...), "; ")
}
