package guestop

import (
	"fmt"

	"github.com/millrace-io/millrace/abi"
	"github.com/millrace-io/millrace/checkpoint/crashpoint"
	"github.com/millrace-io/millrace/operators"
)

// check looks at everything a call that returned left behind, without applying any of it.
func (o *Op) check(consumed int) *Fault {
	if f := o.checkOutputs(consumed); f != nil {
		return f
	}
	if len(o.pre) == 0 {
		return nil
	}
	in, err := o.guest.In(o.blk.size)
	if err != nil {
		return o.fault(FaultProtocol, -1, "read the block back: %v", err)
	}
	for i := range o.pre {
		p := &o.pre[i]
		at := p.base
		for j := range o.blk.keys {
			if n := le.Uint32(in[at:]); in[at+4]&abi.CellChanged != 0 && n > uint32(p.maxBytes) {
				return o.fault(FaultLimit, int(o.blk.last[j]), "a value of %d bytes, the state declares at most %d", n, p.maxBytes)
			}
			at += p.stride
		}
	}
	return nil
}

// checkOutputs walks the frames of the call: each well formed, its cause a record done and not before the
// last one's, its output declared, and no record over the output limits.
func (o *Op) checkOutputs(consumed int) *Fault {
	rest := o.guest.Out()
	offs := o.out.offs[:0]
	last, count, size, single := uint32(0), 0, 0, len(o.env.emits) == 0
	at := uint32(0)
	for len(rest) > 0 {
		f, r, err := abi.NextFrame(rest)
		if err != nil {
			return o.fault(FaultProtocol, int(last), "output at byte %d: %v", at, err)
		}
		c := f.Cause()
		if c < last || int(c) >= consumed {
			return o.fault(FaultProtocol, int(last), "an output says it comes from record %d, expected %d to %d", c, last, consumed-1)
		}
		if c != last {
			last, count, size = c, 0, 0
		}
		count++
		size += len(f)
		if count > abi.MaxOutputsPerRecord || size > abi.MaxOutputBytes {
			return o.fault(FaultLimit, int(c), "more than %d outputs or %d bytes from one record", abi.MaxOutputsPerRecord, abi.MaxOutputBytes)
		}
		if count > 1 && o.single() {
			return o.fault(FaultProtocol, int(c), "a %s function gives at most one output for a record", o.fn.Kind)
		}
		if len(f) > abi.MaxRecordBytes {
			return o.fault(FaultLimit, int(c), "an output of %d bytes, at most %d", len(f), abi.MaxRecordBytes)
		}
		if n := f.Output(); n != 0 {
			single = false
			if int(n) > len(o.fn.Outputs) {
				return o.fault(FaultProtocol, int(c), "output %d, the function declares %d side outputs", n, len(o.fn.Outputs))
			}
		}
		offs = append(offs, at)
		at += uint32(len(f))
		rest = r
	}
	o.out.offs, o.out.single = offs, single
	return nil
}

// settle applies the effects of a good call: values, timers, outputs with the marks between them, failures
// the guest returned, logs. Nothing here can fail for the guest's sake.
func (o *Op) settle(kind uint32, b *abi.Batch, lo, consumed int, marks []abi.Mark, out operators.Collector) error {
	o.expiry.settle(o, consumed)
	if err := o.storeCells(); err != nil {
		return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	crashpoint.Hit(crashpoint.AfterState)
	if err := o.env.applyTimers(); err != nil {
		return fmt.Errorf("operator %s: %w", o.ctx.Operator, err)
	}
	o.takeOutputs(lo, consumed, marks)
	for _, f := range o.env.failures {
		fault := o.fault(FaultReturned, f.record, "%s", f.msg)
		fault.Name, fault.Func = o.node.Module, o.fn.Name
		o.stats.Faults++
		if err := o.policy(kind, b, lo+f.record, fault); err != nil {
			return err
		}
	}
	o.env.commit()
	if o.out.main().Full(abi.MaxBatchRecords) {
		return o.out.flush(out)
	}
	return nil
}

func (o *Op) storeCells() error {
	if len(o.pre) == 0 {
		return nil
	}
	in, err := o.guest.In(o.blk.size)
	if err != nil {
		return err
	}
	for i := range o.pre {
		p := &o.pre[i]
		n := len(o.blk.keys)
		if err := p.value.StoreCells(o.blk.keys, p.pos[:n], in[p.base:p.base+n*p.stride], p.stride); err != nil {
			return err
		}
	}
	return nil
}

// takeOutputs moves the call's frames to the output batches, each mark before the first output of a record
// at or after it.
func (o *Op) takeOutputs(lo, consumed int, marks []abi.Mark) {
	data := o.guest.Out()
	for len(marks) > 0 && int(marks[len(marks)-1].Index) >= lo+consumed {
		marks = marks[:len(marks)-1]
	}
	o.stats.Out += int64(len(o.out.offs) + len(o.env.emits))
	if o.out.single && len(marks) == 0 && !o.filters() {
		m := o.out.main()
		base := uint32(len(m.Data))
		m.Data = append(m.Data, data...)
		for _, off := range o.out.offs {
			m.Off = append(m.Off, base+off)
		}
		return
	}
	emits := o.env.emits
	put := func(f abi.Frame) {
		for len(marks) > 0 && marks[0].Index <= uint32(lo)+f.Cause() {
			o.out.mark(marks[0].Watermark)
			marks = marks[1:]
		}
		if o.filters() && f.Output() == operators.OutputMain {
			f = o.whole.Frame(lo + int(f.Cause()))
		}
		o.out.batch(int(f.Output())).AppendFrame(f)
	}
	for i, off := range o.out.offs {
		for len(emits) > 0 && emits[0].at <= int(off) {
			put(o.env.arena[emits[0].lo:emits[0].hi])
			emits = emits[1:]
		}
		end := uint32(len(data))
		if i+1 < len(o.out.offs) {
			end = o.out.offs[i+1]
		}
		put(abi.Frame(data[off:end]))
	}
	for _, e := range emits {
		put(o.env.arena[e.lo:e.hi])
	}
	for _, m := range marks {
		o.out.mark(m.Watermark)
	}
}

// filters says that what the function keeps has to go on as it came, with the fields it does not read.
// While a canary is on, that is seen to behind the call.
func (o *Op) filters() bool {
	return o.proj != nil && o.fn.Kind == abi.FunctionFilter && o.canary == nil
}

// single says that the function's kind allows one output for a record.
func (o *Op) single() bool { return o.fn.Kind == abi.FunctionMap || o.fn.Kind == abi.FunctionFilter }
