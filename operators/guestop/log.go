package guestop

import (
	"log/slog"

	"github.com/millrace-io/millrace/abi"
)

var levels = [...]slog.Level{abi.LogDebug: slog.LevelDebug, abi.LogInfo: slog.LevelInfo, abi.LogWarn: slog.LevelWarn, abi.LogError: slog.LevelError}

// guestLog writes a guest's line, at most abi.MaxLogLinesPerSec in a second of processing time.
func (o *Op) guestLog(level int, msg []byte) {
	l := &o.logRate
	if sec := o.now / 1000; sec != l.second {
		if l.dropped > 0 {
			o.ctx.Log.Warn("guest log lines dropped", "operator", o.ctx.Operator, "lines", l.dropped)
		}
		*l = logRate{second: sec}
	}
	if l.lines++; l.lines > abi.MaxLogLinesPerSec {
		l.dropped++
		return
	}
	level = min(max(level, 0), len(levels)-1)
	o.ctx.Log.Log(o.ctx, levels[level], string(msg), "guest", o.ctx.Operator, "task", o.ctx.Task)
}

type logRate struct {
	second         int64
	lines, dropped int
}

// addMetric adds to a guest's own counter; their number is bounded.
func (o *Op) addMetric(name string, add int64) {
	if o.metrics == nil {
		o.metrics = map[string]int64{}
	}
	if _, ok := o.metrics[name]; ok || len(o.metrics) < maxMetrics {
		o.metrics[name] += add
	}
}

const maxMetrics = 64

// Metrics returns the guest's own counters.
func (o *Op) Metrics() map[string]int64 { return o.metrics }
