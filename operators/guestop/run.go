package guestop

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// RecordError is a guest's fault at one record (or timer) under policy stop. It ends the job.
type RecordError struct {
	Operator string
	Position string
	Fault    *Fault
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("operator %s, record at %s: %v", e.Operator, e.Position, e.Fault)
}

func (e *RecordError) Unwrap() error { return e.Fault }

// run takes a batch of records or timers through the guest. lo is the first record not done. A fault at a
// record makes everything since its call began undone; the records before it run again on a fresh
// instance, then the policy gets the record, then the rest goes on.
func (o *Op) run(kind uint32, b *abi.Batch, marks []abi.Mark, out operators.Collector) error {
	lo, n := 0, b.Len()
	bad, badAt := o.skipped(b, 0)
	for {
		for len(marks) > 0 && int(marks[0].Index) <= lo {
			if err := o.advance(marks[0].Watermark, out); err != nil {
				return err
			}
			marks = marks[1:]
		}
		if lo >= n {
			return nil
		}
		if lo == badAt {
			if err := o.policy(kind, b, lo, bad); err != nil {
				return err
			}
			lo++
			bad, badAt = o.skipped(b, lo)
			continue
		}
		hi := o.cut(n, marks)
		if badAt >= 0 && badAt < hi {
			hi = badAt
		}
		done, fault, err := o.call(kind, b, lo, hi, marks, out)
		if err != nil {
			return err
		}
		if fault != nil {
			fault.Name, fault.Func = o.node.Module, o.fn.Name
			if fault.Record < 0 || fault.Kind == FaultTimeout { // not a record's doing
				return fmt.Errorf("operator %s: %w", o.ctx.Operator, fault)
			}
			bad, badAt = fault, lo+fault.Record
			if err := o.lostMemory(kind, b, badAt, fault); err != nil {
				return err
			}
			continue
		}
		for len(marks) > 0 && int(marks[0].Index) < done {
			o.wm = marks[0].Watermark // handed on by settle, between the outputs
			marks = marks[1:]
		}
		lo = done
		if lo < n {
			crashpoint.Hit(crashpoint.MidBatch)
		}
	}
}

// cut is where the next call must end: at the first mark at which a timer is due.
func (o *Op) cut(n int, marks []abi.Mark) int {
	if o.timers == nil || len(marks) == 0 {
		return n
	}
	at, ok := o.timers.Next(abi.DomainEvent)
	if !ok {
		return n
	}
	for _, m := range marks {
		if m.Watermark >= at {
			return int(m.Index)
		}
	}
	return n
}

// call makes one guest call for records [lo, hi) of b, or fewer. done is the first record not done.
func (o *Op) call(kind uint32, b *abi.Batch, lo, hi int, marks []abi.Mark, out operators.Collector) (done int, f *Fault, err error) {
	blk := &o.blk
	if f = blk.collect(o, b, lo, o.expiry.end(lo, hi)); f != nil {
		if f.Record > 0 { // run those before it first
			f = nil
		} else {
			return lo, f, nil
		}
	}
	o.expiry.begin(o, kind, b, marks)
	for i := range o.pre {
		p := &o.pre[i]
		if err := p.value.Prefetch(blk.keys, p.pos[:len(blk.keys)]); err != nil {
			return lo, nil, fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
		}
	}
	size, err := blk.write(o, kind, b, marks)
	if err != nil {
		return lo, nil, fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	o.env.begin()
	oc := o.guest.Call(size, 0)
	o.stats.Calls++
	o.stats.Fuel += oc.Fuel
	if o.env.err != nil { // a host fault inside a host call: the task fails, nothing was applied
		return lo, nil, fmt.Errorf("operator %s: %w", o.ctx.Operator, o.env.err)
	}
	f = oc.Fault
	if f == nil {
		f = o.check(int(oc.Consumed))
	}
	if f == nil && oc.Consumed == 0 && blk.n > 0 {
		f = o.fault(FaultProtocol, 0, "the call returned without having done a record")
	}
	if f != nil {
		return lo, f, o.discard(f)
	}
	if o.cfg.Observe != nil {
		if err := o.cfg.Observe.Call(&Call{Kind: kind, Fuel: oc.Fuel, Billed: oc.Billed, NowMS: o.now, n: int(oc.Consumed), op: o}); err != nil {
			return lo, nil, fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
		}
	}
	if err := o.settle(kind, b, lo, int(oc.Consumed), marks, out); err != nil {
		return lo, nil, err
	}
	return lo + int(oc.Consumed), nil, nil
}

// fault makes a fault that the host found.
func (o *Op) fault(k FaultKind, record int, format string, args ...any) *Fault {
	return &Fault{Kind: k, Record: record, Message: fmt.Sprintf(format, args...),
		Module: o.module.Digest(), Export: abi.ExportProcess}
}

// discard undoes all effects of the call that faulted and makes the instance as new.
func (o *Op) discard(f *Fault) error {
	o.stats.Faults++
	o.env.lastWords(f)
	if err := o.env.rollback(); err != nil {
		return fmt.Errorf("operator %s: undo after a fault: %w", o.ctx.Operator, err)
	}
	if f.Kind == FaultStopped {
		return fmt.Errorf("operator %s: %w", o.ctx.Operator, f)
	}
	if o.memory != nil {
		o.memory.lost = true
		return nil
	}
	o.stats.Resets++
	if err := o.guest.Reset(); err != nil {
		return fmt.Errorf("operator %s: reset the instance: %w", o.ctx.Operator, err)
	}
	return nil
}

// policy decides what happens to record (or timer) i of a batch, which failed.
func (o *Op) policy(kind uint32, b *abi.Batch, i int, fault *Fault) error {
	if kind == abi.KindRecords {
		b = o.whole
	}
	f := b.Frame(i)
	if o.cfg.Observe != nil {
		o.cfg.Observe.Failed(kind, f, fault)
	}
	where := "timer " + string(f.Value())
	if kind == abi.KindRecords {
		where = o.ctx.Describe(f.Pos())
	} else {
		where = fmt.Sprintf("%s of key %q at %d", where, f.Key(), f.Time())
	}
	if p := o.node.OnError.Policy; p == "skip" || p == "dead_letter" {
		if err := o.onTrial(fault); err != nil {
			return err
		}
	}
	switch o.node.OnError.Policy {
	case "skip":
		o.stats.Skipped++
		o.ctx.Log.Warn("record skipped", "operator", o.ctx.Operator, "position", where, "kind", string(fault.Kind), "error", fault.Message, "stderr", fault.Stderr)
		return nil
	case "dead_letter":
		o.stats.Dead++
		operators.AppendDeadLetter(&o.out.dead, f, &operators.DeadLetter{Operator: o.ctx.Operator, Task: o.ctx.Task,
			Kind: string(fault.Kind), Error: fault.Error(), Module: o.module.Digest(), Position: where,
			Attempts: 1, Timer: kind != abi.KindRecords})
		return nil
	}
	return &RecordError{Operator: o.ctx.Operator, Position: where, Fault: fault}
}

// IsGuestFault says that err is a guest's doing, which another attempt would not cure.
func IsGuestFault(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind != FaultStopped && f.Kind != FaultTimeout
}
