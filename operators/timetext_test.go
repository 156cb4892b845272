package operators_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/operators"
)

func TestTimeSettingsText(t *testing.T) {
	for want, s := range map[string]operators.TimeSettings{
		"time at, at most 5s out of order":                                                                             {Field: "at", OutOfOrderness: 5 * time.Second},
		"time of its own, never falling; a split is idle after 1s":                                                     {Watermarks: operators.WatermarksMonotonic, Idle: time.Second},
		"time at, a watermark only at the end of input; no split is over 10s ahead of the slowest":                     {Field: "at", Watermarks: operators.WatermarksNone, Align: 10 * time.Second},
		"time at, at most 0s out of order; times over 5m0s ahead of the clock are kept, but do not move the watermark": {Field: "at", MaxFutureSkew: 5 * time.Minute},
		"time at, at most 0s out of order; times over 1s ahead of the clock do not move the watermark: skip":           {Field: "at", MaxFutureSkew: time.Second, OnFuture: operators.ErrorPolicy{Policy: operators.PolicySkip}},
		"time of arrival (another one after a restart), the watermark follows the clock":                               {Source: operators.TimeIngestion},
		"time at, the watermark as a function says, ends of m.wasm; a split is idle after 1s": {Field: "at", Watermarks: operators.WatermarksPunctuated,
			Idle: time.Second, Punctuate: &operators.GuestNode{Module: "m.wasm", Function: "ends"}},
		"no event time: what looks at time goes by the clock": {Source: operators.TimeProcessing},
	} {
		if got := s.String(); got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}
