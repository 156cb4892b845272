// Package clock is the one place that reads the wall clock.
package clock

import "time"

// Clock tells processing time and, for lingers and time-outs, monotonic time.
type Clock interface {
	// NowMS is ms since 1970.
	NowMS() int64
	// Mono is ns since some fixed moment; it never goes back.
	Mono() int64
}

// Wall is the machine's clock.
type Wall struct{}

var start = time.Now()

// NowMS implements Clock.
func (Wall) NowMS() int64 { return time.Now().UnixMilli() }

// Mono implements Clock.
func (Wall) Mono() int64 { return int64(time.Since(start)) }
