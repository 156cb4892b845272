package guestop

import (
	"encoding/binary"
	"unsafe"

	"github.com/millrace-io/millrace/abi"
)

// write lays out the steps of the next call, of those before end: as many as a block holds.
func (s *Steps) write() (size, end int, err error) {
	end = s.plan()
	n := len(s.run)
	if n == 0 {
		return 0, end, nil
	}
	offTab := abi.BlockHeader
	keyTab := align8(offTab + 4*n)
	stateTab := align8(keyTab + 4*n)
	cells := stateTab + 8
	frames := cells + s.stride*len(s.local)
	size = frames
	var prev *byte
	for _, i := range s.run {
		f := s.frame(&s.steps[i])
		if p := unsafe.SliceData([]byte(f)); p != prev || s.steps[i].record == nil {
			size += len(f)
			prev = p
		}
	}
	in, err := s.guest.In(size)
	if err != nil {
		return 0, end, err
	}
	h := in[:abi.BlockHeader]
	clear(h)
	le.PutUint32(h[abi.BlockKind:], abi.KindSteps)
	le.PutUint32(h[abi.BlockN:], uint32(n))
	le.PutUint32(h[abi.BlockOffsets:], uint32(offTab))
	le.PutUint32(h[abi.BlockKeys:], uint32(keyTab))
	le.PutUint32(h[abi.BlockNKeys:], uint32(len(s.local)))
	le.PutUint32(h[abi.BlockNStates:], 1)
	le.PutUint32(h[abi.BlockStates:], uint32(stateTab))
	le.PutUint32(h[abi.BlockMarks:], uint32(cells))
	le.PutUint32(h[abi.BlockFunction:], uint32(s.node.Index))
	least := abi.MinWatermark
	le.PutUint64(h[abi.BlockWatermark:], uint64(least))
	le.PutUint64(h[abi.BlockProcessing:], uint64(s.now))
	le.PutUint32(in[stateTab:], uint32(cells))
	le.PutUint32(in[stateTab+4:], uint32(s.stride))
	s.writeCells(in[cells:frames])
	s.writeFrames(in, offTab, keyTab, frames)
	return size, end, nil
}

// plan chooses the steps of the next call and gives their accumulators places in it.
func (s *Steps) plan() (end int) {
	s.run, s.local = s.run[:0], s.local[:0]
	s.epoch++
	bytes := 0
	most := max(1, maxCellBytes/s.stride)
	for end = s.done; end < len(s.steps) && len(s.run) < abi.MaxBatchRecords; end++ {
		st := &s.steps[end]
		if st.dead {
			continue
		}
		need := len(s.frame(st))
		others := 0
		if st.kind == abi.StepMerge {
			others = (need - abi.FrameHeader) / 4
		}
		if len(s.run) > 0 && (bytes+need > abi.MaxBatchBytes || len(s.local)+1+others > most) {
			break
		}
		bytes += need
		s.put(st.cell)
		if st.kind == abi.StepMerge {
			for list := s.frame(st).Value(); len(list) > 0; list = list[4:] {
				s.put(le.Uint32(list))
			}
		}
		s.run = append(s.run, end)
	}
	return end
}

// put gives an accumulator a place in the call.
func (s *Steps) put(c Cell) {
	if p := &s.places[c]; p.epoch != s.epoch {
		*p = place{s.epoch, uint32(len(s.local))}
		s.local = append(s.local, c)
	}
}

func (s *Steps) writeCells(to []byte) {
	for _, c := range s.local {
		from := s.cells[int(c)*s.stride:]
		w := binary.LittleEndian.Uint64(from)
		le.PutUint64(to, w)
		if n := int(uint32(w)); n > 0 {
			copy(to[abi.CellHeader:abi.CellHeader+n], from[abi.CellHeader:])
		}
		to = to[s.stride:]
	}
}

// writeFrames writes the frames with the two tables of their places and accumulators. Steps that follow each
// other with the same record share its frame.
func (s *Steps) writeFrames(in []byte, offTab, keyTab, at int) {
	var prev *byte
	kind, prevAt := uint8(0), 0
	for i, j := range s.run {
		st := &s.steps[j]
		f := s.frame(st)
		if p := unsafe.SliceData([]byte(f)); p != prev || st.record == nil {
			prev, kind, prevAt = p, st.kind, at
			at += copy(in[at:], f)
			in[prevAt+abi.FrameOutput] = kind
			if kind == abi.StepMerge {
				list := abi.Frame(in[prevAt:at]).Value()
				for ; len(list) > 0; list = list[4:] {
					le.PutUint32(list, s.places[le.Uint32(list)].at)
				}
			}
		}
		le.PutUint32(in[offTab+4*i:], uint32(prevAt))
		le.PutUint32(in[keyTab+4*i:], s.places[st.cell].at)
	}
}

