package window

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators"
	"github.com/millrace-io/millrace/operators/guestop"
	"github.com/millrace-io/millrace/state"
)

// never is a time that does not come; atEnd comes with the final watermark alone.
const (
	never int64 = math.MaxInt64
	atEnd int64 = math.MaxInt64 - 1
	spent int64 = math.MinInt64 // in place of a time-out
)

// Op is the window operator of one task. It is an operators.Operator, Snapshotter, ProcessingTimer and
// Counted. Results go to operators.OutputMain, late records, as they came, to side output 1.
//
// A batch is worked on record by record, watermark marks in their places, over the blocks of its keys,
// which were brought into memory together. Timers fire at marks, instant by instant, keys in order of
// their bytes: batch boundaries change nothing.
type Op struct {
	cfg   Config
	w     *operators.WindowNode
	trig  operators.WindowTrigger
	l     *layout
	asg   *assigner
	event bool // windows go by event time
	shape shape
	// endless: windows have no end of their own: global, count
	endless bool
	byEnd   bool // see endsInOrder
	gap     field
	aggs    []aggregate
	ctx     *operators.Context

	keyed    state.Keyed
	value    state.Value
	timers   state.Timers
	index    *index
	contents *contents // nil: none are kept

	wm, now int64
	ref     int64 // windows over at this time have fired
	keys    *keys
	soon    int64 // least event timer that keys of the batch are still to set
	in      input
	spans   []span
	due     []state.Timer // a round
	dueKeys []state.Key
	duePos  []state.Pos
	blk     []byte // of the key that is worked on
	cuts    map[checkpoint.ID]*pending
	out     outputs
	res     results
	stats   Stats
	held    state.Stats

	// With guest functions:
	guests  []*guestAggregate
	process *guestop.Windows // nil: none
	queue   *queue           // nil: there is no guest
	stretch stretch
	firing  bool
	live    atomic.Pointer[[]stopper]
}

// shape is how windows lie in a block.
type shape int

const (
	plain    shape = iota
	sessions       // plain, and windows merge
	sliced         // slices, shared by the windows over them
)

// Stats are counters of one task since the job's start.
type Stats struct {
	In, Late, Fired, Timers int64 // Late: records no window took; Fired: results
	Skipped, Dead           int64 // records and windows at which a guest failed
}

// New makes the operator; nothing runs before Open. The node passes Validate.
func New(cfg Config) *Op {
	return &Op{cfg: cfg, w: cfg.Node.Window, wm: abi.MinWatermark, ref: abi.MinWatermark, cuts: map[checkpoint.ID]*pending{}}
}

// Open implements operators.Operator.
func (o *Op) Open(ctx *operators.Context) error {
	o.ctx = ctx
	w := o.w
	if err := Validate(w); err != nil {
		return fmt.Errorf("operator %s: %w", ctx.Operator, err)
	}
	if err := o.shapeState(); err != nil {
		return fmt.Errorf("operator %s: %w", ctx.Operator, err)
	}
	o.res.init(o)
	o.keys, o.duePos = newKeys(), make([]state.Pos, abi.MaxBatchRecords)
	o.soon = never
	o.restoreNumbers(ctx.Restored)
	o.now = ctx.Clock.NowMS()
	if err := o.openGuests(ctx); err != nil {
		return err
	}
	return o.openState(KeepsRecords(w))
}

// shapeState derives from the node how windows lie in state.
func (o *Op) shapeState() error {
	w := o.w
	asg, err := newAssigner(&w.Window)
	if err != nil {
		return err
	}
	o.asg, o.event, o.trig = asg, w.Time == operators.TimeEvent, trigger(w)
	o.gap = fieldOf(w, w.Window.GapField)
	o.shape = shapeOf(w, &o.trig)
	o.endless = w.Window.Type == operators.WindowGlobal || w.Window.Type == operators.WindowCount
	for _, a := range w.Aggregates {
		if a.Kind == operators.AggGuest {
			g := newGuestAggregate(o, a)
			o.guests = append(o.guests, g)
			o.aggs = append(o.aggs, g)
			continue
		}
		o.aggs = append(o.aggs, newAggregate(w, a))
	}
	if wholeWindows(w) {
		o.aggs = append(o.aggs, &elements{o})
	}
	o.l = newLayout(w, &o.trig, o.aggs, o.shape == sliced, KeepsRecords(w))
	o.byEnd = endsInOrder(w, &o.trig, o.l)
	o.in.base = abi.RowBitmap(len(w.Input))
	return nil
}

