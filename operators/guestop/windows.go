package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
)

// Windows runs a function that is called when windows fire. A window operator notes windows with their
// elements, and watermarks between them, and gets them done in as few calls as the block's limits allow.
type Windows struct {
	caller
	proj  *projection
	batch abi.Batch // a frame for each window, marks between
	tags  []int
	wm    int64 // before the first
	lo    int   // of the call
	value []byte
	begun struct {
		Fired
		count int
	}
	outs []abi.Frame
}

// NewWindows makes an instance of a window function. Node.Input is the schema of elements.
func NewWindows(cfg CallerConfig) (*Windows, error) {
	w := &Windows{}
	var err error
	if w.proj, err = newProjection(cfg.Node.Input, cfg.Node.Fn.Input); err != nil {
		return nil, fmt.Errorf("operator %s: %w", cfg.Context.Operator, err)
	}
	w.frameAt = func(i int) abi.Frame { return w.batch.Frame(w.lo + i) }
	return w, w.caller.open(cfg)
}

// Reset forgets the windows. wm is the watermark at the next one.
func (w *Windows) Reset(nowMS, wm int64) {
	w.drop()
	w.now, w.wm = nowMS, wm
	w.batch.Reset()
	w.tags = w.tags[:0]
}

// Begin begins a window; elements follow, then End.
func (w *Windows) Begin(f *Fired) {
	w.begun.Fired, w.begun.count = *f, 0
	var none [abi.WindowHeader]byte
	w.value = append(w.value[:0], none[:]...)
}

// Element adds an element to the window that was begun.
func (w *Windows) Element(timeMS int64, value []byte) error {
	if w.proj != nil && value != nil {
		row, err := w.proj.project(value)
		if err != nil {
			return err
		}
		value = row
	}
	w.value = abi.AppendRecord(w.value, &abi.Record{Time: timeMS, Value: value})
	w.begun.count++
	return nil
}

// End ends the window that was begun.
func (w *Windows) End(tag int) {
	h := w.begun.header(w.begun.count)
	copy(w.value, h[:])
	w.batch.Append(&abi.Record{Time: w.begun.Time, Key: w.begun.Key, Value: w.value, Pos: abi.NoPosition})
	w.tags = append(w.tags, tag)
}

// Mark notes that the watermark has moved.
func (w *Windows) Mark(wm int64) { w.batch.Mark(wm) }

// Len is how many windows are noted.
func (w *Windows) Len() int { return w.batch.Len() }

// Empty says that nothing is noted.
func (w *Windows) Empty() bool { return w.batch.Empty() }

// Bytes is the size of what is noted.
func (w *Windows) Bytes() int { return len(w.batch.Data) }

// Run calls the function. out gets each output, which is of the window with that tag, in order; failed gets
// windows whose call failed and which give nothing, in their places between them. mark gets each watermark in
// its place. err is not the function's doing, or no single window's, or one of theirs.
func (w *Windows) Run(out func(tag int, f abi.Frame) error, failed func(StepFault) error, mark func(int64)) error {
	marks := w.batch.Marks
	bad, badAt := (*Fault)(nil), -1
	for lo := 0; ; {
		for len(marks) > 0 && int(marks[0].Index) <= lo {
			w.wm = marks[0].Watermark
			mark(w.wm)
			marks = marks[1:]
		}
		if lo == w.batch.Len() {
			w.accept()
			return nil
		}
		if lo == badAt {
			if err := failed(StepFault{w.tags[lo], bad}); err != nil {
				return err
			}
			badAt = -1
			lo++
			continue
		}
		hi := w.limit(lo)
		if badAt >= 0 {
			hi = min(hi, badAt)
		}
		n, f, err := w.try(lo, hi, marks)
		if err != nil {
			return err
		}
		if f != nil {
			bad, badAt = f, lo+f.Record
			continue
		}
		if marks, err = w.give(lo, n, marks, out, failed, mark); err != nil {
			return err
		}
		lo += n
	}
}

// limit is where a call that begins at lo ends at the latest.
func (w *Windows) limit(lo int) int {
	hi := lo + 1
	for hi < w.batch.Len() && hi-lo < abi.MaxBatchRecords && int(w.batch.Off[hi]-w.batch.Off[lo])+len(w.batch.Frame(hi)) <= abi.MaxBatchBytes {
		hi++
	}
	return hi
}

// try makes one call.
func (w *Windows) try(lo, hi int, marks []abi.Mark) (n int, f *Fault, err error) {
	size, err := w.write(lo, hi, marks)
	if err != nil {
		return 0, nil, fmt.Errorf("operator %s: %w", w.ctx.Operator, err)
	}
	n, f, err = w.call(size)
	if f != nil || err != nil {
		return 0, f, err
	}
	if f = w.check(n); f != nil {
		return 0, f, w.discard(f)
	}
	return n, nil, nil
}

