package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/guests/cases"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/operators/spec"
)

// Changing a keyed job that runs: first every key gets its state, then 100k records/s come by the clock, and in
// the middle of that the module is swapped, or the parallelism changed, or the job dies and starts again.
// UPGRADE_KEYS says how many keys there are; 16 million make 1 GB of state.

const (
	upgradeRate     = 100_000
	upgradeKeys     = 1_000_000
	upgradeCalm     = 3 * time.Second // before and after the change
	swapBound       = 30              // ms that p99 may rise
	rescaleBound    = 200             // ms without output
	restartBound    = 2000            // ms to the first output
	upgradePipeline = `name: upgrade
checkpoint: {interval: 1s}
linger: 5ms
memory: 3GiB
operators:
  - {id: made, source: generator, kind: counter, records: 1000000000, keys: 1000}
  - {id: count, process: {module: count.wasm, function: count}, parallelism: 2}
  - {id: out, sink: blackhole}
`
)

func init() {
	Register("upgrade.swap", measureSwap)
	Register("upgrade.rescale", measureRescale)
	Register("upgrade.restart", measureRestart)
}

func upgradeKeyCount() int64 {
	if n, err := strconv.ParseInt(os.Getenv("UPGRADE_KEYS"), 10, 64); err == nil && n > 0 {
		return n
	}
	return upgradeKeys
}

// upgradeMeter makes the records of a job and takes its outputs.
type upgradeMeter struct {
	keys    int64
	began   atomic.Int64 // monotonic time at which record number keys was due; 0: the keys are not through
	outputs atomic.Int64
	made    atomic.Int64 // records, by the source of the last attempt
	// Of the sink's task, each for a batch: when it came, and how late its first record was, ns.
	at, late []int64
}

// upgradeSource is the one split of the source.
type upgradeSource struct {
	m    *upgradeMeter
	next int64
	key  []byte
}

// Open implements operators.Source.
func (s *upgradeSource) Open(ctx *operators.Context) error {
	for _, r := range ctx.Restored {
		for _, p := range r.Splits {
			s.next = p.Offset
		}
	}
	return nil
}

// keyOf is the key of record i: the first ones take each key once, the others as a scattered order has it.
func (m *upgradeMeter) keyOf(i int64) int64 {
	return int64(uint64(i) * 0x9e3779b97f4a7c15 >> 1 % uint64(m.keys))
}

// Poll implements operators.Source.
func (s *upgradeSource) Poll(b *abi.Batch, most int) (operators.PollStatus, error) {
	due := s.m.keys
	if began := s.m.began.Load(); began != 0 {
		due += (monotonic() - began) * upgradeRate / 1e9
	} else if s.next >= s.m.keys && s.m.outputs.Load() >= s.m.keys {
		s.m.began.Store(monotonic())
	}
	for ; s.next < due && !b.Full(most); s.next++ {
		k := s.next
		if k >= s.m.keys {
			k = s.m.keyOf(k)
		}
		s.key = binary.BigEndian.AppendUint64(s.key[:0], uint64(k))
		b.Append(&abi.Record{Time: s.next, Key: s.key, Value: s.key, Pos: abi.Position{Offset: uint64(s.next)}})
	}
	s.m.made.Store(s.next)
	if s.next < due {
		return operators.PollMore, nil
	}
	time.Sleep(200 * time.Microsecond)
	return operators.PollMore, nil
}

// Ready implements operators.Source.
func (s *upgradeSource) Ready() <-chan struct{} { return nil }

// Positions implements operators.Source.
func (s *upgradeSource) Positions() []checkpoint.SplitPosition {
	return []checkpoint.SplitPosition{{Split: "upgrade", Offset: s.next}}
}

// Describe implements operators.Source.
func (s *upgradeSource) Describe(p abi.Position) string { return fmt.Sprint("record ", p.Offset) }

// Close implements operators.Source.
func (s *upgradeSource) Close() error { return nil }

