package main

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowest is the lowest priority there is.
const lowest = 19

// lowPriority gives all threads of the process the lowest priority; new ones take it over from those that make them.
func lowPriority() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // then it runs as others do
	}
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowest)
			// Low priority alone keeps a processor for some ms from one that wakes up; idle gives it up at once.
			_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: lowest}, 0)
		}
	}
}
