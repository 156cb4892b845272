package ordered

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
)

const maxWaiting = 2 // sealed logs that wait to be written before the task must

// history turns sealed logs into runs, merges runs and answers cuts, in the background: what is needed to
// rebuild a part. It never has an idle goroutine.
type history struct {
	cfg    state.PartConfig
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	changed sync.Cond
	queue   []job
	working bool
	merging bool
	closed  bool
	err     error      // why the worker stopped before the queue was empty
	live    []*liveRun // newest first
	done    []*segment // written, for the task to take back
	waiting int64      // bytes of sealed logs that are not written
	merges  int64      // bytes written by merges
	seq     int
}

// job is a sealed log to write or a cut to answer once everything before it is written.
type job struct {
	seg *segment
	cut *cut
}

// liveRun is a run, or the part of it between lo and hi, that belongs to the present state.
type liveRun struct {
	run    *runs.Run
	lo, hi uint64 // inclusive
	path   string // local file; "": an object only
	synced bool   // the local file is durable
	object string // digest; "": no snapshot names it yet
	stored string // where the object is
	size   int64  // of the object
	refs   int    // history.mu; 1 for being live
}

// weight estimates the bytes between lo and hi.
func (l *liveRun) weight() int64 {
	i := l.run.Info()
	if i.Hi <= i.Lo || l.lo <= i.Lo && l.hi >= i.Hi {
		return i.Size
	}
	return int64(float64(i.Size) * float64(l.hi-l.lo+1) / float64(i.Hi-i.Lo+1))
}

// cut implements state.Cut.
type cut struct {
	done chan struct{}
	snap state.StateSnapshot
	err  error
}

func (c *cut) Done() <-chan struct{}                   { return c.done }
func (c *cut) Result() (state.StateSnapshot, error)    { return c.snap, c.err }
func (c *cut) finish(s state.StateSnapshot, err error) { c.snap, c.err = s, err; close(c.done) }
func (h *history) file() string {
	h.seq++
	return filepath.Join(h.cfg.Dir, fmt.Sprintf("%06d.run", h.seq))
}

func newHistory(cfg state.PartConfig) *history {
	h := &history{cfg: cfg}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.changed.L = &h.mu
	return h
}

// room waits until another sealed log may be queued. It returns the error that keeps the worker from
// writing those that are.
func (h *history) room() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil && !h.working {
		h.start() // perhaps it goes now
	}
	for h.segments() >= maxWaiting && h.working {
		h.changed.Wait()
	}
	if h.segments() >= maxWaiting {
		return h.err
	}
	return nil
}

func (h *history) segments() (n int) {
	for _, j := range h.queue {
		if j.seg != nil {
			n++
		}
	}
	return n
}

// add queues a sealed log (nil or empty: none) and a cut (nil: none).
func (h *history) add(s *segment, c *cut) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s != nil && s.n > 0 {
		h.queue = append(h.queue, job{seg: s})
		h.waiting += s.bytes
	}
	if c != nil {
		h.queue = append(h.queue, job{cut: c})
	}
	h.start()
}

// start makes the worker run; the mutex is held.
func (h *history) start() {
	if !h.working && len(h.queue) > 0 && !h.closed {
		h.working, h.err = true, nil
		go h.work()
	}
}

// work does the queued jobs. If a log can't be written, the cuts behind it fail and the log stays, for
// the next try.
func (h *history) work() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.queue) > 0 && h.err == nil && !h.closed {
		j := h.queue[0]
		h.mu.Unlock()
		var r *liveRun
		var err error
		if j.seg != nil {
			r, err = h.write(j.seg)
		} else {
			j.cut.finish(h.publish())
		}
		h.mu.Lock()
		if err != nil {
			h.stop(err)
			break
		}
		h.queue = h.queue[1:]
		if j.seg != nil {
			h.waiting -= j.seg.bytes
			h.done = append(h.done, j.seg)
			if r != nil {
				h.live = append([]*liveRun{r}, h.live...)
			}
			h.tryMerge()
		}
		h.changed.Broadcast()
	}
	h.working = false
	h.changed.Broadcast()
}

// stop fails the queued cuts; the mutex is held.
func (h *history) stop(err error) {
	h.err = err
	rest := h.queue[:0]
	for _, j := range h.queue {
		if j.cut != nil {
			j.cut.finish(state.StateSnapshot{}, err)
		} else {
			rest = append(rest, j)
		}
	}
	h.queue = rest
}

