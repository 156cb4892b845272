package operators

import (
	"errors"
	"fmt"
	"math"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint"
	"github.com/millrace-io/millrace/operators/format"
)

// Rejecter is a source that sends records away by its error policy.
type Rejecter interface {
	// Rejected is the dead letters of the last Poll, borrowed until the next. The task emits them on
	// OutputDeadLetter. Marks are not in it: the task puts those of the poll on every output.
	Rejected() *abi.Batch
}

// Timed is a source whose intake the task may ask: whether it is idle, when it wants to be polled again.
type Timed interface {
	Intake() *Intake
}

// Counted is an operator, source or sink that counts things for people: "skipped", "dead letters".
type Counted interface {
	Counters() map[string]int64
}

// Intake turns what a source has read into records: it decodes lines, takes the key, applies the error
// policies, counts records for the watermark and puts marks in. It belongs to one source in one task.
type Intake struct {
	node     *Node
	ctx      *Context
	describe func(abi.Position) string
	json     *format.JSON // nil: lines are values
	keyed    bool
	wm       *Watermarks
	timed    bool
	rejected abi.Batch
	scratch  abi.Batch
	skipped  int64
	letters  int64
	timeless int64
	rec      abi.Record

	restamp bool  // records get stamp as their time
	stamp   int64 // abi.NoTime: none
	align   int64 // ms a split may be ahead of the slowest; 0: any
	limit   int64 // greatest time up to which a split is read
	warned  int64 // ms of the last warning of a time in the future

	punct *punctuation // nil: no function decides the watermark

	clock   *intakeClock // nil: nobody notes or repeats what the clock does
	decoded int64        // records, counted where clock is not nil
	numbers []uint32     // of the splits in record positions
}

// NewIntake makes the intake of source node n. describe names positions for messages.
func NewIntake(n *Node, ctx *Context, describe func(abi.Position) string) *Intake {
	s := n.Source
	in := &Intake{node: n, ctx: ctx, describe: describe, wm: NewWatermarks(s.Time), stamp: abi.NoTime, warned: math.MinInt64}
	if t := s.Time; t != nil {
		in.timed, in.restamp = t.Source != TimeProcessing, t.Source != TimeFromField
		in.align = t.Align.Milliseconds()
		if t.Watermarks == WatermarksPunctuated {
			in.punct = &punctuation{}
		}
	}
	in.keyed = s.Key != nil || s.NaturalKey
	if p := DecodePlan(n); s.Format == "ndjson" || s.Format == "lines" {
		in.json = format.NewJSON(p)
	}
	return in
}

// DecodePlan is what a decoder has to take from the records of source node n.
func DecodePlan(n *Node) format.Plan {
	s := n.Source
	p := format.Plan{Fields: s.Fields, Row: n.Schema}
	if s.Time != nil {
		p.Time, p.Unit = s.Time.Field, format.Unit(s.Time.Unit)
	}
	if s.Key != nil {
		p.Key, p.Whole = s.Key.Fields, s.Key.Whole
	}
	return p
}

// AddSplit registers a split at its position and returns its number in this intake.
func (in *Intake) AddSplit(p checkpoint.SplitPosition) int {
	in.numbers = append(in.numbers, p.Index)
	return in.wm.Add(p)
}

// Begin starts a poll. The first call is also the end of AddSplit.
func (in *Intake) Begin() {
	in.settle()
	in.rejected.Reset()
	if in.timed {
		in.look()
	}
	if in.align > 0 {
		in.report()
	}
}

func (in *Intake) settle() {
	if !in.wm.settled {
		in.wm.Settle()
	}
}

// End ends a poll that filled b: the task calls it, before it adds the mark of the end of input.
func (in *Intake) End(b *abi.Batch) error {
	if in.punct != nil {
		if err := in.punctuate(b); err != nil {
			return err
		}
		in.release()
	}
	if err := in.tick(b); err != nil {
		return err
	}
	if in.align > 0 {
		in.report()
	}
	return nil
}

