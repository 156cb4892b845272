package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/checkpoint/mirror"
	"github.com/millrace-io/millrace/checkpoint/objectstore"
	"github.com/millrace-io/millrace/checkpoint/snapstore"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/spec"
)

// A fork, and the copy of a snapshot elsewhere: every key gets its state, then one in a hundred records' worth of
// keys change. UPGRADE_KEYS says how many keys there are; 16 million make 1 GB of state.
const (
	forkBound    = 1 // s to the first output
	uploadBound  = 3 // % of the first upload
	forkPipeline = `name: fork
checkpoint: {interval: 1h}
linger: 5ms
memory: 3GiB
operators:
  - {id: made, source: generator, kind: counter, records: 1000000000, keys: 1000}
  - {id: count, process: {module: count.wasm, function: count}}
  - {id: out, sink: blackhole}
`
)

func init() { Register("snapshot.fork", measureFork) }

// forkFeed makes records up to a limit, and counts what comes out.
type forkFeed struct {
	keys    int64
	limit   atomic.Int64
	outputs atomic.Int64
}

// forkSource is its one split.
type forkSource struct {
	f    *forkFeed
	next int64
	key  []byte
}

// Open implements operators.Source.
func (s *forkSource) Open(ctx *operators.Context) error {
	for _, r := range ctx.Restored {
		for _, p := range r.Splits {
			s.next = p.Offset
		}
	}
	return nil
}

// Poll implements operators.Source.
func (s *forkSource) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	limit := s.f.limit.Load()
	for ; s.next < limit && !b.Full(most); s.next++ {
		k := s.next
		if k >= s.f.keys {
			k = int64(uint64(k) * 0x9e3779b97f4a7c15 >> 1 % uint64(s.f.keys))
		}
		s.key = binary.BigEndian.AppendUint64(s.key[:0], uint64(k))
		b.Append(&abi.Record{Time: s.next, Key: s.key, Value: s.key, Pos: abi.Position{Offset: uint64(s.next)}})
	}
	if b.Len() == 0 {
		time.Sleep(200 * time.Microsecond)
	}
	return operators.PollMore, nil
}

// Ready implements operators.Source.
func (s *forkSource) Ready() <-chan struct{} { return nil }

// Positions implements operators.Source.
func (s *forkSource) Positions() []checkpoint.SplitPosition {
	return []checkpoint.SplitPosition{{Split: "fork", Offset: s.next}}
}

// Describe implements operators.Source.
func (s *forkSource) Describe(p abi.Position) string { return fmt.Sprint("record ", p.Offset) }

// Close implements operators.Source.
func (s *forkSource) Close() error { return nil }

// forkSink implements operators.Operator.
type forkSink struct{ f *forkFeed }

// Open implements operators.Operator.
func (forkSink) Open(*operators.Context) error { return nil }

// Close implements operators.Operator.
func (forkSink) Close() error { return nil }

// Batch implements operators.Operator.
func (s forkSink) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	s.f.outputs.Add(int64(b.Len()))
	return nil
}

// forkRun is a job that runs.
type forkRun struct {
	*job.Job
	f    *forkFeed
	end  context.CancelFunc
	done chan error
}

func (w *world) forkJob(f *forkFeed, dir string) (*forkRun, error) {
	path := filepath.Join(w.dir, "fork.yaml")
	if err := os.WriteFile(path, []byte(forkPipeline), 0o644); err != nil {
		return nil, err
	}
	g, err := spec.Load(path, spec.Options{Modules: moduleInfo{}})
	if err != nil {
		return nil, err
	}
	j, err := job.New(context.Background(), job.Options{Graph: g, StateDir: dir, Clock: clock.Wall{}, Module: w.compileFile, Restarts: -1,
		Source:   func(*operators.Node) (operators.Source, error) { return &forkSource{f: f}, nil },
		Operator: func(*operators.Node) (operators.Operator, error) { return forkSink{f}, nil }})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &forkRun{Job: j, f: f, end: cancel, done: make(chan error, 1)}
	go func() {
		_, err := j.Run(ctx)
		r.done <- err
	}()
	return r, nil
}

// until lets records through and waits for their outputs.
func (r *forkRun) until(records, outputs int64) error {
	for r.f.limit.Store(records); r.f.outputs.Load() < outputs; {
		select {
		case err := <-r.done:
			return errors.Join(err, errors.New("the job has ended"))
		case <-time.After(200 * time.Microsecond):
		}
	}
	return nil
}

// stop ends the job; with a checkpoint if asked.
func (r *forkRun) stop(checkpoint bool) error {
	if !checkpoint {
		r.end()
		<-r.done
		return r.Close()
	}
	r.Stop()
	return errors.Join(<-r.done, r.Close())
}

func measureFork() error {
	return measured(func(w *world, m *upgradeMeter) error {
		f := &forkFeed{keys: m.keys}
		r, err := w.forkJob(f, filepath.Join(w.dir, "state"))
		if err != nil {
			return err
		}
		defer r.end()
		if err := r.until(f.keys, f.keys); err != nil {
			return err
		}
		first, err := r.Checkpoint(context.Background())
		if err != nil {
			return err
		}
		more := f.keys + f.keys/100
		if err := r.until(more, more); err != nil {
			return err
		}
		second, err := r.Checkpoint(context.Background())
		if err != nil {
			return err
		}
		if err := w.uploads(first, second); err != nil {
			return err
		}
		if err := r.stop(false); err != nil {
			return err
		}
		return w.fork(f, second)
	})
}

// uploads copies a snapshot, then the next one, and compares what that took.
func (w *world) uploads(first, second checkpoint.ID) (err error) {
	store, err := snapstore.Open(filepath.Join(w.dir, "state", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	at := objectstore.NewDir(objectstore.DirOptions{Path: filepath.Join(w.dir, "mirror"), Random: rand.Reader})
	mi := mirror.New(mirror.Options{Store: at, Job: "fork", NowMS: clock.Wall{}.NowMS, Random: rand.Reader})
	whole, err := mi.Push(context.Background(), store, first)
	if err != nil {
		return err
	}
	delta, err := mi.Push(context.Background(), store, second)
	if err != nil {
		return err
	}
	result.Note("snapshot.upload.first", float64(whole.Bytes)/1e6, "MB")
	result.AtMost("snapshot.upload.changed", 100*float64(delta.Bytes)/float64(whole.Bytes), "%", uploadBound)
	return nil
}

// fork starts a second job from a snapshot and waits for its first output.
func (w *world) fork(f *forkFeed, id checkpoint.ID) error {
	was := f.outputs.Load()
	begun := monotonic()
	from, err := snapstore.Open(filepath.Join(w.dir, "state", "snapshots"), snapstore.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	dir := filepath.Join(w.dir, "second")
	to, err := snapstore.Open(filepath.Join(dir, "snapshots"), snapstore.Options{})
	if err != nil {
		return errors.Join(err, from.Close())
	}
	m, err := to.Fork(context.Background(), from, id, "")
	if err = errors.Join(err, to.Close(), from.Close()); err != nil {
		return err
	}
	forked := monotonic()
	f.limit.Add(f.keys / 100)
	r, err := w.forkJob(f, dir)
	if err != nil {
		return err
	}
	defer r.end()
	if err := r.until(f.limit.Load(), was+1); err != nil {
		return err
	}
	result.Note("snapshot.fork.state", float64(m.TotalBytes())/1e6, "MB")
	result.Note("snapshot.fork.made", float64(forked-begun)/1e6, "ms")
	result.AtMost("snapshot.fork.first_output", float64(monotonic()-begun)/1e9, "s", forkBound)
	return r.stop(false)
}
