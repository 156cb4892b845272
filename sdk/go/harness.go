//go:build !wasip1

package millrace

import (
	"bytes"
	"fmt"
	"sync"
)

// Input is a record of a test, and what comes out. A nil Key or Value is null.
type Input struct {
	Key, Value []byte
	Time       int64
	Op         Op
	Headers    []Header
	Split      uint32
	Offset     uint64
}

// In is a test record with this value and key.
func In(key, value string, timeMS int64) Input {
	return Input{Key: []byte(key), Value: []byte(value), Time: timeMS}
}

// InRow is a test record with a typed row as value; cells are nil, int64, int, float64, bool, string or
// []byte.
func InRow(key string, timeMS int64, cells ...any) Input {
	return Input{Key: []byte(key), Value: encodeRow(cells), Time: timeMS}
}

// Out is an output: 0 is the main one, n the n-th side output. Its position is that of the record it came
// from.
type Out struct {
	Output uint8
	Input
}

// Failure is a record or timer that failed, as the error policy would see it.
type Failure struct {
	Key     []byte
	Message string
}

// Harness runs one function natively: in-memory state, timers in rounds, a watermark that the test moves.
// It builds real call blocks and runs the SDK's own loop, so what passes here runs the same in the sandbox.
type Harness struct {
	// OutputSpace is the size of the output buffer; small ones make the function yield and spill.
	OutputSpace int

	module     *Module
	index      int
	fn         *Function
	ctx        Ctx
	host       testHost
	offset     uint64
	watermark  int64
	processing int64
	outputs    []Out
	failures   []Failure
}

var harnesses sync.Mutex // one call at a time reaches the package's host

// NewHarness is a fresh instance of the function of that name. It panics if there is none.
func NewHarness(m *Module, function string) *Harness {
	i, err := m.function(function)
	if err != nil {
		panic(err)
	}
	h := &Harness{OutputSpace: 256 << 10, module: m, index: i, fn: &m.Functions[i], watermark: MinWatermark}
	h.host = testHost{fn: h.fn, entries: map[entryKey][]byte{}, timers: map[timerKey]bool{}, counters: map[string]int64{}}
	return h
}

// Send hands in records in one call, numbering their offsets from 0 on. It panics if the function is keyed
// and a key is null.
func (h *Harness) Send(records ...Input) {
	records = append([]Input(nil), records...)
	for i := range records {
		if h.fn.Keyed && records[i].Key == nil {
			panic("millrace: a keyed function gets no record with a null key")
		}
		records[i].Offset = h.offset
		h.offset++
	}
	h.call(kindRecords, records)
}

// Watermark moves the watermark and fires what is due, in rounds of at most one timer per key, by time and
// key, until nothing at or before it is left.
func (h *Harness) Watermark(w int64) {
	if w <= h.watermark {
		panic(fmt.Sprintf("millrace: the watermark %d does not rise from %d", w, h.watermark))
	}
	h.watermark = w
	h.fire(EventTime, w)
}

// End ends the input: the last watermark.
func (h *Harness) End() { h.Watermark(MaxWatermark) }

// ProcessingTime moves the processing time and fires what is due.
func (h *Harness) ProcessingTime(nowMS int64) {
	h.processing = nowMS
	h.fire(ProcessingTime, nowMS)
}

func (h *Harness) fire(d Domain, until int64) {
	for {
		due := h.host.takeDue(d, until)
		if len(due) == 0 {
			return
		}
		records := make([]Input, len(due))
		for i, t := range due {
			records[i] = In(t.key, t.name, t.time)
		}
		h.call(kindEventTimers+uint32(d), records)
	}
}

func (h *Harness) call(kind uint32, records []Input) {
	b := newBlock(kind, h, records)
	h.run(b, records)
	b.writeBack(h)
}

// run runs a block to its end, however often the function yields.
func (h *Harness) run(b *block, records []Input) {
	harnesses.Lock()
	defer harnesses.Unlock()
	h.host.keys = b.keys
	host = &h.host
	defer func() { host = nil }()
	for first := uint32(0); ; {
		out := make([]byte, h.OutputSpace)
		h.host.resume(first)
		status := h.ctx.process(h.module, b.bytes, out, first)
		consumed, outs := readOutputs(out, &h.host)
		h.outputs = append(h.outputs, outs...)
		if consumed <= first && len(records) > 0 {
			panic("millrace: the function consumed nothing")
		}
		first = consumed
		if status == statusDone {
			break
		}
	}
	for _, f := range h.host.failures {
		h.failures = append(h.failures, Failure{records[f.record].Key, f.message})
	}
	h.host.failures = nil
}

// Outputs takes the outputs so far, all of them in order.
func (h *Harness) Outputs() []Out {
	o := h.outputs
	h.outputs = nil
	return o
}

// Texts takes the outputs so far and gives the values as text, those of side outputs with "name: " before.
func (h *Harness) Texts() []string {
	var list []string
	for _, o := range h.Outputs() {
		s := string(o.Value)
		if o.Output > 0 {
			s = h.fn.SideOutputs[o.Output-1].name + ": " + s
		}
		list = append(list, s)
	}
	return list
}

// Failures takes the failures so far.
func (h *Harness) Failures() []Failure {
	f := h.failures
	h.failures = nil
	return f
}

// Logs takes the logged lines so far.
func (h *Harness) Logs() []string {
	l := h.host.logs
	h.host.logs = nil
	return l
}

// Counter is the value of a counter.
func (h *Harness) Counter(name string) int64 { return h.host.counters[name] }

// Timers is the number of live timers.
func (h *Harness) Timers() int { return len(h.host.timers) }

// StateEntries is the number of values, list elements and map entries held, over all keys.
func (h *Harness) StateEntries() int { return len(h.host.entries) }

// Equal says whether two records are the same; null and empty differ.
func (a Input) Equal(b Input) bool {
	same := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	if !same(a.Key, b.Key) || !same(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if !same(a.Headers[i].Key, b.Headers[i].Key) || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return a.Time == b.Time && a.Op == b.Op && a.Split == b.Split && a.Offset == b.Offset
}
