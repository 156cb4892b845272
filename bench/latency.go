package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/bench/result"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/host/clock"
	"github.com/millrace-io/millrace/host/job"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/generator"
)

// Latency from source to uncommitted output: 50k records/s by the generator's own rate, one exchange,
// linger 5 ms. A record counts from the moment at which the rate lets it through, so that a stall of the
// source counts too. This is wall time: the process asks for a high priority while it lasts, and the
// machine's own delay of a 1 ms sleep is printed beside it.

const (
	latencyRate    = 50_000
	latencySeconds = 10
	latencyWarmUp  = 2
	latencyBound   = 20 // ms, p99
)

func init() {
	Register("latency", func() error { return measureLatency("latency", latencyPipeline, offsetOf) })
	Register("latency.timer", func() error { return measureLatency("latency.timer", alarmPipeline, movedBy) })
}

// alarmPipeline sets a timer for each record, 10 s of event time ahead: a fifth of a second at this rate.
const alarmPipeline = `name: alarm
checkpoint: {interval: 1s}
linger: 5ms
operators:
  - {id: made, source: generator, kind: counter, records: %d, rate: %d, keys: 100000}
  - {id: alarm, process: {module: alarm.wasm, function: alarm}}
  - {id: out, sink: blackhole}
`

const latencyPipeline = `name: latency
checkpoint: {interval: 1s}
linger: 5ms
operators:
  - {id: made, source: generator, kind: counter, records: %d, rate: %d, keys: 100000}
  - {id: count, process: {module: count.wasm, function: count}}
  - {id: out, sink: blackhole}
`

// offsetOf is the record that an output comes from.
func offsetOf(f abi.Frame) int64 { return int64(f.Pos().Offset) }

// movedBy is the record that moved the watermark past the timer which gave an output: it says the watermark
// behind its own time, and records are 1 ms apart, from 0 on, with no allowance for disorder.
func movedBy(f abi.Frame) int64 {
	return int64(binary.LittleEndian.Uint64(f.Value()[8:])) + 1
}

// measureLatency runs a pipeline. record is the offset of the one from whose creation an output's delay
// counts.
func measureLatency(name, pipeline string, record func(abi.Frame) int64) (err error) {
	w, err := newWorld()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var p99s, p50s, left []float64
	yaml := fmt.Sprintf(pipeline, latencyRate*(latencySeconds+latencyWarmUp), latencyRate)
	back := prioritise()
	defer back()
	for range 3 {
		stop, err := startProbe()
		if err != nil {
			return err
		}
		m := &latencyMeter{record: record}
		_, err = w.run(yaml, steady{}, m.install)
		gaps, perr := stop()
		if err := errors.Join(err, perr); err != nil {
			return err
		}
		all := len(m.ns)
		if most := latencyRate * latencySeconds; all < most*9/10 {
			return fmt.Errorf("%s: %d outputs of %d records", name, all, most)
		}
		m.leaveOut(gaps)
		if len(m.ns) == 0 {
			return errors.New("the machine stood still all the time")
		}
		left = append(left, 1-float64(len(m.ns))/float64(all))
		slices.Sort(m.ns)
		p50s = append(p50s, float64(m.ns[len(m.ns)/2])/1e6)
		p99s = append(p99s, float64(m.ns[len(m.ns)*99/100])/1e6)
	}
	result.Note(name+".left_out", result.Median(left), "of_records")
	result.Note(name+".p50", result.Median(p50s), "ms")
	result.AtMost(name+".p99", result.Median(p99s), "ms", latencyBound)
	return nil
}

// latencyMeter is the sink of the pipeline, and knows when its source began.
type latencyMeter struct {
	record func(abi.Frame) int64
	start  atomic.Int64 // monotonic time at which the source was opened
	ns     []int64      // of each record from latencyWarmUp on, in order of their creation
	of     []int64      // those records' offsets
}

func (m *latencyMeter) install(o *job.Options) {
	o.Source = func(n *operators.Node) (operators.Source, error) {
		return &startedSource{generator.NewSource(n), m}, nil
	}
	o.Operator = func(*operators.Node) (operators.Operator, error) { return m, nil }
}

// steady is the clock of these jobs: what paces the source and what measures must go alike, and the system's
// time of day may be set while they run.
type steady struct{ clock.Wall }

// NowMS implements clock.Clock.
func (steady) NowMS() int64 { return monotonic() / 1e6 }

type startedSource struct {
	*generator.Source
	m *latencyMeter
}

// Open implements operators.Source. The generator counts its rate from here on, in whole ms.
func (s *startedSource) Open(ctx *operators.Context) error {
	for monotonic()%1e6 > 50_000 { // at the start of one
	}
	s.m.start.Store(monotonic())
	return s.Source.Open(ctx)
}

// Rejected implements operators.Rejecter.
func (s *startedSource) Rejected() *abi.Batch { return s.Source.Rejected() }

// Positions implements operators.Source.
func (s *startedSource) Positions() []checkpoint.SplitPosition { return s.Source.Positions() }

// Open implements operators.Operator.
func (m *latencyMeter) Open(*operators.Context) error {
	m.ns = make([]int64, 0, latencyRate*(latencySeconds+latencyWarmUp))
	m.of = make([]int64, 0, cap(m.ns))
	return nil
}

// Batch implements operators.Operator.
func (m *latencyMeter) Batch(_ int, b *abi.Batch, _ operators.Collector) error {
	since := monotonic() - m.start.Load()
	for i := range b.Off {
		offset := m.record(b.Frame(i))
		if offset >= latencyWarmUp*latencyRate && offset < (latencySeconds+latencyWarmUp)*latencyRate {
			m.ns = append(m.ns, since-offset*1e9/latencyRate)
			m.of = append(m.of, offset)
		}
	}
	return nil
}

// Close implements operators.Operator.
func (m *latencyMeter) Close() error { return nil }

// leaveOut drops the records that were created in a gap, or so shortly before that it hit them on their way.
func (m *latencyMeter) leaveOut(gaps []gap) {
	const before, after = 25e6, 10e6
	kept := m.ns[:0]
	for i, ns := range m.ns {
		at := m.start.Load() + m.of[i]*1e9/latencyRate
		for len(gaps) > 0 && gaps[0].end+after < at {
			gaps = gaps[1:]
		}
		if len(gaps) == 0 || at < gaps[0].start-before {
			kept = append(kept, ns)
		}
	}
	m.ns = kept
}