// trigger is the node's, with what accumulation and the time domain add.
func trigger(w *operators.WindowNode) operators.WindowTrigger {
	t := w.Trigger
	t.Purge = t.Purge || w.Accumulation == operators.Discarding
	if w.Time == operators.TimeProcessing && t.EveryClock > 0 {
		t.AtEnd = true // the last multiple is the window's end
	}
	return t
}

// shapeOf: slices are shared where each window fires once, at its end. By the clock one may fire twice: a
// record that comes in its last ms, behind the firing, begins it anew.
func shapeOf(w *operators.WindowNode, t *operators.WindowTrigger) shape {
	switch w.Window.Type {
	case operators.WindowSession:
		return sessions
	case operators.WindowSliding, operators.WindowCumulate:
		once := *t
		once.Purge = false
		if once == (operators.WindowTrigger{AtEnd: true}) && w.Lateness == 0 && w.Evictor == nil && !w.Revision && w.Time == operators.TimeEvent {
			return sliced
		}
	}
	return plain
}

func (o *Op) openState(keeps bool) error {
	ds := []state.Descriptor{{Name: StateName, Kind: abi.StateValue, Version: version(o.w)}}
	if keeps {
		ds = append(ds, state.Descriptor{Name: "contents", Kind: abi.StateMap, Version: version(o.w)})
	}
	k, err := o.cfg.OpenKeyed(o.ctx, ds)
	if err != nil {
		return fmt.Errorf("operator %s: open state: %w", o.ctx.Operator, err)
	}
	o.keyed, o.value, o.timers = k, k.Value(0), k.Timers()
	if keeps {
		o.contents = &contents{m: k.Ordered(1), journal: len(o.guests) > 0}
	}
	o.index = newIndex(o.ctx.Budget)
	if err := o.value.(state.Restored).Restored(func(k state.Key, v []byte) error {
		if at := word(v, 0); at != never {
			return o.wait(k, at)
		}
		return nil
	}); err != nil {
		return o.fail(err)
	}
	return nil
}

// Batch implements operators.Operator.
func (o *Op) Batch(_ int, b *abi.Batch, out operators.Collector) error {
	o.now, o.out.to = o.ctx.Clock.NowMS(), out
	marks := b.Marks
	if o.queue != nil {
		o.clearQueue(true)
	}
	o.stats.In += int64(b.Len())
	for lo := 0; lo < b.Len(); lo += abi.MaxBatchRecords {
		hi := min(lo+abi.MaxBatchRecords, b.Len())
		if err := o.collect(b, lo, hi); err != nil {
			return err
		}
		if o.queue != nil {
			var err error
			if marks, err = o.guestRecords(b, lo, hi, marks); err != nil {
				return err
			}
			continue
		}
		for i := lo; i < hi; i++ {
			for len(marks) > 0 && int(marks[0].Index) <= i {
				if err := o.advance(marks[0].Watermark); err != nil {
					return o.fail(err)
				}
				marks = marks[1:]
			}
			if err := o.record(b.Frame(i), int(o.keys.idx[i-lo])); err != nil {
				return err
			}
		}
		if err := o.flushKeys(); err != nil {
			return o.fail(err)
		}
	}
	for _, m := range marks {
		if err := o.advance(m.Watermark); err != nil {
			return o.fail(err)
		}
	}
	return o.out.flush()
}

func (o *Op) fail(err error) error { return fmt.Errorf("operator %s: %w", o.ctx.Operator, err) }

