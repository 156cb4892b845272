package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// With a canary a batch is cut into spans in which the order of records of different keys can't be seen: each side
// gets its records of a span together, in their order, and what both gave is put back into the order of the records
// that caused it. So the output is what one code for all keys would give, byte for byte, and calls stay large.
//
// A span ends at a watermark where the function has timers of event time, or states with a TTL: what fires, and
// what has expired, may depend on everything before it. Elsewhere marks are inside, and each side sees them at their
// places among its records.

// split is what is needed to do so.
type split struct {
	part  [2]part // in force, candidate
	gave  []given // by output; the last are dead letters
	out   outputs // of a call
	limit int     // records of the next span, at most; 0: as many as a call may have
	b     *abi.Batch
	taker taker
}

// part is one side's records of a span.
type part struct {
	b  abi.Batch
	at []int // place of each in the batch
}

// given is frames with the places of the records that caused them: of the side in force, then, from mid on, of the
// candidate.
type given struct {
	b   abi.Batch
	at  []int
	mid int
}

// manyBytes is how much the outputs of a span may take before the next one is made shorter.
const manyBytes = 4 << 20

// batchBySide is Batch with a canary.
func (o *Op) batchBySide(b *abi.Batch, out operators.Collector) error {
	if len(b.Hash) != b.Len() {
		b.Hash = b.Hash[:0]
		for i := range b.Off {
			b.Hash = append(b.Hash, o.ctx.Hasher.Hash(b.Frame(i).Key()))
		}
	}
	marks := b.Marks
	for lo := 0; ; {
		for len(marks) > 0 && int(marks[0].Index) <= lo {
			if err := o.advance(marks[0].Watermark, out); err != nil {
				return err
			}
			marks = marks[1:]
		}
		if lo >= b.Len() {
			break
		}
		hi := o.spanEnd(lo, b.Len(), marks)
		n := 0
		for n < len(marks) && int(marks[n].Index) < hi {
			n++
		}
		if err := o.span(abi.KindRecords, b, lo, hi, marks[:n], out); err != nil {
			return err
		}
		if n > 0 {
			o.wm = marks[n-1].Watermark
		}
		lo, marks = hi, marks[n:]
	}
	o.canary.show(o)
	o.expiry.passed(o)
	return o.out.flush(out)
}

// spanEnd is where a span that begins at lo ends.
func (o *Op) spanEnd(lo, n int, marks []abi.Mark) int {
	s := &o.canary.split
	if s.limit == 0 {
		s.limit = abi.MaxBatchRecords
	}
	hi := min(n, lo+s.limit)
	if len(marks) > 0 && (o.declares(abi.DomainEvent) || o.expiry != nil) {
		hi = min(hi, int(marks[0].Index))
	}
	return hi
}

// timersBySide runs a round of timers, each by the side of its key.
func (o *Op) timersBySide(kind uint32, b *abi.Batch, out operators.Collector) error {
	err := o.span(kind, b, 0, b.Len(), nil, out)
	o.canary.show(o)
	return err
}

// span runs records (or timers) [lo, hi) of b, each by the side of its key, with the marks between them.
func (o *Op) span(kind uint32, b *abi.Batch, lo, hi int, marks []abi.Mark, out operators.Collector) error {
	c := o.canary
	s := &c.split
	s.b = b
	o.divide(b, lo, hi, marks)
	s.out.fit(len(o.fn.Outputs))
	for len(s.gave) < len(s.out.b)+1 {
		s.gave = append(s.gave, given{})
	}
	for i := range s.gave {
		s.gave[i].b.Reset()
		s.gave[i].at = s.gave[i].at[:0]
	}
	o.out, s.out = s.out, o.out
	wm := o.wm
	var err error
	for i := range s.part {
		if i == 1 {
			o.turn()
			for k := range s.gave {
				s.gave[k].mid = len(s.gave[k].at)
			}
		}
		if err == nil {
			o.wm = wm
			err = o.runPart(kind, i)
		}
	}
	o.turn()
	o.out, s.out = s.out, o.out
	if err != nil {
		return err
	}
	o.wm = wm
	size := 0
	for i := range s.gave {
		size += len(s.gave[i].b.Data)
		to := &o.out.dead
		if i < len(s.gave)-1 {
			to = o.out.batch(i)
		}
		s.join(i, to, marks)
	}
	switch {
	case size > manyBytes:
		s.limit = max(1, (hi-lo)/2)
	case s.limit < abi.MaxBatchRecords:
		s.limit++
	}
	if o.out.main().Full(abi.MaxBatchRecords) {
		return o.out.flush(out)
	}
	return nil
}