// upgradeSink implements operators.Operator.
type upgradeSink struct{ m *upgradeMeter }

// Open implements operators.Operator.
func (s upgradeSink) Open(*operators.Context) error { return nil }

// Close implements operators.Operator.
func (s upgradeSink) Close() error { return nil }

// Batch implements operators.Operator.
func (s upgradeSink) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	m := s.m
	if b.Len() == 0 {
		return nil
	}
	m.outputs.Add(int64(b.Len()))
	if began := m.began.Load(); began != 0 {
		now := monotonic()
		first := int64(b.Frame(0).Pos().Offset)
		m.at, m.late = append(m.at, now), append(m.late, now-began-(first-m.keys)*1e9/upgradeRate)
	}
	return nil
}

// upgradeRun is a job that is being measured.
type upgradeRun struct {
	*job.Job
	w    *world
	m    *upgradeMeter
	end  context.CancelFunc
	done chan error
}

func (w *world) upgradeOptions(m *upgradeMeter, parallelism int) (job.Options, error) {
	path := filepath.Join(w.dir, "pipeline.yaml")
	yaml := strings.Replace(upgradePipeline, "parallelism: 2", fmt.Sprint("parallelism: ", parallelism), 1)
	if err := os.WriteFile(path, []byte(yaml), 0o644); err != nil {
		return job.Options{}, err
	}
	g, err := spec.Load(path, spec.Options{Modules: moduleInfo{}})
	return job.Options{Graph: g, StateDir: filepath.Join(w.dir, "state"), Clock: clock.Wall{}, Module: w.compileFile, Restarts: -1,
		Source:   func(*operators.Node) (operators.Source, error) { return &upgradeSource{m: m}, nil },
		Operator: func(*operators.Node) (operators.Operator, error) { return upgradeSink{m}, nil }}, err
}

// compileFile compiles a module of the world's folder.
func (w *world) compileFile(ctx context.Context, n *operators.Node) (guestop.Module, error) {
	wasm, err := os.ReadFile(filepath.Join(w.dir, filepath.Base(n.Guest.Module)))
	if err != nil {
		return nil, err
	}
	e, err := theEngine()
	if err != nil {
		return nil, err
	}
	return e.Compile(ctx, wasm, nil)
}

// startUpgrade starts a job; it returns when all keys have state, a checkpoint is complete and it has run calmly.
func (w *world) startUpgrade(m *upgradeMeter) (*upgradeRun, error) {
	o, err := w.upgradeOptions(m, 2)
	if err != nil {
		return nil, err
	}
	j, err := job.New(context.Background(), o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &upgradeRun{Job: j, w: w, m: m, end: cancel, done: make(chan error, 1)}
	go func() {
		_, err := j.Run(ctx)
		r.done <- err
	}()
	for m.began.Load() == 0 {
		select {
		case err := <-r.done:
			return nil, errors.Join(err, errors.New("the job has ended"), j.Close())
		case <-time.After(10 * time.Millisecond):
		}
	}
	if _, err := j.Checkpoint(ctx); err != nil {
		return r, err
	}
	time.Sleep(upgradeCalm)
	return r, nil
}

// stop ends the job with a checkpoint, behind which every record made has come out.
func (r *upgradeRun) stop() error {
	r.Stop()
	err := <-r.done
	return errors.Join(err, r.Close())
}

// measured runs a measurement in a world of its own.
func measured(f func(w *world, m *upgradeMeter) error) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	back := prioritise()
	defer back()
	return f(w, &upgradeMeter{keys: upgradeKeyCount()})
}

// p99 is that of the lateness, ms, of what came between two times.
func (m *upgradeMeter) p99(from, to int64) (float64, error) {
	var ns []int64
	for i, at := range m.at {
		if at >= from && at < to {
			ns = append(ns, m.late[i])
		}
	}
	if len(ns) == 0 {
		return 0, errors.New("nothing came out")
	}
	slices.Sort(ns)
	return float64(ns[len(ns)*99/100]) / 1e6, nil
}

