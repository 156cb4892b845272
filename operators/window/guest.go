package window

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// guestAggregate is an aggregate whose logic is a guest's. It only notes what is to be done: add, merge and
// result become steps of guestop.Steps, done together in commit. Its first word says where the accumulator
// is: the low half is 0 for an empty one, else 1 more than its length; the high half is 1 more than its number
// among the steps that are not done, else 0. The bytes follow as words if they are few, else they are the
// variable part.
type guestAggregate struct {
	o      *Op
	name   string
	node   *operators.GuestNode
	steps  *guestop.Steps
	number int // among the operator's
	max    int
	inline bool
	col    int // of the row
	fields []abi.Field
	others []guestop.Cell
	buf    []byte
	err    error // of the record
}

// inlineBytes is up to what size accumulators are words of a window.
const inlineBytes = 64

func (g *guestAggregate) words() int {
	if g.inline {
		return 1 + (g.max+7)/8
	}
	return 1
}

func (g *guestAggregate) variable() bool { return !g.inline }

// stored is the accumulator as it lies in the window; false: an empty one.
func (g *guestAggregate) stored(w, v []byte) ([]byte, bool) {
	n := int(le.Uint32(w))
	switch {
	case n == 0:
		return nil, false
	case g.inline:
		return w[8 : 8+n-1], true
	}
	return v, true
}

// pending is the number of the accumulator among the steps, if it is there.
func (g *guestAggregate) pending(w []byte) (guestop.Cell, bool) {
	n := le.Uint32(w[4:])
	return n - 1, n > 0
}

// cell brings the accumulator to the steps, from where settle brings it back.
func (g *guestAggregate) cell(w, v []byte) guestop.Cell {
	c, ok := g.pending(w)
	if !ok {
		c = g.borrow(w, v)
		le.PutUint32(w[4:], c+1)
	}
	return c
}

// borrow gives the accumulator to steps that do not change it.
func (g *guestAggregate) borrow(w, v []byte) guestop.Cell {
	if c, ok := g.pending(w); ok {
		return c
	}
	b, ok := g.stored(w, v)
	return g.steps.New(b, ok)
}

func (g *guestAggregate) add(w, v []byte, in *input) []byte {
	c := g.cell(w, v)
	q := g.o.queue
	if in.frame == nil { // an evictor's
		g.note(g.steps.AddRecord(c, &abi.Record{Time: in.time, Key: q.fired.Key, Value: in.value()}, q.tag))
		return v
	}
	retract := false
	if op := in.frame.Op(); op == abi.OpUpdateBefore || op == abi.OpDelete {
		if retract = g.steps.Retracts(); !retract {
			g.note(fmt.Errorf("the record takes an earlier one back (operation %d), and aggregate %s does not retract", op, g.name))
			return v
		}
	}
	g.note(g.steps.Add(c, in.frame, retract, q.tag))
	return v
}

func (g *guestAggregate) note(err error) {
	if g.err == nil {
		g.err = err
	}
}

func (g *guestAggregate) merge(w, v, w2, v2 []byte) []byte {
	if le.Uint64(w2) == 0 {
		return v
	}
	if _, there := g.pending(w2); le.Uint64(w) == 0 && !there { // a copy
		copy(w, w2)
		g.buf = append(g.buf[:0], v2...)
		return g.buf
	}
	c := g.cell(w, v)
	g.others = append(g.others[:0], g.borrow(w2, v2))
	q := g.o.queue
	g.steps.Merge(c, q.fired.Key, q.fired.Time, g.others, q.tag)
	return v
}

// beginMerge and mergePart merge several into w in one step.
func (g *guestAggregate) beginMerge() { g.others = g.others[:0] }

func (g *guestAggregate) mergePart(w, v []byte) {
	if le.Uint64(w) != 0 {
		g.others = append(g.others, g.borrow(w, v))
	}
}

// merged is the result of the parts.
func (g *guestAggregate) merged() guestop.Cell {
	if len(g.others) == 1 {
		return g.others[0]
	}
	c := g.steps.New(nil, false)
	if q := g.o.queue; len(g.others) > 0 {
		g.steps.Merge(c, q.fired.Key, q.fired.Time, g.others, q.tag)
	}
	return c
}

func (g *guestAggregate) result(w, v []byte, _ *abi.RowBuilder, _ int) { g.resultOf(g.borrow(w, v)) }

func (g *guestAggregate) resultOf(c guestop.Cell) {
	q := g.o.queue
	q.refs = append(q.refs, rowRef{g.number, g.steps.Result(c, &q.fired, q.tag)})
}

// settle brings the accumulator of the window at off back from the steps.
func (g *guestAggregate) settle(o *Op, off int, a *aggAt) {
	w := o.blk[off+a.at : off+a.end]
	c, ok := g.pending(w)
	if !ok {
		return
	}
	v, there := g.steps.Value(c)
	n := uint32(0)
	if there {
		n = uint32(len(v)) + 1
	}
	le.PutUint64(w, uint64(n))
	switch {
	case g.inline:
		clear(w[8:])
		copy(w[8:], v)
	default:
		o.blk = o.l.setVariable(o.blk, off, a.v, v)
	}
}

// newGuestAggregate makes one that lies in windows, without an instance.
func newGuestAggregate(o *Op, a operators.WindowAggregate) *guestAggregate {
	size := a.Guest.Fn.Accumulator().MaxBytes // validated
	return &guestAggregate{o: o, name: a.Name, node: a.Guest, number: len(o.guests), max: size, inline: size <= inlineBytes, fields: a.Guest.Fn.Output}
}

