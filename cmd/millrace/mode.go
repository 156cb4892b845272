package main

import (
	"fmt"
	"time"

	"github.com/millrace-io/millrace/operators"
)

// planMode is how a job runs, for what reason, and which settings that gives.
type planMode struct {
	Mode       string `json:"mode"`
	Why        string `json:"why"`
	IntervalMS int64  `json:"checkpoint_interval_ms"` // 0: only the final one
	Batch      int    `json:"batch"`
}

func modeOf(g *operators.Graph) planMode {
	return planMode{Mode: g.Mode, Why: g.ModeWhy, IntervalMS: g.Checkpoint.Interval.Milliseconds(), Batch: g.BatchMax}
}

func (m planMode) String() string {
	checkpoints := "one checkpoint, at the end"
	if m.IntervalMS > 0 {
		checkpoints = fmt.Sprintf("a checkpoint each %v", time.Duration(m.IntervalMS)*time.Millisecond)
	}
	return fmt.Sprintf("mode %s (%s): %s, batches of up to %d", m.Mode, m.Why, checkpoints, m.Batch)
}
