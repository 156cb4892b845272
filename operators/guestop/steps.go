package guestop

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/millrace-io/millrace/abi"
)

// Steps runs an aggregate function. A window operator notes what is to be done with accumulators, in order,
// and gets it done in as few calls as the block's limits allow. Accumulators are told by number; they and the
// results are valid until Reset.
type Steps struct {
	caller
	proj   *projection
	max    int // bytes of an accumulator
	stride int
	// numbers: rows of results hold nothing else, and fewer than 64
	numbers bool

	steps  []step
	done   int    // steps before it are
	cells  []byte // of accumulators, as in the block: length, flags, bytes
	places []place
	epoch  uint32 // of the call
	local  []uint32
	frames []byte // made here
	result []byte // rows
	run    []int  // steps of the call
	failed []StepFault
	last   struct { // projected record
		frame *byte
		span
	}
}

// step is one step. Its frame is either a record's, borrowed, or a range of Steps.frames.
type step struct {
	kind   uint8
	dead   bool
	cell   uint32
	tag    int
	record abi.Frame
	made   span
	row    span // of a result
}

// place is where an accumulator is in the call of an epoch.
type place struct{ epoch, at uint32 }

// StepFault is a step (or window) that failed, and changed nothing.
type StepFault struct {
	Tag   int // what the caller gave
	Fault *Fault
}

// Cell is the number of an accumulator.
type Cell = uint32

// NewSteps makes an instance of an aggregate function.
func NewSteps(cfg CallerConfig) (*Steps, error) {
	s := &Steps{}
	acc := cfg.Node.Fn.Accumulator()
	if acc == nil {
		return nil, fmt.Errorf("operator %s: function %s declares no accumulator of 1 to %d bytes", cfg.Context.Operator, cfg.Node.Function, abi.MaxPrefetchBytes)
	}
	s.max, s.stride = acc.MaxBytes, abi.CellStride(acc.MaxBytes)
	out := cfg.Node.Fn.Output
	s.numbers = len(out) < 64 && !slices.ContainsFunc(out, func(f abi.Field) bool {
		return f.Type != abi.TypeInt64 && f.Type != abi.TypeFloat64 && f.Type != abi.TypeTime
	})
	var err error
	if s.proj, err = newProjection(cfg.Node.Input, cfg.Node.Fn.Input); err != nil {
		return nil, fmt.Errorf("operator %s: %w", cfg.Context.Operator, err)
	}
	s.frameAt = func(i int) abi.Frame { return s.frame(&s.steps[s.run[i]]) }
	return s, s.open(cfg)
}

// MaxBytes is what an accumulator has at most.
func (s *Steps) MaxBytes() int { return s.max }

// Retracts says that the function can take a record back.
func (s *Steps) Retracts() bool { return s.fn.Retracts }

// Refused is the fault of a record that did not get to the function.
func (s *Steps) Refused(err error) *Fault { return s.fault(FaultReturned, -1, "%v", err) }

// Reset forgets steps, accumulators and results; accepted says that their logs and counts stand.
func (s *Steps) Reset(nowMS int64, accepted bool) {
	if accepted {
		s.accept()
	} else {
		s.drop()
	}
	s.now = nowMS
	s.steps, s.cells, s.places, s.frames, s.result = s.steps[:0], s.cells[:0], s.places[:0], s.frames[:0], s.result[:0]
	s.failed, s.done = s.failed[:0], 0
	s.last.frame = nil
}

// Len is how many steps are noted.
func (s *Steps) Len() int { return len(s.steps) }

// Bytes is about how much memory the noted steps take.
func (s *Steps) Bytes() int { return len(s.cells) + len(s.frames) + len(s.result) }

// New makes an accumulator with these bytes; ok false: an empty one.
func (s *Steps) New(v []byte, ok bool) Cell {
	at := len(s.cells)
	s.cells = slices.Grow(s.cells, s.stride)[:at+s.stride]
	c := s.cells[at:]
	le.PutUint64(c, 0)
	if ok {
		le.PutUint32(c, uint32(len(v)))
		le.PutUint32(c[4:], abi.CellPresent)
		copy(c[abi.CellHeader:], v)
	}
	s.places = append(s.places, place{})
	return Cell(len(s.places) - 1)
}

// Value is what an accumulator holds.
func (s *Steps) Value(c Cell) (v []byte, ok bool) {
	b := s.cells[int(c)*s.stride:]
	n := int(le.Uint32(b))
	return b[abi.CellHeader : abi.CellHeader+n : abi.CellHeader+n], b[4]&abi.CellPresent != 0
}

