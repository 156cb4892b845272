package main

import (
	"math"
	"os"
	"runtime/debug"
)

// heapLimit is the size of the Go heap at which collections begin; what is large lies outside of it.
const heapLimit = 256 << 20

func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(-1)
	}
	if os.Getenv("GOMEMLIMIT") == "" && debug.SetMemoryLimit(-1) == math.MaxInt64 {
		debug.SetMemoryLimit(heapLimit)
	}
}