func (w *Windows) write(lo, hi int, marks []abi.Mark) (int, error) {
	w.lo = lo
	for len(marks) > 0 && int(marks[len(marks)-1].Index) >= hi {
		marks = marks[:len(marks)-1]
	}
	n := hi - lo
	start, end := int(w.batch.Off[lo]), len(w.batch.Data)
	if hi < w.batch.Len() {
		end = int(w.batch.Off[hi])
	}
	markTab := align8(abi.BlockHeader + 4*n)
	frames := markTab + 16*len(marks)
	size := frames + end - start
	in, err := w.guest.In(size)
	if err != nil {
		return 0, err
	}
	h := in[:abi.BlockHeader]
	clear(h)
	le.PutUint32(h[abi.BlockKind:], abi.KindWindows)
	le.PutUint32(h[abi.BlockN:], uint32(n))
	le.PutUint32(h[abi.BlockOffsets:], abi.BlockHeader)
	le.PutUint32(h[abi.BlockNMarks:], uint32(len(marks)))
	le.PutUint32(h[abi.BlockMarks:], uint32(markTab))
	le.PutUint32(h[abi.BlockFunction:], uint32(w.node.Index))
	le.PutUint64(h[abi.BlockWatermark:], uint64(w.wm))
	le.PutUint64(h[abi.BlockProcessing:], uint64(w.now))
	for i := range n {
		le.PutUint32(in[abi.BlockHeader+4*i:], uint32(int(w.batch.Off[lo+i])-start+frames))
	}
	for i, m := range marks {
		le.PutUint32(in[markTab+16*i:], m.Index-uint32(lo))
		le.PutUint32(in[markTab+16*i+4:], 0)
		le.PutUint64(in[markTab+16*i+8:], uint64(m.Watermark))
	}
	copy(in[frames:size], w.batch.Data[start:end])
	return size, nil
}

// check looks at the outputs of a call and puts them in order.
func (w *Windows) check(consumed int) *Fault {
	w.outs = w.outs[:0]
	emits := w.emits
	last, count, size := 0, 0, 0
	add := func(f abi.Frame) *Fault {
		c := int(f.Cause())
		if c < last || c >= consumed {
			return w.fault(FaultProtocol, last, "an output says it comes from window %d, expected %d to %d", c, last, consumed-1)
		}
		if c != last {
			last, count, size = c, 0, 0
		}
		count++
		size += len(f)
		switch {
		case count > abi.MaxOutputsPerRecord || size > abi.MaxOutputBytes || len(f) > abi.MaxRecordBytes:
			return w.fault(FaultLimit, c, "more than %d outputs or %d bytes from one window, or one of more than %d", abi.MaxOutputsPerRecord, abi.MaxOutputBytes, abi.MaxRecordBytes)
		case int(f.Output()) > len(w.fn.Outputs):
			return w.fault(FaultProtocol, c, "output %d, the function declares %d side outputs", f.Output(), len(w.fn.Outputs))
		}
		w.outs = append(w.outs, f)
		return nil
	}
	all := w.guest.Out()
	for rest := all; ; {
		for len(emits) > 0 && (len(rest) == 0 || emits[0].at <= len(all)-len(rest)) {
			if f := add(abi.Frame(w.arena[emits[0].lo:emits[0].hi])); f != nil {
				return f
			}
			emits = emits[1:]
		}
		if len(rest) == 0 {
			break
		}
		f, r, err := abi.NextFrame(rest)
		if err != nil {
			return w.fault(FaultProtocol, last, "output at byte %d: %v", len(all)-len(rest), err)
		}
		if f := add(f); f != nil {
			return f
		}
		rest = r
	}
	if consumed == 0 {
		return w.fault(FaultProtocol, 0, "the call returned without having done a window")
	}
	return nil
}

// give hands on the outputs of a good call from window lo on, with marks and failures in their places.
func (w *Windows) give(lo, n int, marks []abi.Mark, out func(int, abi.Frame) error, failed func(StepFault) error, mark func(int64)) ([]abi.Mark, error) {
	outs, failures := w.outs, w.failures
	for i := range n {
		for len(marks) > 0 && int(marks[0].Index) <= lo+i {
			w.wm = marks[0].Watermark
			mark(w.wm)
			marks = marks[1:]
		}
		for ; len(outs) > 0 && int(outs[0].Cause()) == i; outs = outs[1:] {
			if err := out(w.tags[lo+i], outs[0]); err != nil {
				return marks, err
			}
		}
		if len(failures) > 0 && failures[0].record == i {
			w.stats.Faults++
			if err := failed(StepFault{w.tags[lo+i], w.caller.fault(FaultReturned, i, "%s", failures[0].msg)}); err != nil {
				return marks, err
			}
			failures = failures[1:]
		}
	}
	return marks, nil
}