// Add notes that a record comes in, or with retract goes out. The frame is borrowed until Reset.
func (s *Steps) Add(c Cell, f abi.Frame, retract bool, tag int) error {
	st := step{cell: c, tag: tag, record: f}
	if retract {
		st.kind = abi.StepRetract
	}
	if s.proj != nil && f.Value() != nil {
		if first := unsafe.SliceData([]byte(f)); s.last.frame != first {
			r := f.Record()
			row, err := s.proj.project(r.Value)
			if err != nil {
				return err
			}
			r.Value = row
			s.last.frame, s.last.span = first, s.make(&r)
		}
		st.record, st.made = nil, s.last.span
	}
	s.steps = append(s.steps, st)
	return nil
}

// AddRecord is Add of a record that has no frame.
func (s *Steps) AddRecord(c Cell, r *abi.Record, tag int) error {
	x := *r
	if s.proj != nil && r.Value != nil {
		row, err := s.proj.project(r.Value)
		if err != nil {
			return err
		}
		x.Value = row
	}
	s.steps = append(s.steps, step{cell: c, tag: tag, made: s.make(&x)})
	return nil
}

func (s *Steps) make(r *abi.Record) span {
	lo := len(s.frames)
	s.frames = abi.AppendRecord(s.frames, r)
	return span{lo, len(s.frames)}
}

// Merge notes that others come into an accumulator, in order.
func (s *Steps) Merge(c Cell, key []byte, timeMS int64, others []Cell, tag int) {
	var b [64]byte
	list := b[:0]
	for _, o := range others {
		list = le.AppendUint32(list, o) // replaced by the place in the block
	}
	s.steps = append(s.steps, step{kind: abi.StepMerge, cell: c, tag: tag, made: s.make(&abi.Record{Time: timeMS, Key: key, Value: list})})
}

// Fired is a window that gives a result.
type Fired struct {
	Key        []byte // nil: the window is over everything
	Time       int64  // its last instant, ms
	Start, End int64  // ms
	Revision   uint32
}

func (f *Fired) header(count int) (h [abi.WindowHeader]byte) {
	le.PutUint64(h[abi.WindowStart:], uint64(f.Start))
	le.PutUint64(h[abi.WindowEnd:], uint64(f.End))
	le.PutUint32(h[abi.WindowRevision:], f.Revision)
	le.PutUint32(h[abi.WindowCount:], uint32(count))
	return h
}

// Result notes that an accumulator gives a result and returns its number, for Row.
func (s *Steps) Result(c Cell, f *Fired, tag int) int {
	h := f.header(0)
	s.steps = append(s.steps, step{kind: abi.StepResult, cell: c, tag: tag, made: s.make(&abi.Record{Time: f.Time, Key: f.Key, Value: h[:]})})
	return len(s.steps) - 1
}

// Row is the row of a result, of the function's output; after Run.
func (s *Steps) Row(result int) []byte {
	r := s.steps[result].row
	return s.result[r.lo:r.hi:r.hi]
}

// Drop takes the steps of a tag back that are not done.
func (s *Steps) Drop(tag int) {
	for i := s.done; i < len(s.steps); i++ {
		if s.steps[i].tag == tag {
			s.steps[i].dead = true
		}
	}
}

func (s *Steps) frame(st *step) abi.Frame {
	if st.record != nil {
		return st.record
	}
	return abi.Frame(s.frames[st.made.lo:st.made.hi:st.made.hi])
}

// Run does the steps, in calls as large as a block may be. A step that fails changes nothing, and takes those
// of its tag back that come later; the others go on. stop ends the run early at a failure it says yes to.
// err is not the function's doing, or no single step's.
func (s *Steps) Run(stop func(tag int) bool) ([]StepFault, error) {
	for s.done < len(s.steps) {
		n := len(s.failed)
		if err := s.next(); err != nil {
			return nil, err
		}
		for _, f := range s.failed[n:] {
			if stop(f.Tag) {
				return s.failed, nil
			}
			s.Drop(f.Tag)
		}
	}
	return s.failed, nil
}

// next makes one call.
func (s *Steps) next() error {
	size, end, err := s.write()
	if err != nil {
		return fmt.Errorf("operator %s: %w", s.ctx.Operator, err)
	}
	if len(s.run) == 0 {
		s.done = end
		return nil
	}
	consumed, f, err := s.call(size)
	if err != nil {
		return err
	}
	if f == nil {
		if f = s.check(consumed); f != nil {
			if err := s.discard(f); err != nil {
				return err
			}
		}
	}
	if f != nil {
		for _, i := range s.run {
			s.steps[i].row = span{}
		}
		st := &s.steps[s.run[f.Record]]
		st.dead = true
		f.Name, f.Func = s.node.Module, s.fn.Name
		s.failed = append(s.failed, StepFault{st.tag, f})
		return nil
	}
	s.take(consumed)
	for _, x := range s.failures {
		s.stats.Faults++
		s.failed = append(s.failed, StepFault{s.steps[s.run[x.record]].tag, s.fault(FaultReturned, x.record, "%s", x.msg)})
	}
	if s.done = end; consumed < len(s.run) {
		s.done = s.run[consumed]
	}
	return nil
}
