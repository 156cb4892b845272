//go:build unix

package result

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the CPU time this process has used so far, all threads, user and system.
func CPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err == nil {
		return time.Duration(ts.Nano())
	}
	return rusage(syscall.RUSAGE_SELF)
}

// ChildCPU is the CPU time of a process that has ended and been waited for.
func ChildCPU(ps *os.ProcessState) time.Duration { return ps.UserTime() + ps.SystemTime() }

func rusage(who int) time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// ThreadCPU is the CPU time of the calling thread: lock the goroutine to it first. It tells one task's
// pause apart from what garbage collection and background writers use meanwhile.
func ThreadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
