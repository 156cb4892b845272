package crashpoint

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// plan is what MILLRACE_CRASH asks for.
type plan struct {
	point  string
	nth    int           // from 1
	action string        // kill, stop, delay
	delay  time.Duration // of action delay
}

// parse reads "point:nth:action"; action is kill, stop or delay=<duration>. An empty string is the
// empty plan, which is never due.
func parse(s string) (plan, error) {
	if s == "" {
		return plan{}, nil
	}
	f := strings.Split(s, ":")
	if len(f) != 3 {
		return plan{}, fmt.Errorf("MILLRACE_CRASH: %q has %d fields, expected point:nth:action", s, len(f))
	}
	if !Known(f[0]) {
		return plan{}, fmt.Errorf("MILLRACE_CRASH: unknown point %q, expected one of those in points.go", f[0])
	}
	nth, err := strconv.Atoi(f[1])
	if err != nil || nth < 1 {
		return plan{}, fmt.Errorf("MILLRACE_CRASH: %q is no hit number, expected 1 or more", f[1])
	}
	p := plan{point: f[0], nth: nth, action: f[2]}
	if d, ok := strings.CutPrefix(f[2], "delay="); ok {
		p.action = "delay"
		if p.delay, err = time.ParseDuration(d); err != nil {
			return plan{}, fmt.Errorf("MILLRACE_CRASH: delay: %w", err)
		}
	}
	switch p.action {
	case "kill", "stop", "delay":
		return p, nil
	}
	return plan{}, fmt.Errorf("MILLRACE_CRASH: unknown action %q, expected kill, stop or delay=<duration>", f[2])
}
