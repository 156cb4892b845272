package backend

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/runs"
	"github.com/millrace-io/millrace/state/table"
)

// background writes spills and cuts, one after the other in the order they were made, and merges beside
// that. It hands results back as functions that the owner runs.
type background struct {
	fs   state.FS
	ctx  context.Context
	path func(kind string) string

	mu      sync.Mutex
	changed sync.Cond
	queue   []job
	pending int64 // bytes of spills in the queue
	limit   int64 // of pending, before the owner waits
	failed  error // of the spill at the head of the queue; it is tried again when kicked
	kicked  bool
	closed  bool
	running sync.WaitGroup
	started bool

	results []func()
	ready   atomic.Bool  // there are results
	cutMem  atomic.Int64 // bytes of the cut being written
}

// job is a spill or a cut.
type job struct {
	spill *spill
	cut   *cut
	done  func(*file) // on the owner
}

func newBackground(s *valueStore) *background {
	b := &background{fs: s.cfg.FS, ctx: s.ctx, path: s.path}
	b.changed.L = &b.mu
	return b
}

func (b *background) setLimit(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = bytes
}

func (b *background) memory() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending + b.cutMem.Load()
}

// submit queues a job.
func (b *background) submit(j job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = append(b.queue, j)
	if j.spill != nil {
		b.pending += j.spill.recs.Bytes()
	}
	b.kicked = true
	if !b.started {
		b.started = true
		b.running.Add(1)
		go b.work()
	}
	b.changed.Broadcast()
}

// waitForSpills is the back-pressure: it returns when the spills in memory are below their limit. If the
// head of the queue can't be written it is tried once more, and its error returned.
func (b *background) waitForSpills() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for kicked := false; b.pending > b.limit && !b.closed; b.changed.Wait() {
		if b.failed != nil && !b.kicked {
			if kicked {
				return b.failed
			}
			kicked, b.kicked = true, true
			b.changed.Broadcast()
		}
	}
	return nil
}

// waitForResult returns when there is a result to take, or nothing more will come.
func (b *background) waitForResult() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.results) == 0 && !b.closed {
		b.changed.Wait()
	}
}

// work is the worker's goroutine.
func (b *background) work() {
	defer b.running.Done()
	for {
		j, ok := b.next()
		if !ok {
			return
		}
		if j.cut != nil {
			j.cut.write(b)
			b.finish(j, nil)
			continue
		}
		f, err := b.writeSpill(j.spill)
		if err == nil {
			b.finish(j, func() { j.done(f) })
			continue
		}
		b.giveUp(err)
	}
}

// next waits for a job and leaves it at the head of the queue.
func (b *background) next() (job, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.closed && (len(b.queue) == 0 || b.failed != nil && !b.kicked) {
		b.changed.Wait()
	}
	if b.closed {
		return job{}, false
	}
	b.kicked, b.failed = false, nil
	return b.queue[0], true
}

// finish takes the job from the queue and hands the result over.
func (b *background) finish(j job, result func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue[0] = job{}
	b.queue = b.queue[1:]
	if j.spill != nil {
		b.pending -= j.spill.recs.Bytes()
	}
	if result != nil {
		b.results = append(b.results, result)
		b.ready.Store(true)
	}
	b.changed.Broadcast()
}

// giveUp leaves a spill that can't be written where it is, in memory. Cuts behind it fail: they would
// need it.
func (b *background) giveUp(err error) {
	b.mu.Lock()
	b.failed = err
	var cuts []*cut
	keep := b.queue[:0]
	for _, j := range b.queue {
		if j.cut != nil {
			cuts = append(cuts, j.cut)
		} else {
			keep = append(keep, j)
		}
	}
	b.queue = keep
	b.changed.Broadcast()
	b.mu.Unlock()
	for _, c := range cuts {
		c.fail(err)
		b.cutMem.Store(0)
	}
}

// writeSpill makes a spill a file.
func (b *background) writeSpill(s *spill) (*file, error) {
	f, err := writeRun(b.fs, b.path("spill"), false, func(w *runs.Writer) error {
		return addAll(b.ctx, w, &s.recs, s.refs)
	})
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.file = f; s.held {
		f.ref()
	}
	return f, nil
}

// hold gives a cut a reference to the file that a spill is or will be: spill.file, once the jobs before
// the cut are done.
func (b *background) hold(s *spill) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.held = true
	if s.file != nil {
		s.file.ref()
	}
}

// letGo takes back what hold did.
func (b *background) letGo(s *spill) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.file != nil {
		s.file.release()
	}
	s.held = false
}

// post hands a result over.
func (b *background) post(result func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, result)
	b.ready.Store(true)
	b.changed.Broadcast()
}

// take returns the results that the owner has not run yet.
func (b *background) take() []func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.results
	b.results = nil
	b.ready.Store(false)
	return r
}

// close waits for the goroutines and fails the cuts still queued. The context is cancelled.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	b.running.Wait()
	for _, j := range b.queue {
		if j.cut != nil {
			j.cut.fail(errClosed)
		}
	}
	b.queue = nil
}

// writeRun writes a run file and maps it. Without entries there is no file.
func writeRun(fs state.FS, path string, sync bool, fill func(*runs.Writer) error) (*file, error) {
	w, err := runs.NewWriter(fs, path)
	if err != nil {
		return nil, err
	}
	if err := fill(w); err != nil {
		w.Abort()
		return nil, err
	}
	if w.Count() == 0 {
		w.Abort()
		return nil, nil
	}
	finish := w.FinishUnsynced
	if sync {
		finish = w.Finish
	}
	info, err := finish()
	if err != nil {
		return nil, err
	}
	f, err := openLocal(fs, info, sync)
	if err != nil {
		return nil, errors.Join(err, fs.Remove(path))
	}
	return f, nil
}

// addAll writes sorted records.
func addAll(ctx context.Context, w *runs.Writer, r *table.Records, refs []table.Ref) error {
	for i, x := range refs {
		if i&4095 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		k, v, tomb := r.Get(x)
		if err := w.Add(x.Hash, k, v, tomb); err != nil {
			return err
		}
	}
	return nil
}
