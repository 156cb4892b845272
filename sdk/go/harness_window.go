//go:build !wasip1

package millrace

// Accumulator is the accumulator of an aggregate under test; nil is an empty one.
type Accumulator []byte

// TestWindow is the window of a test. A nil Key is a window over everything.
type TestWindow struct {
	Start, End int64
	Revision   uint32
	Key        []byte
}

func (w TestWindow) input(elements []Input) Input {
	v := make([]byte, windowHeader)
	le.PutUint64(v[windowStart:], uint64(w.Start))
	le.PutUint64(v[windowEnd:], uint64(w.End))
	le.PutUint32(v[windowRevision:], w.Revision)
	le.PutUint32(v[windowCount:], uint32(len(elements)))
	for _, e := range elements {
		e.Key = nil
		v = appendFrame(v, &e)
	}
	return Input{Key: w.Key, Value: v, Time: w.End - 1}
}

// Add folds records into an accumulator. Those that fail change nothing.
func (h *Harness) Add(acc *Accumulator, records ...Input) { h.steps(stepAdd, acc, records, nil) }

// Retract takes records out of an accumulator.
func (h *Harness) Retract(acc *Accumulator, records ...Input) {
	h.steps(stepRetract, acc, records, nil)
}

// Merge merges others into an accumulator, in order.
func (h *Harness) Merge(acc *Accumulator, others ...Accumulator) {
	var list []byte
	for i := range others {
		list = le.AppendUint32(list, uint32(i+1))
	}
	h.steps(stepMerge, acc, []Input{{Value: list}}, others)
}

// Result gives the result of an accumulator; see Outputs and Failures.
func (h *Harness) Result(acc Accumulator, w TestWindow) {
	h.steps(stepResult, &acc, []Input{w.input(nil)}, nil)
}

// FireWindow calls a window function with these elements; for a window with aggregates, one: their row.
func (h *Harness) FireWindow(w TestWindow, elements ...Input) {
	if h.fn.OnWindow == nil {
		panic("millrace: only window functions get windows")
	}
	records := []Input{w.input(elements)}
	h.run(newBlock(kindWindows, h, records), records)
}

func (h *Harness) steps(step byte, acc *Accumulator, records []Input, others []Accumulator) {
	if h.fn.Aggregate == nil {
		panic("millrace: only aggregates have accumulators")
	}
	_, _, most := h.fn.States[0].describe()
	b := stepsBlock(h, step, records, append([]Accumulator{*acc}, others...), most)
	h.run(b, records)
	*acc = b.accumulator(most)
}

// stepsBlock is a block of one kind of step, all about the first of these accumulators.
func stepsBlock(h *Harness, step byte, records []Input, accs []Accumulator, most int) *block {
	b := &block{bytes: make([]byte, blockHeader)}
	n := len(records)
	b.put(blockKind, kindSteps)
	b.put(blockN, uint32(n))
	b.put(blockFunction, uint32(h.index))
	least := MinWatermark
	le.PutUint64(b.bytes[blockWatermark:], uint64(least))
	b.put(blockNKeys, uint32(len(accs)))
	offsets := b.align()
	b.put(blockOffsets, uint32(offsets))
	b.grow(4 * n)
	b.put(blockKeys, uint32(b.align()))
	b.grow(4 * n)
	table := b.align()
	b.put(blockNStates, 1)
	b.put(blockStates, uint32(table))
	b.grow(8)
	c := cells{base: b.align(), stride: cellHeader + (most+7)&^7}
	b.put(table, uint32(c.base))
	b.put(table+4, uint32(c.stride))
	for _, a := range accs {
		at := len(b.bytes)
		b.grow(c.stride)
		for j := at; j < at+c.stride; j++ {
			b.bytes[j] = 0xee // what is not valid must not matter
		}
		b.put(at, uint32(len(a)))
		b.put(at+4, 0)
		if a != nil {
			b.put(at+4, cellPresent)
		}
		copy(b.bytes[at+cellHeader:], a)
	}
	b.cells = []cells{c}
	for i := range records {
		at := b.align()
		b.put(offsets+4*i, uint32(at))
		b.bytes = appendFrame(b.bytes, &records[i])
		b.bytes[at+frameOutput] = step
	}
	return b
}

// accumulator is the first accumulator as it is now.
func (b *block) accumulator(most int) Accumulator {
	cell := b.bytes[b.cells[0].base:]
	n := int(le.Uint32(cell))
	switch {
	case le.Uint32(cell[4:])&cellPresent == 0:
		return nil
	case n > most:
		panic("millrace: an accumulator is longer than declared")
	}
	return append(Accumulator{}, cell[cellHeader:][:n]...)
}
