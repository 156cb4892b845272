package main

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/millrace-io/millrace/host/job"
)

// talk is what a run says on stderr: lines, and on a terminal one progress line that is written over.
type talk struct {
	handler slog.Handler
	mu      sync.Mutex
	w       io.Writer
	live    bool // progress wanted
	shown   bool // a progress line is on the screen
	done    chan struct{}
	ended   sync.WaitGroup
}

func newTalk(w io.Writer, level slog.Level, quiet bool) *talk {
	t := &talk{w: w}
	f, ok := w.(*os.File)
	t.live = ok && !quiet && term.IsTerminal(int(f.Fd()))
	t.handler = slog.NewTextHandler(&lineWriter{t}, &slog.HandlerOptions{Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}})
	return t
}

// lineWriter lets log lines pass above the progress line.
type lineWriter struct{ t *talk }

func (l *lineWriter) Write(b []byte) (int, error) {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.wipe()
	return l.t.w.Write(b)
}

// wipe removes the progress line; mu is held.
func (t *talk) wipe() {
	if t.shown {
		fmt.Fprint(t.w, "\r\x1b[K")
		t.shown = false
	}
}

func (t *talk) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	fmt.Fprintf(t.w, format+"\n", args...)
}

// event tells what people should know; checkpoints go by unsaid.
func (t *talk) event(e job.Event) {
	switch e.Kind {
	case job.EventRestored:
		t.line("going on from checkpoint %d", e.Checkpoint)
	case job.EventAborted:
		t.line("checkpoint %d was given up: %s", e.Checkpoint, e.Message)
	case job.EventRestarting:
		t.line("failed, starting again in %v: %s", time.Duration(e.Millis)*time.Millisecond, e.Message)
	case job.EventNote:
		t.line("note: %s", e.Message)
	case job.EventSkipped:
		t.line("skipped: %s", e.Message)
	case job.EventUpgraded:
		t.line("changed at checkpoint %d: %s", e.Checkpoint, e.Message)
	case job.EventRolledBack:
		t.line("%s", e.Message)
	case job.EventUploadFailed:
		t.line("note: snapshot %d is not in the store yet: %s", e.Checkpoint, e.Message)
	case job.EventUploading:
		t.line("uploading to %s", e.Message)
	case job.EventUploaded:
		t.debug("uploaded", "id", uint64(e.Checkpoint), "bytes", e.Bytes)
	case job.EventCheckpoint:
		t.debug("checkpoint", "id", uint64(e.Checkpoint), "ms", e.Millis)
	}
}

func (t *talk) debug(msg string, args ...any) { slog.New(t.handler).Debug(msg, args...) }

// start shows progress until stop.
func (t *talk) start(stats func() (job.Stats, error)) {
	if !t.live {
		return
	}
	t.done = make(chan struct{})
	t.ended.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		last, at := int64(0), time.Now()
		for {
			select {
			case <-t.done:
				return
			case now := <-tick.C:
				s, err := stats()
				if err != nil {
					continue
				}
				rate := float64(s.Read-last) / now.Sub(at).Seconds()
				last, at = s.Read, now
				t.progress(s, rate)
			}
		}
	})
}

func (t *talk) progress(s job.Stats, rate float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wipe()
	fmt.Fprintf(t.w, "%s records, %s/s, watermark %s, checkpoint %d (%.1f s ago)", thousands(s.Read), thousands(int64(rate)),
		watermark(s.Watermark), s.Checkpoint, float64(s.CheckpointAge)/1000)
	t.shown = true
}

func (t *talk) stop() {
	if t.done != nil {
		close(t.done)
		t.ended.Wait()
		t.done = nil
	}
	t.mu.Lock()
	t.wipe()
	t.mu.Unlock()
}

// summary says how a run ended.
func (t *talk) summary(r job.Result) {
	switch {
	case r.Already:
		t.line("already complete: checkpoint %d; --fresh runs it again", r.Checkpoint)
		return
	case r.Complete:
		t.line("complete: %s records read in this run, checkpoint %d", thousands(r.Stats.Read), r.Checkpoint)
	case r.Stopped:
		t.line("stopped: %s records read in this run, checkpoint %d; the same command goes on from there", thousands(r.Stats.Read), r.Checkpoint)
	}
	for _, o := range r.Stats.Operators {
		if text := counters(o.Counters); text != "" {
			t.line("  %s: %s", o.ID, text)
		}
	}
	for _, w := range r.Warnings {
		t.line("note: %s", w)
	}
}

func counters(c map[string]int64) string {
	var parts []string
	for _, name := range []string{"in", "out", "timers", "written", "skipped", "dead letters", "late", "faults"} {
		if n := c[name]; n != 0 {
			parts = append(parts, fmt.Sprintf("%s %s", thousands(n), name))
		}
	}
	return strings.Join(parts, ", ")
}

func watermark(ms int64) string {
	switch ms {
	case math.MinInt64:
		return "none"
	case math.MaxInt64:
		return "end"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// thousands writes a number with separators.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
