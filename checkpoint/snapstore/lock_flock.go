//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package snapstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// lockFile takes the advisory lock of a file, which the kernel drops with the process, however it ends.
// The pid in the file is for messages only.
func lockFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		text, _ := io.ReadAll(io.LimitReader(f, 32))
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		f.Close()
		return nil, &LockedError{Path: path, PID: pid}
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}
