package main

import (
	"os"
	"strconv"
	"syscall"
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
		}
	}
}