// report tells the other tasks how far this one is and takes from them how far its splits may go.
func (in *Intake) report() {
	least := in.wm.slowest()
	if g := in.ctx.Group; g != nil {
		least = g.Report(in.ctx.Task, least)
	}
	if in.limit = math.MaxInt64; least < math.MaxInt64-in.align {
		in.limit = least + in.align
	}
}

// Held says that a split has to wait for slower ones: it is not read, nor caught up. Once all that are not
// caught up are held, the source is idle; the task polls it again when the slowest moves.
func (in *Intake) Held(split int) bool {
	return in.align > 0 && in.wm.splits[split].maxTime > in.limit
}

// Aligned says that splits wait for each other, so that all of a task have to be read at the same time.
func (in *Intake) Aligned() bool { return in.align > 0 }

// Behind is the unfinished split that is furthest behind in event time; false: all are finished.
func (in *Intake) Behind() (split int, ok bool) {
	split = in.wm.behind()
	return split, split >= 0
}

// CaughtUp says that a split was looked at in this poll and has no further record at present, nor a part
// of one.
func (in *Intake) CaughtUp(b *abi.Batch, split int) {
	if in.punct != nil {
		in.punct.events = append(in.punct.events, passed{what: passedLook, split: split, record: -1, n: in.decoded})
		return
	}
	if w, moved := in.caughtUp(split, in.decoded); moved && in.timed {
		b.Mark(w)
	}
}

// caughtUp is CaughtUp behind n records.
func (in *Intake) caughtUp(split int, n int64) (mark int64, moved bool) {
	if in.Repeating() {
		return 0, false
	}
	mark, moved, became := in.wm.CaughtUp(split)
	if became {
		in.hold(ClockEvent{Kind: ClockIdle, N: n, Split: in.numbers[split]})
		in.ctx.Log.Info("split is idle: the watermark does without it", "source", in.node.ID, "task", in.ctx.Task, "split", split,
			"after", in.node.Source.Time.Idle, "watermark", in.wm.current)
	}
	return mark, moved
}

// Idle says that the task has no split that counts for the watermark at present, though it is not at its end.
func (in *Intake) Idle() bool {
	in.settle()
	return in.wm.Idle()
}

// NextLook is when the source wants to be polled though nothing has come, ms of the clock; false: not at all.
func (in *Intake) NextLook() (ms int64, ok bool) {
	if in.Repeating() {
		return 0, false
	}
	return in.wm.NextLook()
}

// Line adds the record of a line, or treats it by the error policy. A non-nil error stops the task.
func (in *Intake) Line(b *abi.Batch, split int, pos abi.Position, line []byte) error {
	r := &in.rec
	err := in.json.Decode(line, r)
	r.Pos = pos
	return in.Decoded(b, split, r, line, err)
}

// Decoded adds a record that a decoder made, err being what it said; raw is the record's bytes for the
// dead letter, nil if r.Value is them.
func (in *Intake) Decoded(b *abi.Batch, split int, r *abi.Record, raw []byte, err error) error {
	nullKey := false
	if in.clock != nil {
		if err := in.begun(b); err != nil {
			return err
		}
	}
	if in.restamp {
		r.Time = in.stamp
	}
	if err != nil {
		if nullKey = errors.Is(err, format.ErrNullKey); !nullKey {
			return in.Reject(r.Pos, raw, err)
		}
		if err = in.nullKey(r); err != nil {
			return err
		}
	}
	at, kept := r.Time, !nullKey
	if at > in.wm.horizon {
		in.ahead()
		if at = abi.NoTime; kept {
			if kept, err = in.future(r); err != nil {
				return err
			}
		}
	}
	if kept {
		b.Append(r)
		if in.keyed {
			b.Hash = append(b.Hash, in.ctx.Hasher.Hash(r.Key))
		}
	}
	if in.punct != nil {
		record := -1
		if kept {
			record = b.Len() - 1
		}
		in.punct.events = append(in.punct.events, in.passed(split, record, at))
		return nil
	}
	if in.timed {
		if w, ok := in.wm.Observe(split, at); ok {
			b.Mark(w)
		}
	} else {
		in.wm.splits[split].ordinal++
	}
	return nil
}

