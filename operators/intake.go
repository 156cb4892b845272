package operators

import (
	"errors"
	"fmt"

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
	rec      abi.Record
}

// NewIntake makes the intake of source node n. describe names positions for messages.
func NewIntake(n *Node, ctx *Context, describe func(abi.Position) string) *Intake {
	s := n.Source
	in := &Intake{node: n, ctx: ctx, describe: describe, wm: NewWatermarks(s.Time), timed: s.Time != nil}
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
func (in *Intake) AddSplit(p checkpoint.SplitPosition) int { return in.wm.Add(p) }

// Begin starts a poll. The first call is also the end of AddSplit.
func (in *Intake) Begin() {
	if in.wm.current == abi.MinWatermark {
		in.wm.Settle()
	}
	in.rejected.Reset()
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
	if err != nil {
		if nullKey = errors.Is(err, format.ErrNullKey); !nullKey {
			return in.Reject(r.Pos, raw, err)
		}
		if err = in.nullKey(r); err != nil {
			return err
		}
	} else {
		b.Append(r)
		if in.keyed {
			b.Hash = append(b.Hash, in.ctx.Hasher.Hash(r.Key))
		}
	}
	if in.timed {
		if w, ok := in.wm.Observe(split, r.Time); ok {
			b.Mark(w)
		}
	} else {
		in.wm.splits[split].ordinal++
	}
	return nil
}

// Reject treats a record that could not be decoded; raw is its bytes, as far as they are at hand.
func (in *Intake) Reject(pos abi.Position, raw []byte, cause error) error {
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

// Counters counts what the policies sent away, and what came behind the watermark (with CounterDelay, the
// out_of_orderness that would have been enough).
func (in *Intake) Counters() map[string]int64 {
	late, delay := in.wm.Late()
	return map[string]int64{"skipped": in.skipped, "dead letters": in.letters, CounterLate: late, CounterDelay: delay}
}

// Names of counters that a source with event time has.
const (
	CounterLate  = "late"
	CounterDelay = "delay_wanted_ms"
)
