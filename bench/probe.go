package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// The probe is this program once more: it sleeps 1 ms again and again and tells when it was not woken for
// much longer. It shares nothing with the process that is measured but the machine.

const (
	probeEnv = "MILLRACE_BENCH_PROBE"
	probeGap = 8 * time.Millisecond
)

// gap is a time in which the probe was not woken, monotonic ns.
type gap struct{ start, end int64 }

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // can't fail for this clock
	return ts.Nano()
}

func init() {
	if os.Getenv(probeEnv) != "" {
		probe()
		os.Exit(0)
	}
}

// probe runs until its stdin is closed.
func probe() {
	prioritise()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // any end is the end
		close(done)
	}()
	for last := monotonic(); ; {
		time.Sleep(time.Millisecond)
		now := monotonic()
		if now-last > int64(probeGap) {
			fmt.Println(last, now)
		}
		last = now
		select {
		case <-done:
			return
		default:
		}
	}
}

// startProbe starts it; stop ends it and returns the gaps, in order.
func startProbe() (stop func() ([]gap, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), probeEnv+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	gaps := make(chan []gap)
	go func() {
		var all []gap
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var g gap
			if _, err := fmt.Sscan(lines.Text(), &g.start, &g.end); err == nil {
				all = append(all, g)
			}
		}
		gaps <- all
	}()
	return func() ([]gap, error) {
		err := in.Close()
		all := <-gaps
		return all, errors.Join(err, cmd.Wait())
	}, nil
}
