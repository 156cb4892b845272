package drive

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/conform/corpus"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
)

// Variant is one way to run a case. All must give the same results.
type Variant struct {
	Name        string
	Backend     string // backend.Memory or backend.Disk
	Interpreter bool   // guests
	// Batch is how many steps go into one batch at most; over 1 a result's step is not known.
	Batch int
	// Restore says before which steps, by their number, the operator is cut, closed and started anew from
	// the snapshot; nil: never. len(steps) is after the last.
	Restore func(step int) bool
}

// driven is what a case's operator is to the driver.
type driven struct {
	open func(w *World, v Variant) (operators.Operator, error)
	// record makes the operator's input from a step's.
	record func(r *corpus.Record) ([]byte, error)
	late   int                                // number of the late output, 0: none
	drops  func(op operators.Operator) int64  // late records that vanished; nil: none do
	result func(value []byte) ([]byte, error) // makes the case's form of a main result; nil: as it is
	input  func(late []byte) ([]byte, error)  // makes the record's value as the case has it; nil: as it is
}

// ErrNotBuilt says that nothing here can run cases of a kind yet.
var ErrNotBuilt = errors.New("not built")

// Run runs a case. An error is the driver's: it can't run such a case, or says that it misread it.
func (w *World) Run(c *corpus.Case, v Variant) (*corpus.Got, error) {
	d, err := w.describe(c)
	if err != nil {
		var r *refusal
		if errors.As(err, &r) {
			return &corpus.Got{Rejected: r.err}, nil
		}
		return nil, err
	}
	m := &machine{w: w, v: v, d: d, got: &corpus.Got{}}
	if err := m.start(nil); err != nil {
		return nil, fmt.Errorf("%s: open: %w", c.ID, err)
	}
	err = m.steps(c.Input)
	if err == nil {
		m.drops()
	}
	if err = errors.Join(err, m.stop()); err != nil {
		return nil, fmt.Errorf("%s: %w", c.ID, err)
	}
	return m.got, m.bad
}

// machine drives one operator through the steps.
type machine struct {
	w     *World
	v     Variant
	d     *driven
	clock clock
	op    operators.Operator
	ctx   *operators.Context
	got   *corpus.Got
	step  int
	batch abi.Batch
	held  int // steps in batch
	cuts  checkpoint.ID
	bad   error // an output that can't be read
}

func (m *machine) start(restored []checkpoint.OperatorSnapshot) error {
	op, err := m.d.open(m.w, m.v)
	if err != nil {
		return err
	}
	m.ctx = m.w.context(m.v, &m.clock, restored)
	if err := op.Open(m.ctx); err != nil {
		return errors.Join(err, op.Close())
	}
	m.op = op
	return nil
}

func (m *machine) stop() error {
	if m.op == nil {
		return nil
	}
	err := m.op.Close()
	m.op = nil
	return errors.Join(err, removeWork(m.ctx))
}

// steps runs all steps, or up to one at which the operator fails, which is a result.
func (m *machine) steps(steps []corpus.Step) error {
	for i := range steps {
		m.step = i
		if m.v.Restore != nil && m.v.Restore(i) {
			if err := m.restore(); err != nil {
				return fmt.Errorf("restore before step %d: %w", i, err)
			}
		}
		if err := m.one(&steps[i]); err != nil {
			return m.fails(err)
		}
		if m.held >= max(m.v.Batch, 1) {
			if err := m.flush(); err != nil {
				return m.fails(err)
			}
		}
	}
	if err := m.flush(); err != nil {
		return m.fails(err)
	}
	if m.v.Restore != nil && m.v.Restore(len(steps)) {
		return m.restore()
	}
	return nil
}

func (m *machine) fails(err error) error {
	var mine *driverError
	if errors.As(err, &mine) {
		return err
	}
	m.got.Failure, m.got.FailedAt = err, m.step
	return nil
}

// driverError is this driver's failure, not the operator's.
type driverError struct{ error }

func (m *machine) one(s *corpus.Step) error {
	switch {
	case s.Record != nil:
		value, err := m.d.record(s.Record)
		if err != nil {
			return &driverError{fmt.Errorf("step %d: %w", m.step, err)}
		}
		r := abi.Record{Time: s.Record.TS, Value: value, Pos: abi.Position{Offset: uint64(m.step)}}
		if s.Record.Key != nil {
			r.Key = []byte(*s.Record.Key)
			m.batch.Hash = append(m.batch.Hash, hasher.Hash(r.Key))
		}
		m.batch.Append(&r)
		m.held++
	case s.Watermark != nil:
		m.batch.Mark(*s.Watermark)
		m.held++
	case s.Clock != nil:
		if err := m.flush(); err != nil {
			return err
		}
		m.clock.ms = *s.Clock
		if p, ok := m.op.(operators.ProcessingTimer); ok {
			return p.OnProcessingTime(m.clock.ms, m)
		}
	case s.End:
		m.batch.Mark(abi.MaxWatermark)
		m.held++
	}
	return nil
}

// flush hands on what the batch holds, then lets the state do its work, as a task does.
func (m *machine) flush() error {
	if m.held == 0 {
		return nil
	}
	m.held = 0
	if !m.batch.Empty() {
		if err := m.op.Batch(0, &m.batch, m); err != nil {
			return err
		}
		m.batch.Reset()
	}
	if s, ok := m.op.(operators.Snapshotter); ok {
		_, err := s.Step()
		return err
	}
	return nil
}

// restore cuts, closes, and starts a fresh operator from the snapshot.
func (m *machine) restore() error {
	if err := m.flush(); err != nil {
		return err
	}
	s, ok := m.op.(operators.Snapshotter)
	if !ok {
		return fmt.Errorf("the operator makes no snapshots")
	}
	m.cuts++
	p, err := s.Barrier(checkpoint.Barrier{ID: m.cuts})
	if err != nil {
		return err
	}
	for busy := true; busy; {
		if busy, err = s.Step(); err != nil {
			return err
		}
	}
	<-p.Done()
	snap, err := p.Result()
	if err == nil {
		err = s.Complete(m.cuts)
	}
	m.drops()
	if err = errors.Join(err, m.stop()); err != nil {
		return err
	}
	return m.start([]checkpoint.OperatorSnapshot{snap})
}

// drops counts the late records that the operator has dropped so far; it counts from its own start.
func (m *machine) drops() {
	if m.d.drops != nil {
		m.got.LateDropped = m.d.drops(m.op)
	}
}

// Emit implements operators.Collector.
func (m *machine) Emit(output int, b *abi.Batch) error {
	if err := b.Check(); err != nil {
		return &driverError{fmt.Errorf("output %d: %w", output, err)}
	}
	for i := range b.Len() {
		r := b.Frame(i).Record()
		res := corpus.Result{After: m.step, Value: append([]byte(nil), r.Value...)}
		if r.Time != abi.NoTime {
			res.TS = &r.Time
		}
		if r.Key != nil {
			k := string(r.Key)
			res.Key = &k
		}
		var err error
		switch {
		case output == operators.OutputMain:
			if m.d.result != nil {
				res.Value, err = m.d.result(res.Value)
			}
			m.got.Main = append(m.got.Main, res)
		case m.d.late != 0 && output == m.d.late:
			if m.d.input != nil {
				res.Value, err = m.d.input(res.Value)
			}
			m.got.Late = append(m.got.Late, res)
		default:
			err = fmt.Errorf("a record on output %d, which the operator should not have", output)
		}
		if err != nil {
			return &driverError{fmt.Errorf("output %d: %w", output, err)}
		}
	}
	return nil
}
