//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package snapstore

import (
	"errors"
	"syscall"
)

// processAlive asks with signal 0, which is sent to nobody.
func processAlive(pid int) bool {
	return pid > 0 && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
