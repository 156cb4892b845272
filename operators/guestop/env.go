package guestop

import (
	"strings"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/state"
)

// env is what the host calls of one call do. Writes to map, list and large value state are made at once
// and journalled; timers, outputs, failures and logs are staged. A record's effects lie at the tails of
// these lists, so that one record can be undone (fail) as well as all of them (rollback).
type env struct {
	op       *Op
	arena    []byte // bytes of journal, names, frames and messages; indexed, since it may move
	journal  []undo
	timers   []timerOp
	emits    []emit
	failures []failure
	logs     []logLine
	iters    []*scan
	metrics  []metric
	draws    randomStream
	err      error // of the host: fails the task
}

// span is a byte range of the arena.
type span struct{ lo, hi int }

type failure struct {
	record int
	msg    string
}

type emit struct {
	record, at int // at: byte of the output frames before which it goes
	span
}

type logLine struct {
	record, level int
	span
}

type metric struct {
	record int
	name   string
	add    int64
}

func (e *env) begin() {
	e.arena = e.arena[:0]
	e.journal, e.timers, e.emits = e.journal[:0], e.timers[:0], e.emits[:0]
	e.failures, e.logs, e.metrics = e.failures[:0], e.logs[:0], e.metrics[:0]
	e.draws.record = -1
	e.err = nil
}

func (e *env) keep(b []byte) span {
	lo := len(e.arena)
	e.arena = append(e.arena, b...)
	return span{lo, len(e.arena)}
}

func (e *env) bytes(s span) []byte { return e.arena[s.lo:s.hi:s.hi] }

// lastWords adds what the record at fault logged as errors to the fault: with some SDKs a panic's message
// and place. What the records before it logged, their new run logs again.
func (e *env) lastWords(f *Fault) {
	for _, l := range e.logs {
		if l.record != f.Record || l.level < abi.LogError {
			continue
		}
		if f.Stderr != "" && !strings.HasSuffix(f.Stderr, "\n") {
			f.Stderr += "\n"
		}
		f.Stderr += string(e.bytes(l.span))
	}
}

// rollback undoes everything since begin.
func (e *env) rollback() error {
	err := e.undoFrom(0)
	e.closeIters()
	e.begin()
	return err
}

// commit forgets how to undo, and lets logs and metrics out.
func (e *env) commit() {
	for _, l := range e.logs {
		e.op.guestLog(l.level, e.bytes(l.span))
	}
	for _, m := range e.metrics {
		e.op.addMetric(m.name, m.add)
	}
	if len(e.iters) > 0 {
		e.closeIters()
	}
}

func (e *env) closeIters() {
	for i, s := range e.iters {
		if s != nil {
			if err := s.it.Close(); err != nil && e.err == nil {
				e.err = err
			}
			e.iters[i] = nil
		}
	}
	e.iters = e.iters[:0]
}

// hostFault notes an error of the host and makes the guest come back soon.
func (e *env) hostFault(err error) abi.Status {
	if e.err == nil {
		e.err = err
	}
	e.op.guest.Yield()
	return abi.StatusLimit
}

// key is the current key of a record.
func (e *env) key(record int) (state.Key, bool) {
	k := &e.op.blk
	if !k.keyed || record < 0 || record >= len(k.keyIdx) {
		return state.Key{}, false
	}
	return k.keys[k.keyIdx[record]], true
}

// Fail implements Env: undo the record's effects, note its error.
func (e *env) Fail(record int, msg []byte) {
	if record < 0 {
		return
	}
	j := len(e.journal)
	for j > 0 && e.journal[j-1].record == record {
		j--
	}
	if err := e.undoFrom(j); err != nil {
		e.hostFault(err)
	}
	for n := len(e.timers); n > 0 && e.timers[n-1].record == record; n-- {
		e.timers = e.timers[:n-1]
	}
	for n := len(e.emits); n > 0 && e.emits[n-1].record == record; n-- {
		e.emits = e.emits[:n-1]
	}
	for n := len(e.metrics); n > 0 && e.metrics[n-1].record == record; n-- {
		e.metrics = e.metrics[:n-1]
	}
	if len(msg) > abi.MaxLogLineBytes {
		msg = msg[:abi.MaxLogLineBytes]
	}
	e.failures = append(e.failures, failure{record, string(msg)})
}

// Emit implements Env.
func (e *env) Emit(record int, frame []byte, at int) abi.Status {
	if record < 0 {
		return abi.StatusForbidden
	}
	f, rest, err := abi.NextFrame(frame)
	switch {
	case err != nil || len(rest) != 0 || int(f.Cause()) != record || int(f.Output()) > len(e.op.fn.Outputs):
		return abi.StatusBadArg
	case len(f) > abi.MaxRecordBytes, len(e.emits) >= abi.MaxOutputsPerRecord:
		return abi.StatusLimit
	}
	e.emits = append(e.emits, emit{record, at, e.keep(f)})
	return abi.StatusOK
}

// Log implements Env.
func (e *env) Log(record, level int, msg []byte) {
	if len(msg) > abi.MaxLogLineBytes {
		msg = msg[:abi.MaxLogLineBytes]
	}
	most := abi.MaxLogLinesPerSec
	if level >= abi.LogError {
		most *= 2 // room for last words
	}
	if len(e.logs) < most {
		e.logs = append(e.logs, logLine{record, level, e.keep(msg)})
	}
}

// Metric implements Env.
func (e *env) Metric(record int, name []byte, add int64) abi.Status {
	if len(name) == 0 || len(name) > abi.MaxTimerNameBytes || len(e.metrics) >= abi.MaxOutputsPerRecord {
		return abi.StatusLimit
	}
	e.metrics = append(e.metrics, metric{record, string(name), add})
	return abi.StatusOK
}

// NowMS implements Env.
func (e *env) NowMS(record int) int64 {
	if e.op.node.Clock == "processing" || record < 0 {
		return e.op.now
	}
	if t := e.op.recordTime(record); t != abi.NoTime {
		return t
	}
	return 0
}
