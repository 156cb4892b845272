package millrace

import (
	"errors"
	"strconv"
)

// Aggregator is the logic of an aggregate of a window; A is its accumulator: what it holds of the records so
// far. Folding parts and merging them must give what folding all gives: windows share parts, and sessions
// merge. An error undoes what the call did.
type Aggregator[A any] interface {
	// Create is the accumulator of no record.
	Create() A
	// Add takes a record in. An error undoes the record in all its windows.
	Add(ctx *Ctx, acc *A, rec Record) error
	// Merge takes in what another accumulator holds; its records came later.
	Merge(ctx *Ctx, acc *A, other *A) error
	// Result writes the result with ctx.Emit: exactly one row of the declared output.
	Result(ctx *Ctx, acc *A, w Window) error
}

// Retractor is an Aggregator that can take a record out that came in before.
type Retractor[A any] interface {
	Retract(ctx *Ctx, acc *A, rec Record) error
}

// Aggregate is an aggregate for Function.Aggregate.
type Aggregate interface {
	step(c *Ctx, rec Record) error
	state() State
	retracts() bool
}

// NewAggregate makes an aggregate. The host keeps accumulators as the bytes of the codec, which has a bound of
// 1 to 4,096; NewAggregate panics at another one.
func NewAggregate[A any](accumulator Codec[A], logic Aggregator[A]) Aggregate {
	if n := accumulator.MaxBytes(); n < 1 || n > maxPrefetchBytes {
		panic("millrace: an accumulator has a bound of 1 to 4,096 bytes, not " + strconv.Itoa(n))
	}
	r, _ := logic.(Retractor[A])
	return &aggregate[A]{codec: accumulator, logic: logic, retractor: r}
}

type aggregate[A any] struct {
	codec     Codec[A]
	logic     Aggregator[A]
	retractor Retractor[A]
	acc       A // of the step; here, so that nothing is allocated
	other     A
}

func (a *aggregate[A]) retracts() bool { return a.retractor != nil }

func (a *aggregate[A]) state() State { return accumulatorState(a.codec.MaxBytes()) }

var errNoRetract = errors.New("this aggregate takes no record back")

// step does one step. The accumulator is a copy until the step has gone well.
func (a *aggregate[A]) step(c *Ctx, rec Record) (err error) {
	b, ok := c.accumulator(c.key)
	if !ok {
		a.acc = a.logic.Create()
	} else if a.acc, err = a.codec.Decode(b); err != nil {
		return err
	}
	switch rec.Input() {
	case stepAdd:
		err = a.logic.Add(c, &a.acc, rec)
	case stepResult:
		return a.logic.Result(c, &a.acc, Window{rec})
	case stepRetract:
		if a.retractor == nil {
			return errNoRetract
		}
		err = a.retractor.Retract(c, &a.acc, rec)
	default:
		if ok, err = a.merge(c, rec, ok); !ok {
			return err
		}
	}
	if err != nil {
		return err
	}
	if c.enc, err = a.codec.Append(c.enc[:0], a.acc); err != nil {
		return err
	}
	return c.setAccumulator(c.key, c.enc, a.codec.MaxBytes())
}

// merge merges the accumulators that a step lists. The first one takes the place of one that is empty.
func (a *aggregate[A]) merge(c *Ctx, rec Record, there bool) (ok bool, err error) {
	for list := rec.Value(); len(list) > 0; list = list[4:] {
		b, ok := c.accumulator(int(le.Uint32(list)))
		if !ok {
			continue
		}
		if a.other, err = a.codec.Decode(b); err != nil {
			return false, err
		}
		if !there {
			a.acc, there = a.other, true
		} else if err = a.logic.Merge(c, &a.acc, &a.other); err != nil {
			return false, err
		}
	}
	return there, nil
}

// accumulator is an accumulator's bytes in the block; false: it is empty.
func (c *Ctx) accumulator(key int) ([]byte, bool) {
	s := &c.slots[0]
	cell := c.block[s.base+key*s.stride:][:s.stride]
	if le.Uint32(cell[4:])&cellPresent == 0 {
		return nil, false
	}
	return cell[cellHeader:][:le.Uint32(cell)], true
}

func (c *Ctx) setAccumulator(key int, v []byte, most int) error {
	if len(v) > most {
		return errors.New("accumulator of " + strconv.Itoa(len(v)) + " bytes, at most " + strconv.Itoa(most) + " are declared")
	}
	s := &c.slots[0]
	cell := c.block[s.base+key*s.stride:][:s.stride]
	le.PutUint32(cell, uint32(len(v)))
	le.PutUint32(cell[4:], cellPresent|cellChanged)
	copy(cell[cellHeader:], v)
	return nil
}

// accumulatorState declares an accumulator of so many bytes.
type accumulatorState int

func (accumulatorState) bind(int, int) {}

func (s accumulatorState) describe() (name, kind string, maxBytes int) {
	return "accumulator", "value", int(s)
}

// Window is a window that fires, valid until the callback returns. With aggregates it has one element, their
// row.
type Window struct{ rec Record }

// Start is its first instant, ms. Windows without bounds (global, count) have the least number there is.
func (w Window) Start() int64 { return int64(le.Uint64(w.rec.Value()[windowStart:])) }

// End is the instant behind its last, ms. Windows without bounds have the greatest number there is.
func (w Window) End() int64 { return int64(le.Uint64(w.rec.Value()[windowEnd:])) }

// Revision is the number of this result of the window, from 1; 0 where windows give one result each.
func (w Window) Revision() uint32 { return le.Uint32(w.rec.Value()[windowRevision:]) }

// Key is the key; nil for windows over everything.
func (w Window) Key() []byte { return w.rec.Key() }

// Len is the number of elements.
func (w Window) Len() int { return int(le.Uint32(w.rec.Value()[windowCount:])) }

// Elements calls each with the elements in order of arrival, until it returns an error: values and times,
// without keys.
func (w Window) Elements(each func(Record) error) error {
	b := w.rec.Value()[windowHeader:]
	for n := w.Len(); n > 0; n-- {
		size := le.Uint32(b)
		if err := each(Record{b[:size:size]}); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// Row is the row of the window's aggregates, of that many columns. Errors: the window has no aggregates.
func (w Window) Row(fields int) (row Row, err error) {
	if w.Len() == 0 {
		return Row{}, errors.New("the window has no element")
	}
	b := w.rec.Value()[windowHeader:]
	return Record{b[:le.Uint32(b)]}.Row(fields)
}