// write makes a run of a sealed log.
func (h *history) write(s *segment) (*liveRun, error) {
	h.mu.Lock()
	path := h.file()
	h.mu.Unlock()
	w, err := runs.NewWriter(h.cfg.FS, path)
	if err != nil {
		return nil, err
	}
	err = s.each(func(comp, value []byte, kd kind) error {
		return w.Add(binary.BigEndian.Uint64(comp), comp[state.HashBytes:], value, kd != kindValue)
	})
	return h.finish(w, path, err)
}

// finish completes a run file and opens it; nil if it would be empty.
func (h *history) finish(w *runs.Writer, path string, err error) (*liveRun, error) {
	if err != nil || w.Count() == 0 {
		w.Abort()
		return nil, err
	}
	info, err := w.FinishUnsynced() // many are merged away before a snapshot names them
	if err != nil {
		return nil, err
	}
	r, err := runs.Open(h.cfg.FS, path, false)
	if err != nil {
		return nil, errors.Join(err, h.cfg.FS.Remove(path))
	}
	return &liveRun{run: r, lo: info.Lo, hi: info.Hi, path: path, size: info.Size, refs: 1}, nil
}

// publish hands the live runs to the snapshot store and names them.
func (h *history) publish() (state.StateSnapshot, error) {
	d := h.cfg.Descriptor
	snap := state.StateSnapshot{Name: d.Name, Kind: string(d.Kind), Version: d.Version}
	h.mu.Lock()
	live := append([]*liveRun(nil), h.live...)
	for _, l := range live {
		l.refs++
	}
	h.mu.Unlock()
	var err error
	for i, l := range live {
		if i > 0 {
			crashpoint.Hit(crashpoint.MidUpload)
		}
		if err == nil {
			err = h.hand(l)
		}
		snap.Runs = append(snap.Runs, state.Run{Object: l.object, Size: l.size, Lo: l.lo, Hi: l.hi, Count: l.run.Info().Count})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range live {
		h.release(l)
	}
	if err != nil {
		return state.StateSnapshot{}, err
	}
	return snap, nil
}

// hand gives a run's file to the snapshot store, or tells it that the object is still in use.
func (h *history) hand(l *liveRun) error {
	if l.object != "" {
		if _, _, err := h.cfg.Objects.AddFile(h.ctx, l.stored); err == nil || l.path == "" {
			return state.StorageError("keep in the snapshot store", l.stored, err)
		}
	}
	if !l.synced {
		if err := h.cfg.FS.SyncFile(l.path); err != nil {
			return state.StorageError("sync", l.path, err)
		}
		l.synced = true
	}
	digest, size, err := h.cfg.Objects.AddFile(h.ctx, l.path)
	if err != nil {
		return err
	}
	stored, err := h.cfg.Objects.Path(h.ctx, digest)
	if err != nil {
		return err
	}
	l.object, l.size, l.stored = digest, size, stored
	return nil
}

// release drops a reference; the mutex is held.
func (h *history) release(l *liveRun) {
	if l.refs--; l.refs > 0 {
		return
	}
	if err := l.run.Close(); err != nil {
		h.cfg.Log.Warn("unmap run", "file", l.run.Path(), "error", err)
	}
	if l.path != "" {
		_ = h.cfg.FS.Remove(l.path) // the folder is emptied at the next start
	}
}

// reclaim gives written logs back to the task.
func (h *history) reclaim(l *opLog, keep int64) {
	h.mu.Lock()
	done := h.done
	h.done = nil
	h.mu.Unlock()
	for _, s := range done {
		l.recycle(s, keep)
	}
}

// sizes are the bytes of live runs, of sealed logs in memory, and written by merges.
func (h *history) sizes() (cold, logs, merged int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.live {
		cold += l.weight()
	}
	logs = h.waiting
	for _, s := range h.done {
		logs += s.bytes
	}
	return cold, logs, h.merges
}

// close waits for what runs, fails the cuts that wait and gives everything back.
func (h *history) close() {
	h.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for h.working || h.merging {
		h.changed.Wait()
	}
	h.stop(fmt.Errorf("state: %s of operator %s closed", h.cfg.Descriptor.Name, h.cfg.Operator))
	for _, j := range h.queue {
		j.seg.close()
	}
	for _, s := range h.done {
		s.close()
	}
	for _, l := range h.live {
		h.release(l)
	}
	h.queue, h.done, h.live, h.waiting = nil, nil, nil, 0
}