// collect finds the keys of records [lo, hi) and brings their blocks into memory.
func (o *Op) collect(b *abi.Batch, lo, hi int) error {
	o.keys.reset()
	o.soon = never
	var h uint64
	key := []byte{}
	if o.w.Unkeyed {
		h = o.ctx.Hasher.Hash(key)
	}
	hashed := len(b.Hash) == b.Len()
	for i := lo; i < hi; i++ {
		if !o.w.Unkeyed {
			f := b.Frame(i)
			if key = f.Key(); key == nil || len(key) > abi.MaxKeyBytes {
				return o.recordError(f, fmt.Errorf("a key of %d bytes (null: %t), expected at most %d", len(key), key == nil, abi.MaxKeyBytes))
			}
			if hashed {
				h = b.Hash[i]
			} else {
				h = o.ctx.Hasher.Hash(key)
			}
		}
		o.keys.add(h, key)
	}
	if err := o.value.Prefetch(o.keys.list, o.keys.pos[:len(o.keys.list)]); err != nil {
		return o.fail(err)
	}
	return nil
}

func (o *Op) recordError(f abi.Frame, err error) error {
	return &operators.RecordError{Operator: o.ctx.Operator, Position: o.ctx.Describe(f.Pos()), Err: err}
}

// load brings a key's block into its slot.
func (o *Op) load(j int) (*slot, error) {
	s := &o.keys.slots[j]
	if s.epoch == o.keys.epoch {
		return s, nil
	}
	v, ok, err := o.value.Load(o.keys.pos[j], o.keys.list[j])
	if err != nil {
		return nil, err
	}
	s.epoch, s.stored = o.keys.epoch, ok
	if ok {
		s.blk = append(s.blk[:0], v...)
	} else {
		s.blk = o.emptyBlock(s.blk)
	}
	return s, nil
}

func (o *Op) emptyBlock(b []byte) []byte {
	b = resize(b[:0], 0, 0, o.l.header)
	clear(b)
	setWord(b, 0, never)
	if o.l.clock > 0 {
		setWord(b, o.l.clock, never)
	}
	return b
}

// flushKeys stores the blocks that records changed, and sets their timers.
func (o *Op) flushKeys() error {
	for _, j := range o.keys.dirty {
		s := &o.keys.slots[j]
		o.blk, s.blk = s.blk, o.blk
		err := o.store(o.keys.list[j], o.keys.pos[j], s.stored)
		o.blk, s.blk = s.blk, o.blk
		if err != nil {
			return err
		}
		s.dirty = false
	}
	o.keys.dirty = o.keys.dirty[:0]
	o.keys.epoch++
	o.soon = never
	return nil
}

// store puts the block worked on back, with the timers it needs.
func (o *Op) store(k state.Key, p state.Pos, stored bool) error {
	if len(o.blk) == o.l.header {
		if stored {
			return o.value.Remove(p, k)
		}
		return nil
	}
	event, clock := o.nextDue()
	if event < word(o.blk, 0) {
		if err := o.wait(k, event); err != nil {
			return err
		}
		setWord(o.blk, 0, event)
	}
	if o.l.clock > 0 && clock < word(o.blk, o.l.clock) {
		if err := o.timers.Set(abi.DomainProcessing, k, nil, clock); err != nil {
			return err
		}
		setWord(o.blk, o.l.clock, clock)
	}
	return o.value.Store(p, k, o.blk)
}

// Stats returns the counters and what the state holds.
func (o *Op) Stats() (Stats, state.Stats) {
	if o.keyed != nil {
		return o.stats, o.keyed.Stats()
	}
	return o.stats, o.held
}

// Counters implements operators.Counted.
func (o *Op) Counters() map[string]int64 {
	s, held := o.Stats()
	if o.index != nil {
		held.Timers += int64(o.index.n)
	}
	m := map[string]int64{"in": s.In, "late": s.Late, "results": s.Fired, "timers": held.Timers,
		"state entries": held.Entries, "state bytes in memory": held.MemBytes, "state bytes in files": held.ColdBytes}
	o.guestCounters(m)
	return m
}

// Close implements operators.Operator.
func (o *Op) Close() error {
	err := o.closeGuests()
	if o.keyed == nil {
		return err
	}
	o.held = o.keyed.Stats()
	err = errors.Join(err, o.keyed.Close())
	o.keyed = nil
	return err
}
