package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/window"
	"github.com/millrace-io/millrace/operators/window/windowtest"
	"github.com/millrace-io/millrace/state"
	"github.com/millrace-io/millrace/state/backend"
	"github.com/millrace-io/millrace/state/coldpebble"
	"github.com/millrace-io/millrace/state/ordered"
)

// Budgets of a task on disk. With the small one every block leaves memory as soon as it is stored.
const (
	budget      = 16 << 20
	smallBudget = 64 << 10
)

var hasher = state.Hasher{Seed: 20010101}

// machine runs orders of arrival through the real operator and the real state, in one or more tasks of which
// each owns its slots, as an exchange would have it. One goroutine uses it.
type machine struct {
	disk   *disk
	dir    string // of cold: Pebble has a disk of its own
	cold   *coldpebble.Env
	frames [][]byte // of the records of the stream
	hashes []uint64
	keys   map[string]string

	node    *operators.Node
	v       variant
	tasks   []*task
	now     int64
	opened  int
	cuts    checkpoint.ID
	results []outcome
	bad     error // an output that no window operator should give

	restores, spilled int64
	held              int // records in the batches
}

// task is one of the operator's.
type task struct {
	m     *machine
	op    *window.Op
	ctx   *operators.Context
	batch abi.Batch
}

func newMachine() (*machine, error) {
	m := &machine{disk: newDisk(), keys: map[string]string{}}
	var err error
	if m.dir, err = os.MkdirTemp("", "millrace-shuffles-"); err != nil {
		return nil, err
	}
	m.cold = coldpebble.New(m.dir, coldpebble.Options{CacheBytes: 1 << 20, MemTableBytes: 1 << 20, Log: slog.New(slog.DiscardHandler)})
	return m, nil
}

func (m *machine) close() error { return errors.Join(m.cold.Close(), os.RemoveAll(m.dir)) }

// load makes a stream the machine's input.
func (m *machine) load(rs []windowtest.Rec) {
	m.frames, m.hashes = m.frames[:0], m.hashes[:0]
	for i := range rs {
		var b abi.RowBuilder
		b.Reset(len(fields))
		b.SetInt64(0, rs[i].V)
		b.SetInt64(1, windowtest.Gap(rs[i].V))
		m.frames = append(m.frames, abi.AppendRecord(nil, &abi.Record{Time: rs[i].Time, Key: []byte(rs[i].Key), Value: b.Bytes()}))
		m.hashes = append(m.hashes, hasher.Hash([]byte(rs[i].Key)))
		m.keys[rs[i].Key] = rs[i].Key
	}
}

type clock struct{ m *machine }

// NowMS implements operators.Clock.
func (c clock) NowMS() int64 { return c.m.now }