// longest is the longest time, ms, between two outputs from a time on.
func (m *upgradeMeter) longest(from, to int64) float64 {
	most, last := int64(0), from
	for _, at := range m.at {
		if at < from || at > to {
			continue
		}
		most, last = max(most, at-last), at
	}
	return float64(most) / 1e6
}

// another is a module that does the same, with other bytes.
func another(wasm []byte) []byte { return append(slices.Clone(wasm), 0, 5, 4, 'n', 'o', 't', 'e') }

func measureSwap() error {
	return measured(func(w *world, m *upgradeMeter) error {
		r, err := w.startUpgrade(m)
		if err != nil {
			return err
		}
		defer r.end()
		if err := os.WriteFile(filepath.Join(w.dir, "count.wasm"), another(cases.Module("count")), 0o644); err != nil {
			return err
		}
		o, err := w.upgradeOptions(m, 2)
		if err != nil {
			return err
		}
		before := m.began.Load()
		begun := monotonic()
		rev := job.Revision{Graph: o.Graph}
		if err := rev.Compile(context.Background(), r.Running().Modules, w.compileFile); err != nil {
			return err
		}
		if _, err := r.Swap(context.Background(), job.Swap{Revision: rev}); err != nil {
			return err
		}
		swapped := monotonic()
		time.Sleep(upgradeCalm)
		if err := r.stop(); err != nil {
			return err
		}
		rest, err := m.p99(before, begun)
		if err != nil {
			return err
		}
		during, err := m.p99(begun, swapped+int64(time.Second))
		if err != nil {
			return err
		}
		result.Note("upgrade.swap.records", float64(m.made.Load()), "records")
		result.AtMost("upgrade.swap.lost_or_doubled", math.Abs(float64(m.made.Load()-m.outputs.Load())), "records", 0)
		result.Note("upgrade.swap.p99_rest", rest, "ms")
		result.AtMost("upgrade.swap.p99_rise", during-rest, "ms", swapBound)
		return nil
	})
}

func measureRescale() error {
	return measured(func(w *world, m *upgradeMeter) error {
		r, err := w.startUpgrade(m)
		if err != nil {
			return err
		}
		defer r.end()
		o, err := w.upgradeOptions(m, 4)
		if err != nil {
			return err
		}
		rev := job.Revision{Graph: o.Graph}
		if err := rev.Compile(context.Background(), r.Running().Modules, w.compileFile); err != nil {
			return err
		}
		begun := monotonic()
		if _, err := r.Change(context.Background(), job.Change{Revision: rev}); err != nil {
			return err
		}
		changed := monotonic()
		time.Sleep(upgradeCalm)
		if err := r.stop(); err != nil {
			return err
		}
		result.Note("upgrade.rescale.restart", float64(r.Stats().Upgrade.Millis), "ms")
		result.AtMost("upgrade.rescale.gap", m.longest(begun, changed+int64(time.Second)), "ms", rescaleBound)
		return nil
	})
}

func measureRestart() error {
	return measured(func(w *world, m *upgradeMeter) error {
		r, err := w.startUpgrade(m)
		if err != nil {
			return err
		}
		r.end() // as far as a process can kill itself: nothing is flushed or acknowledged any more
		<-r.done
		if err := r.Close(); err != nil {
			return err
		}
		came := m.outputs.Load()
		begun := monotonic()
		o, err := w.upgradeOptions(m, 2)
		if err != nil {
			return err
		}
		j, err := job.New(context.Background(), o)
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() {
			_, err := j.Run(context.Background())
			done <- err
		}()
		for m.outputs.Load() == came {
			select {
			case err := <-done:
				return errors.Join(err, j.Close())
			case <-time.After(time.Millisecond):
			}
		}
		first := float64(monotonic()-begun) / 1e6
		j.Stop()
		err = errors.Join(<-done, j.Close())
		result.AtMost("upgrade.restart.first_output", first, "ms", restartBound)
		return err
	})
}