// divide fills the parts.
func (o *Op) divide(b *abi.Batch, lo, hi int, marks []abi.Mark) {
	s := &o.canary.split
	for i := range s.part {
		p := &s.part[i]
		p.b.Reset()
		p.at = p.at[:0]
	}
	mark := func() {
		for i := range s.part {
			p := &s.part[i]
			p.b.Marks = append(p.b.Marks, abi.Mark{Index: uint32(p.b.Len()), Watermark: marks[0].Watermark})
		}
		marks = marks[1:]
	}
	for i := lo; i < hi; i++ {
		for len(marks) > 0 && int(marks[0].Index) <= i {
			mark()
		}
		p := &s.part[0]
		if o.canary.slots.Contains(b.Hash[i]) {
			p = &s.part[1]
		}
		p.b.AppendFrame(b.Frame(i))
		p.b.Hash = append(p.b.Hash, b.Hash[i])
		p.at = append(p.at, i)
	}
}

// runPart runs a side's records of a span; the side is in the operator. As run, but nothing fires.
func (o *Op) runPart(kind uint32, number int) error {
	s := &o.canary.split
	p, to := &s.part[number], &s.taker
	b, n := &p.b, p.b.Len()
	if n == 0 {
		return nil
	}
	if kind == abi.KindRecords {
		o.whole = b
		if o.proj != nil {
			pb, err := o.proj.apply(b)
			if err != nil {
				return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
			}
			b = pb
		}
		o.stats.In += int64(n)
	} else if number == 1 { // all were counted for the side in force
		o.stats.Timers += int64(n)
		o.canary.asleep.stats.Timers -= int64(n)
	}
	marks := b.Marks
	var bad *Fault
	badAt := -1
	for lo := 0; lo < n; {
		for len(marks) > 0 && int(marks[0].Index) <= lo {
			o.wm, marks = marks[0].Watermark, marks[1:]
		}
		*to = taker{o: o, at: p.at[lo:], refused: lo == badAt}
		if lo == badAt {
			if err := o.policy(kind, b, lo, bad); err != nil {
				return err
			}
			if err := o.out.flush(to); err != nil {
				return err
			}
			lo, badAt = lo+1, -1
			continue
		}
		hi := n
		if badAt >= 0 {
			hi = badAt
		}
		done, fault, err := o.call(kind, b, lo, hi, marks, to)
		if err != nil {
			return err
		}
		if fault != nil {
			fault.Name, fault.Func = o.node.Module, o.fn.Name
			if fault.Record < 0 || fault.Kind == FaultTimeout {
				return fmt.Errorf("operator %s: %w", o.ctx.Operator, fault)
			}
			bad, badAt = fault, lo+fault.Record
			continue
		}
		if err := o.out.flush(to); err != nil {
			return err
		}
		if lo = done; lo < n {
			crashpoint.Hit(crashpoint.MidBatch)
		}
	}
	return nil
}

// taker takes what a call gave.
type taker struct {
	o       *Op
	at      []int // places of the call's records
	refused bool  // there was none: it is the dead letter of the first
}

// Emit implements operators.Collector.
func (t *taker) Emit(output int, b *abi.Batch) error {
	s := &t.o.canary.split
	dead := output == operators.OutputDeadLetter
	if dead {
		output = len(s.gave) - 1
	}
	g := &s.gave[output]
	restores := output == operators.OutputMain && t.o.proj != nil && t.o.fn.Kind == abi.FunctionFilter
	for i := range b.Off {
		f := b.Frame(i)
		record := 0
		switch {
		case !dead:
			record = int(f.Cause())
		case !t.refused:
			record = t.o.env.failures[i].record
		}
		at := t.at[record]
		if restores { // what a filter keeps goes on with the fields that it does not read
			f = s.b.Frame(at)
		}
		g.b.AppendFrame(f)
		g.at = append(g.at, at)
	}
	return nil
}

// join puts what both sides gave on an output into the order of the records, with the marks at their places.
func (s *split) join(output int, to *abi.Batch, marks []abi.Mark) {
	g := &s.gave[output]
	for i, j := 0, g.mid; i < g.mid || j < len(g.at); {
		next := &j
		if i < g.mid && (j == len(g.at) || g.at[i] < g.at[j]) {
			next = &i
		}
		for len(marks) > 0 && int(marks[0].Index) <= g.at[*next] {
			to.Mark(marks[0].Watermark)
			marks = marks[1:]
		}
		to.AppendFrame(g.b.Frame(*next))
		*next++
	}
	for _, m := range marks {
		to.Mark(m.Watermark)
	}
}
