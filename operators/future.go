package operators

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/abi"
)

// warnEvery is how often, ms, a source speaks of times in the future.
const warnEvery = 60_000

// future treats a record whose time is too far ahead of the clock to go by. It is kept unless the policy
// says otherwise.
func (in *Intake) future(r *abi.Record) (kept bool, err error) {
	in.wm.future++
	t := in.node.Source.Time
	if now := in.wm.now; in.warned < now-warnEvery || in.warned > now {
		in.warned = now
		in.ctx.Log.Warn("the time of a record is in the future and does not move the watermark", "source", in.node.ID,
			"record", in.describe(r.Pos), "time", timeText(r.Time), "now", timeText(now), "max_future_skew", t.MaxFutureSkew, "so_far", in.wm.future)
	}
	if t.OnFuture.Policy == "" {
		return true, nil
	}
	return false, in.apply(t.OnFuture.Policy, in.node.ID, KindFuture, r,
		fmt.Errorf("its time %s is more than %v ahead of the clock, %s", timeText(r.Time), t.MaxFutureSkew, timeText(in.wm.now)))
}

// timeText writes ms since 1970 for people.
func timeText(ms int64) string {
	if y := time.UnixMilli(ms).UTC().Year(); y < 0 || y > 9999 {
		return fmt.Sprintf("%d ms", ms)
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
