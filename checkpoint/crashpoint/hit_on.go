//go:build crash

package crashpoint

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled says whether this build has crash points.
const Enabled = true

var (
	once  sync.Once
	mu    sync.Mutex
	armed plan
	seen  = map[string]int{}
	muted atomic.Int32
)

// Mute makes hits count for nothing until the function it returns is called: for code that is only tried.
func Mute() func() {
	muted.Add(1)
	return func() { muted.Add(-1) }
}

// Hit counts a hit of point and, at the armed one, acts. A malformed MILLRACE_CRASH ends the process
// with status 2: a run that was to crash and can't must not look like a pass.
func Hit(point string) {
	once.Do(arm)
	if muted.Load() > 0 {
		return
	}
	mu.Lock()
	seen[point]++
	due := armed.point == point && seen[point] == armed.nth
	if n := seen[point]; n&(n-1) == 0 {
		trace(point, n)
	}
	mu.Unlock()
	if !due {
		return
	}
	switch armed.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way: nothing after the point may run
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "delay":
		time.Sleep(armed.delay)
	}
}

func arm() {
	p, err := parse(os.Getenv("MILLRACE_CRASH"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	armed = p
}

// trace appends the point and its hits to the file MILLRACE_CRASH_TRACE names, at each power of two, so
// that a driver knows which points a pipeline meets and about how often.
func trace(point string, hits int) {
	path := os.Getenv("MILLRACE_CRASH_TRACE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	fmt.Fprintln(f, point, hits)
	f.Close()
}