// check looks at what the call left, without taking it.
func (s *Steps) check(consumed int) *Fault {
	if consumed == 0 {
		return s.fault(FaultProtocol, 0, "the call returned without having done a step")
	}
	in, err := s.guest.In(0)
	if err != nil {
		return s.fault(FaultProtocol, -1, "read the block back: %v", err)
	}
	base := align8(align8(abi.BlockHeader+4*len(s.run))+4*len(s.run)) + 8
	for i := range s.local {
		c := in[base+i*s.stride:]
		if n := le.Uint32(c); c[4]&abi.CellChanged != 0 && n > uint32(s.max) {
			return s.fault(FaultLimit, s.lastOf(uint32(i), consumed), "an accumulator of %d bytes, the function declares at most %d", n, s.max)
		}
	}
	return s.checkRows(consumed)
}

// lastOf is the last step of the call that was about an accumulator.
func (s *Steps) lastOf(local uint32, consumed int) int {
	for i := consumed - 1; i > 0; i-- {
		if s.places[s.steps[s.run[i]].cell].at == local {
			return i
		}
	}
	return 0
}

// checkRows finds the row of each result.
func (s *Steps) checkRows(consumed int) *Fault {
	for _, e := range s.emits { // too large for the buffer
		if f := s.row(abi.Frame(s.arena[e.lo:e.hi]), consumed); f != nil {
			return f
		}
	}
	for rest := s.guest.Out(); len(rest) > 0; {
		f, r, err := abi.NextFrame(rest)
		if err != nil {
			return s.fault(FaultProtocol, 0, "an output: %v", err)
		}
		if f := s.row(f, consumed); f != nil {
			return f
		}
		rest = r
	}
	failures := s.failures
	for i, j := range s.run[:consumed] {
		st := &s.steps[j]
		if len(failures) > 0 && failures[0].record == i {
			failures = failures[1:]
		} else if st.kind == abi.StepResult && st.row == (span{}) {
			return s.fault(FaultProtocol, i, "no result was written, expected a row")
		}
	}
	return nil
}

func (s *Steps) row(f abi.Frame, consumed int) *Fault {
	c := int(f.Cause())
	if c >= consumed {
		return s.fault(FaultProtocol, consumed-1, "an output says it comes from step %d, expected less than %d", c, consumed)
	}
	st := &s.steps[s.run[c]]
	switch {
	case st.kind != abi.StepResult:
		return s.fault(FaultProtocol, c, "an output of a step that is no result")
	case st.row != (span{}):
		return s.fault(FaultProtocol, c, "several results, expected one row")
	case f.Output() != 0:
		return s.fault(FaultProtocol, c, "output %d, an aggregate has no side outputs", f.Output())
	}
	v := f.Value()
	if !s.plainRow(v) {
		if _, err := abi.CheckRow(v, s.fn.Output); err != nil {
			return s.fault(FaultProtocol, c, "the result: %v", err)
		}
	}
	lo := len(s.result)
	s.result = append(s.result, v...)
	st.row = span{lo, len(s.result)}
	return nil
}

// plainRow says that a row is well formed, as nearly all are: up to 64 numbers.
func (s *Steps) plainRow(v []byte) bool {
	n := len(s.fn.Output)
	return s.numbers && len(v) == abi.RowFixed(n) && le.Uint64(v)>>(n&63) == 0
}

// take takes changed accumulators over.
func (s *Steps) take(consumed int) {
	in, err := s.guest.In(0)
	if err != nil {
		panic(err) // it is there
	}
	at := align8(align8(abi.BlockHeader+4*len(s.run))+4*len(s.run)) + 8
	for _, c := range s.local {
		from := in[at:]
		at += s.stride
		w := binary.LittleEndian.Uint64(from)
		if w>>32&abi.CellChanged == 0 {
			continue
		}
		to := s.cells[int(c)*s.stride:]
		le.PutUint32(to, uint32(w))
		le.PutUint32(to[4:], uint32(w>>32)&abi.CellPresent)
		copy(to[abi.CellHeader:abi.CellHeader+int(uint32(w))], from[abi.CellHeader:])
	}
}