// openGuests makes the instances of guest functions.
func (o *Op) openGuests(ctx *operators.Context) (err error) {
	if len(o.guests) == 0 && o.w.Process == nil {
		return nil
	}
	o.queue = &queue{o: o}
	var all []stopper
	o.stretch.failed = map[int]*guestop.Fault{}
	for _, g := range o.guests {
		node := *g.node
		node.Input = o.w.Input
		g.steps, err = guestop.NewSteps(guestop.CallerConfig{Node: &node, Module: o.cfg.Module(o.cfg.Node.ID + "." + g.name), Context: ctx})
		if err != nil {
			return err
		}
		all = append(all, g.steps)
	}
	defer func() {
		if err == nil {
			o.live.Store(&all)
		}
	}()
	if o.w.Process == nil {
		return nil
	}
	node := *o.w.Process
	node.Input = o.w.Input
	if len(o.w.Aggregates) > 0 {
		node.Input = RowSchema(o.w)
	}
	o.process, err = guestop.NewWindows(guestop.CallerConfig{Node: &node, Module: o.cfg.Module(o.cfg.Node.ID + ".process"), Context: ctx})
	o.out.sides = make([]abi.Batch, len(o.w.Process.Fn.Outputs))
	all = append(all, o.process)
	return err
}

// closeGuests frees the instances.
func (o *Op) closeGuests() (err error) {
	for _, g := range o.guests {
		if g.steps != nil {
			err = errors.Join(err, g.steps.Close())
		}
	}
	if o.process != nil {
		err = errors.Join(err, o.process.Close())
	}
	return err
}

// guestCounters adds what guests counted, and how they did.
func (o *Op) guestCounters(m map[string]int64) {
	if o.queue == nil {
		return
	}
	m["skipped"], m["dead letters"] = o.stats.Skipped, o.stats.Dead
	count := func(c interface {
		Counters() map[string]int64
		Stats() guestop.CallerStats
	}) {
		for name, n := range c.Counters() {
			m["guest."+name] += n
		}
		s := c.Stats()
		m["calls"] += s.Calls
		m["faults"] += s.Faults
		m["resets"] += s.Resets
	}
	for _, g := range o.guests {
		count(g.steps)
	}
	if o.process != nil {
		count(o.process)
	}
}

// beginFiring notes the window that fires, at off of the block. It returns how many rows are waited for so far.
func (o *Op) beginFiring(k state.Key, off int, sp span) int {
	if o.queue == nil {
		return 0
	}
	revision := int64(0)
	if o.l.state > 0 {
		revision = int64(le.Uint32(o.blk[off+o.l.state+4:])) + 1
	}
	o.queue.begin(k, sp, revision)
	return len(o.queue.refs)
}

// Stop ends a running call of a guest soon; from any goroutine. Before the end of Open it does nothing.
func (o *Op) Stop() {
	if l := o.live.Load(); l != nil {
		for _, s := range *l {
			s.Stop()
		}
	}
}

// stopper is an instance that can be stopped.
type stopper interface{ Stop() }

// elements is what a window function without aggregates gets: the records of a window. It is a keeper that
// sets no column.
type elements struct{ o *Op }

func (*elements) words() int                                   { return 0 }
func (*elements) variable() bool                               { return false }
func (*elements) add(_, v []byte, _ *input) []byte             { return v }
func (*elements) merge(_, v, _, _ []byte) []byte               { return v }
func (*elements) result(_, _ []byte, _ *abi.RowBuilder, _ int) {}
func (e *elements) begin()                                     { e.o.queue.beginElements() }
func (e *elements) fold(in *input)                             { e.o.queue.element(in.time, in.value()) }

// value is the record's value, as it came.
func (in *input) value() []byte {
	if in.row != nil {
		return in.row
	}
	return in.raw
}

// wholeWindows says that a window function gets the records of a window.
func wholeWindows(w *operators.WindowNode) bool { return w.Process != nil && len(w.Aggregates) == 0 }

// columns are those of an aggregate: one of its name, or one for each that a guest gives, under both names.
func columns(w *operators.WindowNode, a operators.WindowAggregate) []abi.Field {
	if a.Kind != operators.AggGuest {
		return []abi.Field{{Name: a.Name, Type: resultType(w, a)}}
	}
	fs := slices.Clone(a.Guest.Fn.Output)
	for i := range fs {
		if len(fs) == 1 {
			fs[i].Name = a.Name
		} else {
			fs[i].Name = a.Name + "_" + fs[i].Name
		}
	}
	return fs
}

// validateGuest checks that a function is resolved and fits.
func validateGuest(g *operators.GuestNode, kind abi.FunctionKind) error {
	switch {
	case g == nil || g.Fn == nil:
		return errors.New("the guest function is not resolved")
	case g.Fn.Kind != kind:
		return fmt.Errorf("function %s is a %s, expected a function of kind %s", g.Fn.Name, g.Fn.Kind, kind)
	case kind == abi.FunctionAggregate && (g.Fn.Accumulator() == nil || len(g.Fn.Output) == 0):
		return fmt.Errorf("aggregate function %s: expected one state of 1 to %d bytes, and columns of output", g.Fn.Name, abi.MaxPrefetchBytes)
	}
	return nil
}

func validateProcess(w *operators.WindowNode) error {
	if w.Process == nil {
		return nil
	}
	if err := validateGuest(w.Process, abi.FunctionWindow); err != nil {
		return fmt.Errorf("process: %w", err)
	}
	if w.Accumulation == operators.Retracting {
		return errors.New("process: what a window function gave can't be retracted")
	}
	for _, name := range w.Process.Fn.Outputs {
		if name == operators.LateOutput {
			return fmt.Errorf("process: function %s has a side output %s, which is that of late records", w.Process.Fn.Name, name)
		}
	}
	return nil
}