func (m *machine) start(tasks int, restored []checkpoint.OperatorSnapshot) error {
	m.tasks = m.tasks[:0]
	for i := range tasks {
		m.opened++
		ctx := &operators.Context{Context: context.Background(), Job: "shuffles", Operator: "w", Task: i, Parallelism: tasks,
			Range: state.TaskRange(i, tasks), Hasher: hasher, Clock: clock{m}, Log: slog.New(slog.DiscardHandler),
			WorkDir: fmt.Sprintf("work/%d", m.opened), Objects: m.disk, Budget: budget, StateKind: backend.Memory,
			Batch: m.v.batch, Restored: restored, Describe: func(abi.Position) string { return "a record" }, Crash: func(string) {}}
		if m.v.disk {
			ctx.StateKind = backend.Disk
		}
		if m.v.spills {
			ctx.Budget = smallBudget
		}
		t := &task{m: m, ctx: ctx, op: window.New(window.Config{Node: m.node, OpenKeyed: m.openKeyed})}
		m.tasks = append(m.tasks, t)
		if err := t.op.Open(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) openKeyed(ctx *operators.Context, ds []state.Descriptor) (state.Keyed, error) {
	var restore []state.Snapshot
	for _, s := range ctx.Restored {
		if s.Keyed != nil {
			restore = append(restore, *s.Keyed)
		}
	}
	return backend.Open(backend.Config{Operator: ctx.Operator, Descriptors: ds, Range: ctx.Range, Hasher: ctx.Hasher,
		Budget: ctx.Budget, Dir: ctx.WorkDir, Kind: ctx.StateKind, Objects: ctx.Objects, Restore: restore, FS: m.disk, Log: ctx.Log,
		NewOrdered: func(c state.PartConfig) (backend.OrderedPart, error) { return ordered.Open(c, m.cold) },
		NewTimers:  func(c state.PartConfig) (backend.TimersPart, error) { return ordered.OpenTimers(c, m.cold) }})
}

func (m *machine) stop() error {
	var errs []error
	for _, t := range m.tasks {
		_, held := t.op.Stats()
		m.spilled += held.Evictions
		errs = append(errs, t.op.Close(), m.disk.RemoveAll(t.ctx.WorkDir))
	}
	m.tasks = m.tasks[:0]
	return errors.Join(errs...)
}

// run runs the events in the way of a variant, up to the final watermark. The results are in m.results.
func (m *machine) run(w *operators.WindowNode, v variant, es []event) (err error) {
	m.node = &operators.Node{ID: "w", Kind: operators.NodeWindow, Parallelism: v.tasks, Keyed: true, Schema: window.Schema(w), Window: w}
	m.v, m.now, m.results, m.bad = v, 0, m.results[:0], nil
	defer func() {
		if m.tasks != nil {
			err = errors.Join(err, m.stop())
		}
		err = errors.Join(err, m.disk.RemoveAll("objects"), m.bad)
	}()
	if err := m.start(v.tasks, nil); err != nil {
		return err
	}
	at := 0
	for _, r := range v.restores {
		if err := m.events(es[at:r.at]); err != nil {
			return err
		}
		if err := m.restore(r, es[r.at:min(r.at+r.past, len(es))]); err != nil {
			return fmt.Errorf("restore before event %d: %w", r.at, err)
		}
		at = r.at
	}
	if err := m.events(es[at:]); err != nil {
		return err
	}
	for _, t := range m.tasks {
		t.batch.Mark(abi.MaxWatermark)
	}
	if err := m.flush(); err != nil {
		return err
	}
	return m.late()
}

// late checks that no record was late, since none should be.
func (m *machine) late() error {
	for _, t := range m.tasks {
		if n := t.op.Counters()["late"]; n != 0 {
			return fmt.Errorf("%d records are late, expected none", n)
		}
	}
	return nil
}

// events hands events over in batches; what is held is flushed at the end.
func (m *machine) events(es []event) error {
	for i := range es {
		switch e := &es[i]; e.kind {
		case 'r':
			h := m.hashes[e.rec]
			t := m.tasks[state.TaskOf(h, len(m.tasks))]
			t.batch.AppendFrame(m.frames[e.rec])
			t.batch.Hash = append(t.batch.Hash, h)
			m.held++
		case 'w':
			for _, t := range m.tasks {
				t.batch.Mark(e.ms)
			}
		case 'c':
			if err := m.tick(e.ms); err != nil {
				return err
			}
		}
		if m.held >= m.v.batch {
			if err := m.flush(); err != nil {
				return err
			}
		}
	}
	return m.flush()
}

// tick moves the clock, which goes on over a restore.
func (m *machine) tick(ms int64) error {
	if err := m.flush(); err != nil {
		return err
	}
	m.now = max(m.now, ms)
	for _, t := range m.tasks {
		if err := t.op.OnProcessingTime(m.now, t); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) flush() error {
	m.held = 0
	for _, t := range m.tasks {
		if t.batch.Empty() {
			continue
		}
		if err := t.op.Batch(0, &t.batch, t); err != nil {
			return err
		}
		t.batch.Reset()
		if _, err := t.op.Step(); err != nil {
			return err
		}
	}
	return nil
}

// restore cuts, goes on for some events, which are lost with what they gave, and starts anew from the cut.
func (m *machine) restore(r restore, lost []event) error {
	m.cuts++
	m.restores++
	var cuts []operators.Pending
	for _, t := range m.tasks {
		p, err := t.op.Barrier(checkpoint.Barrier{ID: m.cuts})
		if err != nil {
			return err
		}
		cuts = append(cuts, p)
	}
	results := len(m.results)
	if err := m.events(lost); err != nil {
		return err
	}
	var snaps []checkpoint.OperatorSnapshot
	for i, p := range cuts {
		for busy := true; busy; {
			var err error
			if busy, err = m.tasks[i].op.Step(); err != nil {
				return err
			}
		}
		<-p.Done()
		s, err := p.Result()
		if err != nil {
			return err
		}
		snaps = append(snaps, s)
	}
	if err := m.stop(); err != nil {
		return err
	}
	m.results = m.results[:results]
	return m.start(r.tasks, snaps)
}