// Reject treats a record that could not be decoded; raw is its bytes, as far as they are at hand.
func (in *Intake) Reject(pos abi.Position, raw []byte, cause error) error {
	if errors.Is(cause, format.ErrNoTime) {
		in.timeless++
	}
	policy := PolicyStop
	if in.node.Source.OnError != nil {
		policy = in.node.Source.OnError.Policy
	}
	r := abi.Record{Time: abi.NoTime, Value: raw, Pos: pos}
	return in.apply(policy, in.node.ID, KindMalformed, &r, cause)
}

// nullKey treats a record without key by the policy of the key_by that was pushed into the source.
func (in *Intake) nullKey(r *abi.Record) error {
	k := in.node.Source.Key
	r.Key = nil
	id := k.ID
	if id == "" {
		id = in.node.ID
	}
	return in.apply(k.Null.Policy, id, KindNullKey, r, NullKeyError(k))
}

// NullKeyError says which fields make the key.
func NullKeyError(k *KeyByNode) error {
	if k.Whole {
		return fmt.Errorf("%w: the value is null", format.ErrNullKey)
	}
	return fmt.Errorf("%w: one of the fields %q is null or absent", format.ErrNullKey, k.Fields)
}

func (in *Intake) apply(policy, operator, kind string, r *abi.Record, cause error) error {
	switch policy {
	case PolicySkip:
		in.skipped++
		return nil
	case PolicyDeadLetter:
		in.letters++
		in.scratch.Reset()
		in.scratch.Append(r)
		AppendDeadLetter(&in.rejected, in.scratch.Frame(0), &DeadLetter{Operator: operator, Task: in.ctx.Task,
			Kind: kind, Error: cause.Error(), Position: in.describe(r.Pos), Attempts: 1})
		return nil
	}
	return &RecordError{operator, in.describe(r.Pos), cause}
}

// Finish takes a split that has ended out of the watermark.
func (in *Intake) Finish(b *abi.Batch, split int) {
	if in.punct != nil {
		in.wm.splits[split].ended = true
		in.punct.events = append(in.punct.events, passed{what: passedEnd, split: split, record: -1})
		return
	}
	if w, ok := in.wm.Finish(split); ok && in.timed {
		b.Mark(w)
	}
}

// Put writes the watermark generator's part of a split's position.
func (in *Intake) Put(split int, p *checkpoint.SplitPosition) { in.wm.Put(split, p) }

// Rejected is the dead letters since Begin.
func (in *Intake) Rejected() *abi.Batch { return &in.rejected }

// Watermark is the task's watermark from this source.
func (in *Intake) Watermark() int64 { return in.wm.Current() }

// Counters counts what the policies sent away, what came behind the watermark (with CounterDelay, the
// out_of_orderness that would have been enough), what came from the future and what lacked its time.
func (in *Intake) Counters() map[string]int64 {
	if in == nil { // the source was never opened
		return nil
	}
	late, delay := in.wm.Late()
	all := map[string]int64{"skipped": in.skipped, "dead letters": in.letters, CounterLate: late, CounterDelay: delay, CounterFuture: in.wm.future,
		CounterTimeless: in.timeless}
	if in.punct != nil {
		all[CounterIgnored] = in.wm.ignored
	}
	return all
}

// Names of counters that a source with event time has.
const (
	CounterLate     = "late"
	CounterDelay    = "delay_wanted_ms"
	CounterFuture   = "future"
	CounterTimeless = "without time" // treated by on_error
	// CounterIgnored counts watermarks of a function that went back or were beyond max_future_skew.
	CounterIgnored = "watermarks ignored"
)
